"""A virtual host: its exchanges, queues and bindings, and the rules for creating, binding and deleting them.

All protocols and in-process callers use the same rules; permissions are checked by the caller. Errors have RabbitMQ's
wording. ``epoch`` changes whenever a cached route may be out of date. Creating or deleting a queue that is reached
through the default exchange only does not change it: routes check that their queues exist, and misses on the default
exchange are never cached.

``is_limited`` False: another cell has checked the limits, and has declared it already.

Length: the rules belong together, and all of them change the same tables.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from leveret.broker.cells import Cells
from leveret.broker.counters import ExchangeCounters, VhostCounters
from leveret.broker.equivalence import check_same_exchange, check_same_queue, locked, refuse_reserved
from leveret.broker.internal_queues import InternalQueues
from leveret.broker.memory_users import Footprint, binding_size, exchange_size, queue_size
from leveret.broker.message_sizes import MessageSizes
from leveret.broker.parameters import Parameters
from leveret.broker.rows import binding_row, exchange_row, queue_row
from leveret.broker.schedules import Schedules
from leveret.broker.schemas import Schemas
from leveret.broker.stream_offsets import StreamOffsets
from leveret.broker.vhost_policies import VhostPolicies
from leveret.delivery.consumer_ring import BY_BROKER, BY_OPERATOR
from leveret.errors import AccessRefused, NotFound, PreconditionFailed, ResourceFault
from leveret.logs import get_log
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import HERE, Declaration, DeclaredQueue
from leveret.queues.direct_reply import RemoteReplyQueue, ReplyQueue, cell_of_reply
from leveret.queues.queue import Queue
from leveret.queues.queue_types import make_queue, refuse_kind
from leveret.routing.bindings import Binding, Bindings, Destination
from leveret.routing.bounds import UNATTENDED_STEPS, Bounds, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.router import Routed, route
from leveret.routing.types import ExchangeTypes, predeclared
from leveret.store.definitions import BindingRow, Change, Drop, ExchangeRow, Put, QueueRow

if TYPE_CHECKING:
    from leveret.broker.gates import Gate
    from leveret.broker.tracing import Tracer

MADE_UP = "amq.gen-"  # prefix of server-named queues
PAUSED, HOME = "paused", "home"  # components of the parameters that name paused queues, and those of other cells
Owner = object  # the connection that an exclusive queue belongs to


class Follower(Protocol):
    """One consumer of a pool."""

    def follow(self, queues: Sequence[DeclaredQueue]) -> None:
        """Consume from exactly these queues from now on."""


class Pool(Protocol):
    """Several queues that a consumer sees as one, such as the shards behind a pseudo-queue.

    A pool assigns queues to its followers and calls them whenever their queues change. The session provides the
    followers (session/pooled_consumer.py), the sharding package the pools.
    """

    def enter(self, follower: Follower, everything: bool) -> None:
        """Assign queues to the follower, now and after each change. ``everything``: all queues instead of a share."""

    def leave(self, follower: Follower) -> None: ...

    def local(self) -> list[DeclaredQueue]:
        """The queues of this node, in order."""

    def everywhere(self) -> list[DeclaredQueue]:
        """The queues of all cells, in an order that is the same in each of them."""

    def draining(self) -> list[DeclaredQueue]:
        """Queues that receive no more messages and still hold some."""

    def fixed_share(self) -> DeclaredQueue | None:
        """The queue of a new consumer, if it keeps that. None if its queues may change: then it has to enter."""

    def idle_cell(self, answered: Callable[[str], None]) -> None:
        """A cell with a queue without consumers, if there is none here; else the empty name, which may be answered at
        once."""

    def first(self) -> DeclaredQueue:
        """The queue that a declare of the pool's name refers to; NotFound if there is none."""


class VhostContext(Protocol):
    """The part of the broker that a virtual host uses."""

    cells: Cells
    message_sizes: MessageSizes

    def next_id(self) -> int:
        """A new queue id. No two queues ever have the same id."""

    def record(self, change: Change) -> None:
        """Write a change of the definitions before it takes effect."""

    def wake(self) -> None:
        """Request a tick."""

    def refuse_exchange(self, exchange: Exchange, vhost: str) -> None:
        """PreconditionFailed if the plugin of its type is disabled."""

    def exchange_policies_changed(self, vhost: Vhost, exchange: str, definition: Mapping[str, object]) -> None:
        """The effective policies of the exchange have changed; the definition of a deleted exchange is empty."""


