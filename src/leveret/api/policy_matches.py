"""Which policies match a queue, for those who show it.

What holds for a queue is in its options; which policies that came from is matched anew, since for most patterns that
is quicker than to look it up. A pattern that takes long on a name is not asked again for each row of each list: its
answer is kept until the policies change.
"""

from __future__ import annotations

from time import perf_counter

from leveret.broker.policy import Policy
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_policies import Matching
from leveret.queues.declared_queue import DeclaredQueue

SLOW = 0.001  # seconds
MOST = 10_000  # answers

Of = tuple[str, str, str]  # virtual host, kind and name


class PolicyMatches:
    def __init__(self) -> None:
        self._slow: dict[Of, tuple[tuple[Policy, ...], Matching]] = {}  # with the policies that there were

    def __len__(self) -> int:
        return len(self._slow)

    def of(self, vhost: Vhost, queue: DeclaredQueue) -> Matching:
        policies = vhost.policies.in_order()
        if not policies:
            return [], []
        of = vhost.name, queue.options.kind, queue.name
        known = self._slow.get(of)
        if known is not None and known[0] == policies:
            return known[1]
        began = perf_counter()
        found = vhost.policies.matching(queue.options.kind, queue.name)
        if perf_counter() - began >= SLOW:
            self._slow.pop(of, None)
            while len(self._slow) >= MOST:
                del self._slow[next(iter(self._slow))]
            self._slow[of] = policies, found
        return found
