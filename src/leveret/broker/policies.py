"""The policies of all virtual hosts: set, deleted, and applied to existing queues and exchanges.

A change is recorded before it takes effect. Then every object matched by the old or the new version gets its new
effective values. A change therefore costs one match per name (two if the pattern changed), plus one per policy for each
matched name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from leveret.broker.background import BackgroundTasks
from leveret.broker.plugins import Plugins
from leveret.broker.policy import EXCHANGE, Policy, make_policy
from leveret.broker.policy_merge import Explanation
from leveret.broker.rows import POLICY_COMPONENTS, policy_row
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_policies import KnownOptions
from leveret.errors import NotFound, PreconditionFailed
from leveret.logs import get_log
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.routing.exchange import Exchange
from leveret.store.definitions import Change, Drop, ParameterRow, Put

# Called with the effective policy keys of an exchange whenever they change; they are empty for a deleted exchange.
ExchangeHook = Callable[[Vhost, str, Mapping[str, object]], None]
Touched = tuple[dict[DeclaredQueue, None], dict[Exchange, None]]

SECONDS = 0.5  # for a pattern over all names, which blocks the event loop
SECONDS_PER_NAME = 20e-6  # in addition, because with very many names even a simple pattern takes time


class Policies:
    def __init__(
        self,
        vhost: Callable[[str], Vhost],
        record: Callable[[Change], None],
        background: BackgroundTasks,
        plugins: Plugins,
    ) -> None:
        self._vhost = vhost
        self._record = record
        self._background = background
        self.on_exchange_changed: list[ExchangeHook] = []
        self._plugins = plugins

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
        is_new: bool = True,
    ) -> Policy:
        """Set a policy, replacing one of the same name. PreconditionFailed names the invalid part. ``is_new`` False: it
        was set before, or in another cell, and stays if its plugin is disabled."""
        home = self._vhost(vhost)
        policy = make_policy(vhost, name, pattern, definition, apply_to, priority, operator)
        before = home.policies.get(name, operator)
        if is_new:
            self._plugins.refuse_policy(policy, before)
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
        """The policies by precedence, operator policies last."""
        return self._vhost(vhost).policies.in_order()

    def explain(self, vhost: str, thing: DeclaredQueue | Exchange) -> Explanation:
        """The source of each effective value of a queue or exchange."""
        return self._vhost(vhost).policies.explain(thing)

    # ---- hooks for the policies of exchanges

    def watch_exchanges(self, hook: ExchangeHook, vhosts: Iterable[Vhost]) -> None:
        """Call ``hook`` with the effective policies of the exchanges of these virtual hosts, and at every change.

        Call this after the definitions are restored: a hook that creates queues must find the restored ones.
        """
        self.on_exchange_changed.append(hook)
        for vhost in vhosts:
            for exchange, definition in [*vhost.policies.definitions.items()]:
                hook(vhost, exchange, definition)

    def exchange_changed(self, vhost: Vhost, exchange: str, definition: Mapping[str, object]) -> None:
        for hook in [*self.on_exchange_changed]:
            try:
                hook(vhost, exchange, definition)
            except Exception:  # noqa: BLE001 - the policy is recorded and must be applied to the others
                get_log("broker").exception(
                    "internal error while applying a policy", exchange=exchange, vhost=vhost.name
                )

    # ---- application of changes

    def _follow(self, home: Vhost, touched: Touched) -> None:
        self._background.begin(Following(self._background, home, touched))
        self._background.wake()


class Following:
    """A background task that gives queues and exchanges their new effective values."""

    def __init__(self, background: BackgroundTasks, home: Vhost, touched: Touched) -> None:
        self._background = background
        self._home = home
        self._queues, self._exchanges = list(touched[0])[::-1], list(touched[1])[::-1]
        self._known: KnownOptions = {}
        self._change = home.policies.changes

    def step(self) -> bool:
        home, time_slice, is_new = self._home, self._background.new_slice(), False
        if self._change != home.policies.changes:  # another policy was set meanwhile
            self._known, self._change = {}, home.policies.changes
        while self._queues and not time_slice.is_over:
            queue = self._queues.pop()
            options = home.policies.options_now(queue, self._known)
            if queue.alive and options != queue.options:
                is_new = True
                _apply(queue, options)
        if is_new:
            home.epoch += 1  # cached routes depend on some options
        while self._exchanges and not self._queues and not time_slice.is_over:
            exchange = self._exchanges.pop()
            if home.exchanges.get(exchange.name) is exchange:
                home.follow_policies(exchange)
        return bool(self._queues or self._exchanges)


def _apply(queue: DeclaredQueue, options: QueueOptions) -> None:
    try:
        queue.apply(options)
    except Exception:  # noqa: BLE001 - an error in one queue must not keep the policy from the others
        get_log("broker").exception("internal error while applying a policy", queue=queue.name, vhost=queue.vhost)


def _touched_by_new(home: Vhost, policy: Policy) -> Touched:
    try:
        return touched_by(home, policy)
    except TimeoutError:
        raise PreconditionFailed(
            f"{policy.label} in vhost '{home.name}': pattern {policy.pattern!r} takes too long on "
            "existing names: use a simpler one"
        ) from None


def _touched_by_known(home: Vhost, policy: Policy) -> Touched:
    try:
        return touched_by(home, policy)
    except TimeoutError:  # a name that was declared later: visit all objects instead
        return _touched(home, lambda kind, name: True)


def touched_by(home: Vhost, policy: Policy) -> Touched:
    """Objects that the policy applies to. TimeoutError: the pattern takes too long on one name, or on all of them."""
    now = home.queue_context.now
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