class Vhost:
    cell = ""  # where it is; empty: it spans all cells (broker/vhost_cells.py)
    is_here = True

    def __init__(
        self,
        name: str,
        context: VhostContext,
        queue_context: QueueContext,
        types: ExchangeTypes,
        footprint: Footprint,
        *,
        max_queues: int | None = None,
        max_connections: int | None = None,
        bounds: Bounds | None = None,
        work: RoutingWork | None = None,
    ) -> None:
        self.name, self.cells, self._broker_cells = name, context.cells, context.cells
        self.bounds, self.work = bounds or Bounds(), work or RoutingWork()
        self.queue_context = queue_context
        self.types, self.footprint = types, footprint
        self.next_id, self.record, self._refuse_exchange = context.next_id, context.record, context.refuse_exchange
        self.wake, self.message_sizes = context.wake, context.message_sizes
        self.max_queues, self.max_connections = max_queues, max_connections
        self.parameters = Parameters(name, self.record)
        self.schemas = Schemas(name, self.parameters)
        self.epoch = self.deletions = 0  # routes to queues that were deleted later are out of date
        self.exchanges = predeclared(types)
        self.queues: dict[str, DeclaredQueue] = {}
        self.bindings = Bindings()
        self.policies = VhostPolicies(partial(context.exchange_policies_changed, self))
        self.internal = InternalQueues(self)
        self.schedules = Schedules(self)
        self.stream_offsets = queue_context.stream_offsets = StreamOffsets(self.parameters)
        self._exclusive: dict[Owner | None, dict[DeclaredQueue, None]] = {}  # by owner; deleted with it
        self.reply_queues: dict[str, ReplyQueue] = {}
        self.hidden: dict[str, Queue] = {}  # internal queues that exchanges route to, by unguessable names
        self.gates: dict[str, Gate] = {}  # by their names, and by those of the queues whose messages pass them first
        self.moves = False  # routes may change between a method frame and its content
        self.pools: dict[str, Pool] = {}  # queues that consumers see as one, by pseudo-queue name
        self.tracer: Tracer | None = None  # while the virtual host is traced (broker/tracing.py)
        self.counters = VhostCounters()
        self.exchange_counters: dict[str, ExchangeCounters] = {}  # of exchanges that have received a publish
        self._names_queues = False  # whether a declared queue can make a cached miss outdated

    def live_in(self, cell: str) -> None:
        """From now on, no other cell gets to know its exchanges, queues and bindings, or is asked for changes."""
        self.cell, self.is_here = cell, self._broker_cells.is_here(cell)
        self.cells = Cells()

    def _refuse_elsewhere(self, what: str) -> None:
        if not self.is_here:
            raise PreconditionFailed(
                f"cannot declare {what}: vhost '{self.name}' is in cell {self.cell}; declare it over AMQP"
            )

    # ---- exchanges

    def exchange(self, name: str) -> Exchange:
        found = self.exchanges.get(name)
        if found is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return found

    def counters_of(self, exchange: str) -> ExchangeCounters:
        return self.exchange_counters.setdefault(exchange, ExchangeCounters())

    def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
        is_limited: bool = True,
    ) -> Exchange:
        """Create an exchange, or return the existing one if it is equivalent."""
        self._refuse_default(name)
        wanted = self.types.make(kind, name, durable, auto_delete, internal, arguments)
        current = self.exchanges.get(name)
        if current is not None:
            check_same_exchange(current, wanted, self.name)
            return current
        refuse_reserved(name, "exchange", self.name)
        self._refuse_elsewhere(f"exchange '{name}'")
        if is_limited:
            self._refuse_exchange(wanted, self.name)
            self.footprint.refuse(f"exchange '{name}'", exchange_size(wanted))
        self.footprint.count(exchange_size(wanted))
        if durable:
            self.record(Put(exchange_row(self.name, wanted)))
        self.exchanges[name] = wanted
        self.epoch += 1
        self._names_queues = self._names_queues or wanted.names_queues
        if self.cells.watcher is not None:
            self.cells.watcher.exchange_added(self, wanted)
        self.follow_policies(wanted)
        return wanted

    def follow_policies(self, exchange: Exchange) -> None:
        """Apply the effective policies to the exchange."""
        if self.policies.follow(exchange):
            self.epoch += 1
            self._names_queues = self._names_queues or exchange.names_queues
            self.policies.tell_of(exchange.name)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Deleting an exchange that does not exist is not an error."""
        self._refuse_default(name)
        if name.startswith("amq."):
            raise AccessRefused(f"operation not permitted on the predeclared exchange '{name}'")
        if name not in self.exchanges:
            return
        if if_unused and self.bindings.of_source(name):
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        self._remove_exchange(name)

    def _remove_exchange(self, name: str) -> None:
        own = Destination("exchange", name)
        self._drop_bindings([*self.bindings.of_source(name), *self.bindings.of_destination(own)])
        if self.exchanges[name].durable:
            self.record(Drop(ExchangeRow, (self.name, name)))
        self.epoch += 1
        exchange = self.exchanges.pop(name)
        self.counters.past_exchanges.absorb(self.exchange_counters.pop(name, ExchangeCounters()))
        self.footprint.count(-exchange_size(exchange) - sum(map(binding_size, self.bindings.remove_source(name))))
        if self.cells.watcher is not None:
            self.cells.watcher.exchange_removed(self, name)
        for binding in self.bindings.remove_destination(own):
            self._unlink(binding)
        self.policies.forget_exchange(name)

    def _refuse_default(self, name: str) -> None:
        if not name:
            raise AccessRefused("operation not permitted on the default exchange")

    # ---- queues

    def queue(self, name: str, owner: Owner | None = None) -> DeclaredQueue:
        """The queue; ResourceLocked if it is exclusive to another owner."""
        found = self.queues.get(name)
        if found is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if found.owner is not None and found.owner is not owner:
            raise locked(name, self.name)
        return found

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
        owner: Owner | None = None,
        is_made_up: bool = False,
        home: str = HERE,
        is_limited: bool = True,
    ) -> DeclaredQueue:
        """Create a queue, or return the existing one if equivalent. A missing name is generated, or ``is_made_up``.
        ``home``: the cell where it is."""
        self.counters.queues_declared += home == HERE
        arguments, is_named = arguments or {}, bool(name)
        if is_named and not is_made_up:
            refuse_reserved(name, "queue", self.name)
        elif not is_named:
            name = f"{MADE_UP}{secrets.token_urlsafe(16)}"
        current = self.queues.get(name)
        if current is not None:
            current = self.queue(name, owner)
            check_same_queue(current, self.name, durable, exclusive, auto_delete, arguments)
            current.note_use()
            return current
        self._refuse_elsewhere(f"queue '{name}'")
        options = self.policies.options_of(name, arguments, durable, exclusive)
        refuse_kind(options, auto_delete, is_named)
        if is_limited:
            self._refuse_one_more_queue(name, queue_size(options, arguments))
        owned_by = owner if exclusive else None
        declared = Declaration(
            self.next_id(), name, self.name, options, durable, auto_delete, owned_by, arguments=arguments, home=home
        )
        made = make_queue(declared, self.queue_context)
        self._add_queue(made, home)
        return made

    def _add_queue(self, queue: DeclaredQueue, home: str) -> None:
        if queue.is_lasting:
            if home != HERE:
                self.parameters.put(HOME, queue.name, home.encode())
            self.record(Put(queue_row(queue)))
        self.enter(queue)
        self.counters.queues_created += home == HERE
        if self.cells.watcher is not None:
            self.cells.watcher.queue_added(self, queue)

    def enter(self, queue: DeclaredQueue) -> None:
        self.queues[queue.name] = queue
        self.footprint.count(queue_size(queue.options, queue.arguments))
        if self.tracer is not None:
            self.tracer.attend(queue)
        if self.parameters.get(PAUSED, queue.name) is not None:
            queue.consumers.paused |= BY_OPERATOR
        if self.queue_context.deliveries.reason is not None:
            queue.consumers.paused |= BY_BROKER
        if queue.owner is not None:
            self._exclusive.setdefault(queue.owner, {})[queue] = None
        if self._names_queues:
            self.epoch += 1

    def substitute(self, queue: DeclaredQueue) -> None:
        """Let another object stand for the queue of this name, which moves between cells. Bindings stay; the caller
        records what has to be recorded."""
        self.queues[queue.name] = queue
        self.moves = True
        self.deletions += 1
        self.epoch += 1
        if self.tracer is not None:
            self.tracer.attend(queue)
        if self.queue_context.deliveries.reason is not None:
            queue.consumers.paused |= BY_BROKER

    def _refuse_one_more_queue(self, name: str, size: int) -> None:
        self.footprint.refuse(f"queue '{name}'", size)
        if self.max_queues is not None and len(self.queues) >= self.max_queues:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({self.max_queues}) is reached"
            )

    def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False, owner: Owner | None = None
    ) -> int:
        """Delete a queue; returns the number of deleted messages. If the queue does not exist, that is not an error."""
        if name not in self.queues:
            return 0
        queue = self.queue(name, owner)
        self.settle_down(queue)
        if queue.home is not None:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' is in another cell: delete it over AMQP")
        if if_unused and len(queue.consumers):
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        if if_empty and queue.ready:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' is not empty")
        return self.remove_queue(queue)

    def remove_queue(self, queue: DeclaredQueue) -> int:
        if self.queues.get(queue.name) is not queue:
            return 0
        own = Destination("queue", queue.name)
        self._drop_bindings(self.bindings.of_destination(own))
        if queue.is_lasting:
            self.record(Drop(QueueRow, (queue.id,)))
            self.parameters.drop(PAUSED, queue.name)
            self.parameters.drop(HOME, queue.name)
        self.internal.forget_trace(queue)
        del self.queues[queue.name]
        self.footprint.count(-queue_size(queue.options, queue.arguments))
        self.deletions += 1
        self._disown(queue)
        for binding in self.bindings.remove_destination(own):
            self.epoch += 1
            self._unlink(binding)
        if queue.home is None:  # else its home cell counts it
            self.counters.queue_gone(queue.counters)
        number = queue.die()
        if self.cells.watcher is not None:
            self.cells.watcher.queue_removed(self, queue)
        return number

    def _disown(self, queue: DeclaredQueue) -> None:
        owned = self._exclusive.get(queue.owner)
        if owned is not None:
            owned.pop(queue, None)
            if not owned:
                del self._exclusive[queue.owner]

    def purge_queue(self, name: str, owner: Owner | None = None) -> int:
        queue = self.queue(name, owner)
        self.settle_down(queue)
        number = queue.purge()
        if queue.stored and number:
            self.queue_context.log.promise()
        return number

    def pause_queue(self, queue: DeclaredQueue) -> None:
        """Accept messages but deliver none until the queue is resumed, also after a restart. Unacknowledged messages
        can still be settled; basic.get returns empty."""
        if queue.stored:
            self.parameters.put(PAUSED, queue.name, b"true")
        queue.consumers.paused |= BY_OPERATOR

    def resume_queue(self, queue: DeclaredQueue) -> None:
        self.parameters.drop(PAUSED, queue.name)
        queue.consumers.paused &= ~BY_OPERATOR
        queue.touch()

    def settle_down(self, queue: DeclaredQueue) -> None:
        """Do pending deliveries first, so that messages about to be delivered are not counted as ready."""
        if queue.dirty:
            queue.catch_up()

    def owns_queues(self, owner: Owner) -> bool:
        """Whether exclusive queues belong to it."""
        return owner in self._exclusive

    def drop_exclusive(self, owner: Owner) -> None:
        """Delete the exclusive queues of a closed connection."""
        self.queue_context.background.begin(QueueRemoval(self, list(self._exclusive.get(owner, ()))))

    # ---- bindings

    def bind(self, binding: Binding, *, is_limited: bool = True) -> bool:
        """False if the binding exists already."""
        source = self._source_of(binding)
        if binding in self.bindings:
            return False
        if is_limited:
            self.bounds.refuse(binding, source, self.bindings)
            self.footprint.refuse(f"binding of exchange '{source.name}'", binding_size(binding))
        self._link(binding, source)
        if self.cells.watcher is not None:
            self.cells.watcher.bound(self, binding)
        return True

    def restore_binding(self, binding: Binding) -> None:
        """Restore a binding of a previous run, even if it exceeds a limit now."""
        self._link(binding, self._source_of(binding))

    def _source_of(self, binding: Binding) -> Exchange:
        """The source exchange, after checking that both ends exist and that the exchange accepts the binding."""
        self._refuse_default(binding.source)
        source = self.exchange(binding.source)
        self._check_destination(binding.destination)
        source.validate_binding(binding)
        return source

    def _link(self, binding: Binding, source: Exchange) -> None:
        self.footprint.count(binding_size(binding))
        if self.lasts(binding):
            self.record(Put(binding_row(self.name, binding)))
        self.bindings.add(binding)
        source.bind(binding)
        self.epoch += 1

    def unbind(self, binding: Binding) -> bool:
        """False if the binding does not exist, which is not an error."""
        self._refuse_default(binding.source)
        source = self.exchanges.get(binding.source)
        if source is None or binding not in self.bindings:
            return False
        self._drop_bindings([binding])
        self.bindings.remove(binding)
        self.epoch += 1
        if self.cells.watcher is not None:
            self.cells.watcher.unbound(self, binding)
        self._unlink(binding)
        return True

    def lasts(self, binding: Binding) -> bool:
        """Whether the binding is durable: both of its ends are."""
        kind, name = binding.destination
        if kind == "queue":
            end = self.queues.get(name)
            return self.exchanges[binding.source].durable and end is not None and end.is_lasting
        return self.exchanges[binding.source].durable and self.exchanges[name].durable

    def _drop_bindings(self, bindings: Sequence[Binding]) -> None:
        """Delete bindings on disk while both ends exist."""
        for binding in dict.fromkeys(bindings):
            if self.lasts(binding):
                self.record(Drop(BindingRow, binding_row(self.name, binding)))

    def _check_destination(self, destination: Destination) -> None:
        if destination.kind == "queue":
            if destination.name not in self.queues:
                raise NotFound(f"no queue '{destination.name}' in vhost '{self.name}'")
        else:
            self._refuse_default(destination.name)
            self.exchange(destination.name)

    def _unlink(self, binding: Binding) -> None:
        """Remove a binding from its exchange, and delete an auto-delete exchange with its last binding. If another cell
        changes the definitions, it deletes the exchange: it may have got a new binding by now."""
        self.footprint.count(-binding_size(binding))
        source = self.exchanges.get(binding.source)
        if source is None:
            return
        source.unbind(binding)
        if source.auto_delete and self.cells.changes is None and not self.bindings.of_source(source.name):
            try:
                self._remove_exchange(source.name)
            except ResourceFault as refusal:  # there is no request to answer: the exchange stays
                get_log("broker").warning("exchange cannot be deleted", exchange=source.name, reason=refusal.text)

    # ---- routing

    def route(self, exchange: Exchange, keys: Sequence[str], headers: Mapping[str, object]) -> Routed:
        """Route a message; RoutingRefused if that would take too many steps."""
        self.work.left = self.work.allowed
        return route(exchange, keys, headers, self.exchanges.get, self.has_queue, self.work)

    def route_unattended(self, exchange: Exchange, keys: Sequence[str], headers: Mapping[str, object]) -> Routed:
        """Route a message of the broker itself, such as a dead letter."""
        self.work.left = min(self.work.allowed, UNATTENDED_STEPS - self.work.spent)
        return route(exchange, keys, headers, self.exchanges.get, self.has_queue, self.work)

    def every_queue(self) -> Iterator[DeclaredQueue]:
        """All queues, including those that clients cannot see."""
        return chain(self.queues.values(), self.internal.queues.values())

    def has_queue(self, name: str) -> bool:
        is_here = name in self.queues or name in self.reply_queues or name in self.hidden
        return is_here or self.remote_reply_queue(name) is not None

    def remote_reply_queue(self, name: str) -> RemoteReplyQueue | None:
        """The queue of a name that belongs to a requester in another cell. The requester may have gone."""
        own = self.cells.name
        cell = own and cell_of_reply(name)
        if cell in ("", own) or cell not in self.cells.nodes:
            return None
        return self.queue_context.remote_queues.reply_queue(self.name, cell, name)

    def live_queues(self, names: Sequence[str]) -> list[Queue]:
        """The queues with these routed names, except those deleted meanwhile."""
        found: list[Queue] = []
        for name in names:
            queue: Queue | None = self.queues.get(name) or self.reply_queues.get(name) or self.hidden.get(name)
            queue = queue or self.remote_reply_queue(name)
            if queue is not None:
                found.append(queue)
        return found

    def arrivals(self, name: str) -> list[Queue]:
        """The queue that gets what another cell has sent to this one."""
        return [self.gates[name]] if name in self.gates and name in self.queues else self.live_queues([name])


class QueueRemoval:
    """A background task that deletes many queues: the exclusive ones of a closed connection, or all of a virtual host.
    Queues that remain after its first step are deleted in later ticks."""

    def __init__(self, vhost: Vhost, queues: list[DeclaredQueue]) -> None:
        self._vhost = vhost
        self._queues = queues[::-1]

    def step(self) -> bool:
        time_slice = self._vhost.queue_context.background.new_slice()
        while self._queues and not time_slice.is_over:
            self._vhost.remove_queue(self._queues.pop())
        return bool(self._queues)
