"""Sharded exchanges: the part of a broker that follows sharding policies.

``Sharding(broker).start()`` is called once, after definitions and messages are restored. It then follows the policies
of each exchange and the nodes of the membership.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.logs import get_log
from leveret.sharding.ordered_slots import COMPONENT, finish_left
from leveret.sharding.pseudo_queues import PseudoQueues
from leveret.sharding.sharded_exchange import Membership, Plan, ShardedExchange, Unfinished


class Sharding:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sharded: dict[tuple[str, str], ShardedExchange] = {}
        self._unfinished: Unfinished = {}
        self._nodes: set[str] = set()
        self._names = PseudoQueues(self.find, broker)
        self._log = get_log("sharding")
        self.membership = Membership(broker.node_name, self._follow_members)

    def start(self) -> None:
        self._nodes = {*self.membership.names}
        self._broker.policies.watch_exchanges(self._follow_policy, [*self._broker.vhosts.values()])
        for vhost in self._broker.vhosts.values():
            for exchange in vhost.parameters.names(COMPONENT):
                found = self.find(vhost.name, exchange)
                if found is None or found.slots is None:
                    self._unfinished[vhost.name, exchange] = finish_left(self._broker, vhost, exchange)

    def find(self, vhost: str, exchange: str) -> ShardedExchange | None:
        return self._sharded.get((vhost, exchange))

    def _follow_policy(self, vhost: Vhost, name: str, definition: Mapping[str, object]) -> None:
        exchange = vhost.exchanges.get(name)
        known = self._sharded.get((vhost.name, name))
        plan = None if exchange is None else Plan.of(definition, exchange)
        if known is not None and (plan is None or known.exchange is not exchange):
            known.stop()
            del self._sharded[vhost.name, name], vhost.pools[name]
            self._names.needed(bool(self._sharded))
            known = None
        if plan is None or exchange is None:
            return
        if known is None:
            known = ShardedExchange(self._broker, vhost, exchange, self.membership, self._unfinished)
            self._sharded[vhost.name, name] = vhost.pools[name] = known
            self._names.needed(True)
        if definition.get("ordered-resize") and not plan.is_ordered:
            told = {"exchange": name, "vhost": vhost.name, "kind": exchange.kind}
            remedy = "it needs an exchange of type x-modulus-hash over queues that are no streams"
            self._log.warning(f"ordered-resize has no effect: {remedy}", **told)
        known.follow(plan)
        self._broker.wake()

    def _follow_members(self) -> None:
        names = {*self.membership.names}
        left: Collection[str] = self._nodes - names
        self._nodes = names
        for sharded in self._sharded.values():
            sharded.follow(sharded.plan, left)
        self._broker.wake()
