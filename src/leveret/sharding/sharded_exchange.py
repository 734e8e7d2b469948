"""One exchange with a sharding policy: a number of queues for each node, which consumers see as one.

Shards are declared and bound, and never deleted: their messages belong to the user. Without ``ordered-resize`` a
smaller number has no effect, and the shards of a node that leaves are unbound. With ``ordered-resize``, surplus shards
are unbound, and their slots move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.vhost import Follower, Vhost
from leveret.errors import AmqpError, NotFound
from leveret.logs import get_log
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.stream_options import STREAM
from leveret.routing.bindings import Binding, Destination
from leveret.routing.consistent_hash import ConsistentHashExchange
from leveret.routing.exchange import Exchange
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.sharding.ordered_slots import OrderedSlots

LEAST_WEIGHT = "1"
Unfinished = dict[tuple[str, str], OrderedSlots]  # by vhost and exchange: stopped, but may have messages to move


class ConsumerAssignment:
    """Assigns to each consumer of a pool the shards that it consumes from.

    A consumer has one shard of its node, so that all shards have the same number of consumers, plus or minus one. It
    also has all draining shards, since held messages wait until these are empty. ``x-shard-all`` assigns all shards.
    """

    def __init__(self) -> None:
        self._everything: dict[Follower, None] = {}
        self._own: dict[Follower, DeclaredQueue | None] = {}

    def enter(self, follower: Follower, everything: bool) -> None:
        if everything:
            self._everything[follower] = None
        else:
            self._own[follower] = None

    def leave(self, follower: Follower) -> None:
        self._everything.pop(follower, None)
        self._own.pop(follower, None)

    def share(
        self,
        shards: Sequence[DeclaredQueue],
        local: Sequence[DeclaredQueue],
        draining: Sequence[DeclaredQueue],
        only: Follower | None,
    ) -> None:
        """Assign shards to all consumers, or to a new consumer."""
        self._assign(local, may_move=only is None)
        for follower in [*self._everything]:
            if only in (None, follower):
                follower.follow([*shards, *draining])
        for follower, own in [*self._own.items()]:
            if only in (None, follower):
                follower.follow([*([] if own is None else [own]), *draining])

    def _assign(self, local: Sequence[DeclaredQueue], may_move: bool) -> None:
        if not local:
            return
        counts: Counter[DeclaredQueue] = Counter(dict.fromkeys(local, 0))
        for follower, own in self._own.items():
            if own is not None and own in counts:
                counts[own] += 1
            else:
                self._own[follower] = None
        for follower, own in self._own.items():
            if own is None:
                fewest = min(local, key=lambda queue: (counts[queue], len(queue.consumers)))
                self._own[follower] = fewest
                counts[fewest] += 1
        if may_move:
            self._even_out(local, counts)

    def _even_out(self, local: Sequence[DeclaredQueue], counts: Counter[DeclaredQueue]) -> None:
        for follower, own in [*self._own.items()]:
            fewest = min(local, key=lambda queue: counts[queue])
            if own is not None and counts[own] - counts[fewest] > 1:
                counts[own] -= 1
                counts[fewest] += 1
                self._own[follower] = fewest


class Membership:
    """The nodes of the cluster by name. Shards are declared for each of them, all as queues of this process.

    It starts with the node itself, which cannot leave. ``on_change`` is called after each change."""

    def __init__(self, own: str, on_change: Callable[[], None]) -> None:
        self.own = own
        self._names: dict[str, None] = {own: None}
        self._on_change = on_change

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes, in the order in which they joined."""
        return tuple(self._names)

    def join(self, name: str) -> None:
        """Joining twice has no effect."""
        if not name:
            raise ValueError("a node without a name cannot join: give it one")
        if name not in self._names:
            self._names[name] = None
            self._on_change()

    def leave(self, name: str) -> None:
        """Leaving twice has no effect."""
        if name == self.own:
            raise ValueError(f"node '{name}' cannot leave itself: stop it instead")
        if name in self._names:
            del self._names[name]
            self._on_change()


def shard_name(exchange: str, node: str, index: int) -> str:
    """The name of a shard, as in RabbitMQ's sharding plugin."""
    return f"sharding: {exchange} - {node} - {index}"


class Plan(NamedTuple):
    """The settings of the policy."""

    per_node: int
    key: str
    is_ordered: bool
    queue_type: str = ""  # of the shards; empty: the default type

    @staticmethod
    def of(definition: Mapping[str, object], exchange: Exchange) -> Plan | None:
        number = definition.get("shards-per-node")
        if not isinstance(number, int) or definition.get("sharded") is False:
            return None
        key = str(definition.get("routing-key", ""))
        if isinstance(exchange, ConsistentHashExchange):
            key = key or LEAST_WEIGHT  # its binding keys are weights
        queue_type = str(definition.get("shard-queue-type", ""))
        ordered = definition.get("ordered-resize") is True and isinstance(exchange, ModulusHashExchange)
        return Plan(number, key, ordered and queue_type != STREAM, queue_type)  # a stream is never empty


