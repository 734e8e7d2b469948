"""The policies that match a queue, for its row in lists.

The effective values of a queue are in its options. The names of the matching policies are computed for each row: for
most patterns that is faster than a lookup. The result of a pattern that is slow on a name is cached until the policies
change.
"""

from __future__ import annotations

from time import perf_counter

from leveret.broker.policy import Policy
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_policies import Matching
from leveret.queues.declared_queue import DeclaredQueue

SLOW = 0.001  # seconds
MOST = 10_000  # cached results

Of = tuple[str, str, str]  # virtual host, kind and name


class PolicyMatches:
    def __init__(self) -> None:
        self._slow: dict[Of, tuple[tuple[Policy, ...], Matching]] = {}  # each with the policies it was computed for

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
