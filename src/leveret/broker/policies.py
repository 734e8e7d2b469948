"""The policies of all virtual hosts: set, deleted, and followed by everything that lives at that moment.

A change is recorded before it takes effect. Then those whose names the old or the new version matches get the values
that hold now. So a change costs one match per name, or two where the pattern is another one, and one per policy for
each name that is matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from leveret.broker.errands import Errands
from leveret.broker.policy import EXCHANGE, Policy, make_policy
from leveret.broker.policy_merge import Explanation
from leveret.broker.rows import POLICY_COMPONENTS, policy_row
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_policies import KnownOptions
from leveret.errors import NotFound, PreconditionFailed
from leveret.logs import get_log
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import QueueOptions
from leveret.routing.exchange import Exchange
from leveret.store.definitions import Change, Drop, ParameterRow, Put

# Told what holds for an exchange, by policy keys, whenever that changes; nothing holds for one that is gone.
ExchangeHook = Callable[[Vhost, str, Mapping[str, object]], None]
Touched = tuple[dict[ClassicQueue, None], dict[Exchange, None]]

SECONDS = 0.5  # for a pattern, over all names: everybody else waits meanwhile
SECONDS_PER_NAME = 20e-6  # in addition: where there are very many, a plain pattern takes its time too


class Policies:
    def __init__(self, vhost: Callable[[str], Vhost], record: Callable[[Change], None], errands: Errands) -> None:
        self._vhost = vhost
        self._record = record
        self._errands = errands
        self.on_exchange_changed: list[ExchangeHook] = []
        self.refuse: Callable[[Policy, Policy | None], None] = lambda policy, before: None  # its plugin may be off

    def set(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: Mapping[str, object],
        *,
        apply_to: str = "all",
        priority: int = 0,
        operator: bool = False,
    ) -> Policy:
        """In place of one with its name. PreconditionFailed says what is wrong with it."""
        home = self._vhost(vhost)
        policy = make_policy(vhost, name, pattern, definition, apply_to, priority, operator)
        before = home.policies.get(name, operator)
        self.refuse(policy, before)
        touched = _touched_by_new(home, policy)
        if before is not None and (before.pattern, before.apply_to) != (pattern, apply_to):
            touched = _both(touched, _touched_by_known(home, before))
        self._record(Put(policy_row(policy)))
        home.policies.put(policy)
        self._follow(home, touched)
        return policy

    def delete(self, vhost: str, name: str, operator: bool = False) -> None:
        home = self._vhost(vhost)
        policy = home.policies.get(name, operator)
        if policy is None:
            raise NotFound(f"no {'operator ' if operator else ''}policy '{name}' in vhost '{vhost}'")
        touched = _touched_by_known(home, policy)
        self._record(Drop(ParameterRow, (vhost, POLICY_COMPONENTS[operator], name)))
        home.policies.drop(policy)
        self._follow(home, touched)

    def list(self, vhost: str) -> tuple[Policy, ...]:
        """In the order in which they win; operator policies last."""
        return self._vhost(vhost).policies.in_order()

    def explain(self, vhost: str, thing: ClassicQueue | Exchange) -> Explanation:
        """Where each value comes from that holds for a queue or exchange."""
        return self._vhost(vhost).policies.explain(thing)

    # ---- exchanges whose definitions somebody reads

    def watch_exchanges(self, hook: ExchangeHook, vhosts: Iterable[Vhost]) -> None:
        """Tell ``hook`` what holds for the exchanges of these virtual hosts, and from now on what changes anywhere.

        Call it after the definitions are restored: a hook that makes queues must find those that were kept.
        """
        self.on_exchange_changed.append(hook)
        for vhost in vhosts:
            for exchange, definition in [*vhost.policies.definitions.items()]:
                hook(vhost, exchange, definition)

    def attend(self, vhost: Vhost) -> None:
        """From now on the news of this virtual host reach the hooks."""
        vhost.policies.tell = lambda exchange, definition: self._tell(vhost, exchange, definition)

    def _tell(self, vhost: Vhost, exchange: str, definition: Mapping[str, object]) -> None:
        for hook in [*self.on_exchange_changed]:
            try:
                hook(vhost, exchange, definition)
            except Exception:  # noqa: BLE001 - the policy is recorded: the others must follow it
                get_log("broker").exception(
                    "internal error while applying a policy", exchange=exchange, vhost=vhost.name
                )

    # ---- those who follow

    def _follow(self, home: Vhost, touched: Touched) -> None:
        self._errands.begin(Following(self._errands, home, touched))
        self._errands.wake()


class Following:
    """An errand: queues and exchanges get the values that hold now."""

    def __init__(self, errands: Errands, home: Vhost, touched: Touched) -> None:
        self._errands = errands
        self._home = home
        self._queues, self._exchanges = list(touched[0])[::-1], list(touched[1])[::-1]
        self._known: KnownOptions = {}
        self._change = home.policies.changes

    def step(self) -> bool:
        home, time_slice, is_new = self._home, self._errands.new_slice(), False
        if self._change != home.policies.changes:  # another policy was set meanwhile
            self._known, self._change = {}, home.policies.changes
        while self._queues and not time_slice.is_over:
            queue = self._queues.pop()
            options = home.policies.options_now(queue, self._known)
            if queue.alive and options != queue.options:
                is_new = True
                _apply(queue, options)
        if is_new:
            home.epoch += 1  # routes remember what some options ask for
        while self._exchanges and not self._queues and not time_slice.is_over:
            exchange = self._exchanges.pop()
            if home.exchanges.get(exchange.name) is exchange:
                home.follow_policies(exchange)
        return bool(self._queues or self._exchanges)


def _apply(queue: ClassicQueue, options: QueueOptions) -> None:
    try:
        queue.apply(options)
    except Exception:  # noqa: BLE001 - one queue's bug must not keep the policy from the others
        get_log("broker").exception("internal error while applying a policy", queue=queue.name, vhost=queue.vhost)


def _touched_by_new(home: Vhost, policy: Policy) -> Touched:
    try:
        return touched_by(home, policy)
    except TimeoutError:
        raise PreconditionFailed(
            f"{policy.label} in vhost '{home.name}': pattern {policy.pattern!r} takes too long on "
            "names that are there: write a simpler one"
        ) from None


def _touched_by_known(home: Vhost, policy: Policy) -> Touched:
    try:
        return touched_by(home, policy)
    except TimeoutError:  # on names that came after it: better ask all than wait at each
        return _touched(home, lambda kind, name: True)


def touched_by(home: Vhost, policy: Policy) -> Touched:
    """Those that the policy is for. TimeoutError: its pattern takes too long on one name, or on all of them."""
    now = home.surroundings.now
    end = now() + SECONDS + SECONDS_PER_NAME * (len(home.queues) + len(home.exchanges))

    def covers(kind: str, name: str) -> bool:
        if now() > end:
            raise TimeoutError
        return policy.covers(kind, name)

    return _touched(home, covers)


def _touched(home: Vhost, covers: Callable[[str, str], bool]) -> Touched:
    queues = [queue for queue in home.queues.values() if covers(queue.options.kind, queue.name)]
    exchanges = [each for each in home.exchanges.values() if each.name and covers(EXCHANGE, each.name)]
    return dict.fromkeys(queues), dict.fromkeys(exchanges)


def _both(some: Touched, others: Touched) -> Touched:
    return some[0] | others[0], some[1] | others[1]