class ShardedExchange:
    """A sharded exchange is the pool of its shards (broker/vhost.py)."""

    def __init__(
        self, broker: Broker, vhost: Vhost, exchange: Exchange, membership: Membership, unfinished: Unfinished
    ) -> None:
        self._broker = broker
        self._vhost = vhost
        self._exchange = exchange
        self._membership = membership
        self._unfinished = unfinished
        self._plan = Plan(0, "", is_ordered=False)
        self._made: dict[str, None] = {}  # shards that were bound by the policy
        self._slots: OrderedSlots | None = None
        self._assignment = ConsumerAssignment()
        self._log = get_log("sharding")

    @property
    def exchange(self) -> Exchange:
        return self._exchange

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def slots(self) -> OrderedSlots | None:
        return self._slots

    # ---- the policy

    def follow(self, plan: Plan, left: Collection[str] = ()) -> None:
        """Declare missing shards; calling this again has no effect. ``left``: nodes that have left."""
        before, self._plan = self._plan, plan
        if not plan.is_ordered:
            self.stop()
        elif self._slots is None and isinstance(self._exchange, ModulusHashExchange):
            self._begin_order(self._exchange)  # with its current shards: the policy is a resize
        with nullcontext() if self._slots is None else self._slots.rebinding():
            for node in self._membership.names:
                for index in range(plan.per_node):
                    self._grow(shard_name(self._exchange.name, node, index), plan.key)
            for binding in self._superfluous(before, left):
                self._vhost.unbind(binding)
        self.refresh()

    def _begin_order(self, exchange: ModulusHashExchange) -> None:
        self._vhost.moves = True
        unfinished = self._unfinished.pop((self._vhost.name, exchange.name), None)
        if unfinished is not None and unfinished.is_for(self._vhost):
            self._slots = unfinished
            unfinished.resume(exchange, self.refresh)
        else:
            self._slots = OrderedSlots(self._broker, self._vhost, exchange, self.refresh)
            self._slots.begin()

    def _grow(self, shard: str, key: str) -> None:
        vhost, queue_type = self._vhost, self._plan.queue_type
        durable = self._exchange.durable or queue_type in (STREAM, "quorum")
        try:
            if shard not in vhost.queues:
                arguments = {"x-queue-type": queue_type} if queue_type else {}
                vhost.declare_queue(shard, durable=durable, arguments=arguments)
            vhost.bind(Binding(self._exchange.name, Destination("queue", shard), key))
            self._made[shard] = None
        except AmqpError as refusal:
            self._log.warning("shard cannot be declared", shard=shard, vhost=vhost.name, reason=refusal.text)

    def _superfluous(self, before: Plan, left: Collection[str]) -> Iterator[Binding]:
        """Bindings of shards that are no longer part of the policy."""
        for binding in self._vhost.bindings.of_source(self._exchange.name):
            kind, shard = binding.destination
            if kind != "queue" or binding.arguments:
                continue
            has_old_key = binding.key == before.key != self._plan.key and before.per_node and shard in self._made
            if has_old_key or self._is_too_high(shard) or any(self._index(shard, node) is not None for node in left):
                yield binding

    def _is_too_high(self, shard: str) -> bool:
        """Whether the shard was declared for a larger number; without ordered-resize such a shard stays."""
        places = [self._index(shard, node) for node in self._membership.names] if self._plan.is_ordered else []
        return any(place is not None and place >= self._plan.per_node for place in places)

    def _index(self, shard: str, node: str) -> int | None:
        """The index of the shard on its node; None if it is not a shard of the node."""
        prefix = shard_name(self._exchange.name, node, 0).removesuffix("0")
        number = shard.removeprefix(prefix)
        return int(number) if number != shard and number.isdecimal() else None

    def stop(self) -> None:
        """The policy or the exchange was deleted: queues and bindings stay."""
        if self._slots is not None:
            self._slots.stop()
            if self._slots.is_for(self._vhost):
                self._unfinished[self._vhost.name, self._exchange.name] = self._slots
            self._slots = None

    # ---- its shards

    def _shards_of(self, nodes: tuple[str, ...], most: int | None) -> Iterator[str]:
        """The names of existing shards, including those beyond the number of the policy, up to ``most`` per node."""
        for node in nodes:
            index = 0
            while most is None or index < most:
                name = shard_name(self._exchange.name, node, index)
                if name in self._vhost.queues:
                    yield name
                elif index >= self._plan.per_node:
                    break
                index += 1

    def _queues(self, nodes: tuple[str, ...]) -> list[DeclaredQueue]:
        most = self._plan.per_node if self._slots is not None else None
        return [self._vhost.queues[name] for name in self._shards_of(nodes, most)]

    def local(self) -> list[DeclaredQueue]:
        """The shards of this node, in order."""
        return self._queues((self._membership.own,))

    def draining(self) -> list[DeclaredQueue]:
        """Former shards that still have messages."""
        names = [] if self._slots is None else self._slots.draining
        return [self._vhost.queues[name] for name in names if name in self._vhost.queues]

    # ---- consumers

    @property
    def shares_consumers(self) -> bool:
        """Whether its consumers follow changes of the shards."""
        return self._slots is not None

    def least_consumed(self) -> DeclaredQueue | None:
        """The shard of this node, or draining shard, with the fewest consumers; draining shards win a tie."""
        return min([*self.draining(), *self.local()], key=lambda queue: len(queue.consumers), default=None)

    def first(self) -> DeclaredQueue:
        shards = self.local()
        if not shards:
            raise NotFound(f"no queue '{self._exchange.name}' in vhost '{self._vhost.name}'")
        return shards[0]

    def enter(self, follower: Follower, everything: bool) -> None:
        self.first()
        self._assignment.enter(follower, everything)
        try:
            self.refresh(follower)
        except AmqpError:
            self._assignment.leave(follower)
            raise

    def leave(self, follower: Follower) -> None:
        self._assignment.leave(follower)

    def refresh(self, only: Follower | None = None) -> None:
        """Assign the current shards to the consumers."""
        nodes = self._membership.names
        self._assignment.share(self._queues(nodes), self.local(), self.draining(), only)
