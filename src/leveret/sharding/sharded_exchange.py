"""One exchange with a sharding policy: a number of queues for each node, which consumers see as one.

Shards are declared and bound, and never deleted: their messages belong to the user. Without ``ordered-resize`` a
smaller number has no effect, and the shards of a node that leaves are unbound. With ``ordered-resize``, surplus shards
are unbound, and their slots move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.vhost import Follower, Vhost
from leveret.errors import AmqpError, NotFound
from leveret.logs import get_log
from leveret.queues.declared_queue import DeclaredQueue, QueueCounts
from leveret.queues.stream_options import STREAM
from leveret.routing.bindings import Binding, Destination
from leveret.routing.consistent_hash import ConsistentHashExchange
from leveret.routing.exchange import Exchange
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.sharding.cell_slots import CellSlots
from leveret.sharding.membership import Membership
from leveret.sharding.ordered_slots import OrderedSlots
from leveret.sharding.slot_planner import SlotPlanner

LEAST_WEIGHT = "1"
Unfinished = dict[tuple[str, str], OrderedSlots]  # by vhost and exchange: stopped, but may have messages to move


class ConsumerAssignment:
    """Assigns to each consumer of a pool the shards that it consumes from.

    A consumer has one shard of its node, so that all shards have the same number of consumers, plus or minus one. A
    draining shard, for which held messages wait, stays with the consumers that it had, or else has one: with more, the
    order of its messages would be lost. ``x-shard-all`` assigns all shards.
    """

    def __init__(self) -> None:
        self._drained_by: dict[DeclaredQueue, list[Follower]] = {}
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
        self._keep_draining([queue for queue in draining if queue.home is None])
        self._assign(local, may_move=only is None)
        for follower in [*self._everything]:
            if only in (None, follower):
                follower.follow([*shards, *draining])
        for follower, own in [*self._own.items()]:
            if only in (None, follower):
                drained = [queue for queue, by in self._drained_by.items() if follower in by]
                follower.follow([*([] if own is None else [own]), *drained])

    def _keep_draining(self, draining: Sequence[DeclaredQueue]) -> None:
        """Those of this cell: other cells have their own consumers for theirs."""
        kept: dict[DeclaredQueue, list[Follower]] = {}
        for queue in draining:
            former = [follower for follower in self._drained_by.get(queue, ()) if follower in self._own]
            owners = [follower for follower, own in self._own.items() if own is queue]
            kept[queue] = former or owners or list(self._own)[len(kept) % max(len(self._own), 1) :][:1]
        self._drained_by = kept

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


def shard_name(exchange: str, node: str, index: int) -> str:
    """The name of a shard, as in RabbitMQ's sharding plugin."""
    return f"sharding: {exchange} - {node} - {index}"


def _place(shard: str) -> tuple[int, str, int]:
    """Sorts shards by node and index; c10 after c9."""
    node, _, index = shard.rpartition(" - ")
    return len(node), node, int(index) if index.isdecimal() else 0


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
        self._slots: OrderedSlots | CellSlots | None = None
        self._assignment = ConsumerAssignment()
        self._moves = 0  # of consumers to other cells
        self._log = get_log("sharding")

    @property
    def exchange(self) -> Exchange:
        return self._exchange

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def slots(self) -> OrderedSlots | CellSlots | None:
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
            for node in self._membership.declared_here:
                for index in range(plan.per_node):
                    self._grow(shard_name(self._exchange.name, node, index), plan.key)
            for binding in self._superfluous(before, left):
                self._vhost.unbind(binding)
        self.refresh()

    def _begin_order(self, exchange: ModulusHashExchange) -> None:
        self._vhost.moves = True
        if self._membership.are_cells:
            self._begin_in_cell(exchange)
            return
        unfinished = self._unfinished.pop((self._vhost.name, exchange.name), None)
        if unfinished is not None and unfinished.is_for(self._vhost):
            self._slots = unfinished
            unfinished.resume(exchange, self.refresh)
        else:
            self._slots = OrderedSlots(self._broker, self._vhost, exchange, self.refresh)
            self._slots.begin()

    def _begin_in_cell(self, exchange: ModulusHashExchange) -> None:
        self._slots = slots = CellSlots(self._broker, self._vhost, exchange, self.refresh)
        cells, members = self._broker.cells, self._membership
        if cells.changes is not None:
            slots.begin(None)
            return
        planner = SlotPlanner(self._vhost, exchange, members.members, slots.follow, cells.name)
        slots.begin(planner)
        planner.give_up(frozenset(cell for cell in slots.table.cells if members.is_removed(cell)))

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

    def has_bound(self, shard: str) -> bool:
        return shard in self._made

    def stop(self) -> None:
        """The policy or the exchange was deleted: queues and bindings stay."""
        if self._slots is not None:
            self._slots.stop()
            if isinstance(self._slots, OrderedSlots) and self._slots.is_for(self._vhost):
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

    def everywhere(self) -> list[DeclaredQueue]:
        """The shards of all cells, in an order that is the same in each of them. A cell that is away still has its
        shards."""
        local = self.local()
        bound = (each.destination for each in self._vhost.bindings.of_source(self._exchange.name))
        others = {self._vhost.queues[name] for kind, name in bound if kind == "queue"} - {*local}
        prefix = shard_name(self._exchange.name, "", 0).removesuffix(" - 0")
        remote = [queue for queue in others if queue.home is not None and queue.name.startswith(prefix)]
        return sorted([*local, *remote], key=lambda queue: _place(queue.name)) if remote else local

    def draining(self) -> list[DeclaredQueue]:
        """Former shards that still have messages."""
        names = [] if self._slots is None else self._slots.draining
        return [self._vhost.queues[name] for name in names if name in self._vhost.queues]

    # ---- consumers

    def fixed_share(self) -> DeclaredQueue | None:
        return self.least_consumed() if self._slots is None else None

    def least_consumed(self) -> DeclaredQueue | None:
        """The shard of this node, or draining shard, with the fewest consumers; draining shards win a tie."""
        return min([*self.draining(), *self.local()], key=lambda queue: len(queue.consumers), default=None)

    def idle_cell(self, answered: Callable[[str], None]) -> None:
        least = self.least_consumed()
        shards = [queue for queue in self.everywhere() if queue.remote_log and queue.remote_log.reachable_cell]
        if least is None or not len(least.consumers) or not shards:
            answered("")
            return
        left = len(shards)
        idle: list[str] = []

        def take(cell: str, counts: QueueCounts | AmqpError) -> None:
            nonlocal left
            left -= 1
            if isinstance(counts, QueueCounts) and not counts.consumers:
                idle.append(cell)
            if not left:
                self._moves += 1  # several that ask at the same time do not all get the same
                answered(idle[self._moves % len(idle)] if idle else "")

        for queue in shards:
            assert queue.home is not None
            queue.home.count(partial(take, queue.home.cell_name))

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
