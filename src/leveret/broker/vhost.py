"""A virtual host: its exchanges, queues and bindings, and the rules for creating, binding and deleting them.

All protocols and in-process callers use the same rules; permissions are checked by the caller. Errors have RabbitMQ's
wording. ``epoch`` changes whenever a cached route may be out of date. Creating or deleting a queue that is reached
through the default exchange only does not change it: routes check that their queues exist, and misses on the default
exchange are never cached.

Length: the rules belong together, and all of them change the same tables.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from leveret.broker.counters import ExchangeCounters, VhostCounters
from leveret.broker.equivalence import check_same_exchange, check_same_queue, locked, refuse_reserved
from leveret.broker.internal_queues import InternalQueues
from leveret.broker.memory_users import Footprint, binding_size, exchange_size, queue_size
from leveret.broker.parameters import Parameters
from leveret.broker.rows import binding_row, exchange_row, queue_row
from leveret.broker.schedules import Schedules
from leveret.broker.stream_offsets import StreamOffsets
from leveret.broker.vhost_policies import VhostPolicies
from leveret.errors import AccessRefused, NotFound, PreconditionFailed, ResourceFault
from leveret.logs import get_log
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.direct_reply import ReplyQueue
from leveret.queues.queue import Queue
from leveret.queues.queue_types import make_queue, refuse_kind
from leveret.routing.bindings import Binding, Bindings, Destination
from leveret.routing.bounds import UNATTENDED_STEPS, Bounds, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.router import Routed, route
from leveret.routing.types import ExchangeTypes, predeclared
from leveret.store.definitions import BindingRow, Change, Drop, ExchangeRow, Put, QueueRow

if TYPE_CHECKING:
    from leveret.broker.tracing import Tracer

MADE_UP = "amq.gen-"  # prefix of server-named queues
PAUSED = "paused"  # the component of the parameters that name paused queues
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

    def draining(self) -> list[DeclaredQueue]:
        """Queues that receive no more messages and still hold some."""

    def first(self) -> DeclaredQueue:
        """The queue that a declare of the pool's name refers to; NotFound if there is none."""


class VhostContext(Protocol):
    """The part of the broker that a virtual host uses."""

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
        self.name = name
        self.bounds, self.work = bounds or Bounds(), work or RoutingWork()
        self.queue_context = queue_context
        self.types = types
        self.footprint = footprint
        self.next_id, self.record, self._refuse_exchange = context.next_id, context.record, context.refuse_exchange
        self.wake = context.wake
        self.max_queues, self.max_connections = max_queues, max_connections
        self.parameters = Parameters(name, self.record)
        self.epoch = 0
        self.deletions = 0  # deleted queues; routes to one of them are out of date
        self.exchanges = predeclared(types)
        self.queues: dict[str, DeclaredQueue] = {}
        self.bindings = Bindings()
        self.policies = VhostPolicies(partial(context.exchange_policies_changed, self))
        self.internal = InternalQueues(self)
        self.schedules = Schedules(self)
        self.stream_offsets = queue_context.stream_offsets = StreamOffsets(self.parameters)
        self._exclusive: dict[Owner | None, dict[DeclaredQueue, None]] = {}  # by owner; deleted with it
        self.reply_queues: dict[str, ReplyQueue] = {}
        self.hidden: dict[str, DeclaredQueue] = {}  # internal queues that exchanges route to, by unguessable names
        self.moves = False  # routes may change between a method frame and its content
        self.pools: dict[str, Pool] = {}  # queues that consumers see as one, by pseudo-queue name
        self.tracer: Tracer | None = None  # while the virtual host is traced (broker/tracing.py)
        self.counters = VhostCounters()
        self.exchange_counters: dict[str, ExchangeCounters] = {}  # of exchanges that have received a publish
        self._names_queues = False  # whether a declared queue can make a cached miss outdated

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
    ) -> Exchange:
        """Create an exchange, or return the existing one if it is equivalent."""
        self._refuse_default(name)
        wanted = self.types.make(kind, name, durable, auto_delete, internal, arguments)
        current = self.exchanges.get(name)
        if current is not None:
            check_same_exchange(current, wanted, self.name)
            return current
        refuse_reserved(name, "exchange", self.name)
        self._refuse_exchange(wanted, self.name)
        self.footprint.add(f"exchange '{name}'", exchange_size(wanted))
        if durable:
            self.record(Put(exchange_row(self.name, wanted)))
        self.exchanges[name] = wanted
        self.epoch += 1
        self._names_queues = self._names_queues or wanted.names_queues
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
    ) -> DeclaredQueue:
        """Create a queue, or return the existing one if equivalent. A missing name is generated, or ``is_made_up``."""
        self.counters.queues_declared += 1
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
        options = self.policies.options_of(name, arguments, durable, exclusive)
        refuse_kind(options, auto_delete, is_named)
        self._refuse_one_more_queue(name, queue_size(options, arguments))
        owned_by = owner if exclusive else None
        declared = Declaration(
            self.next_id(), name, self.name, options, durable, auto_delete, owner=owned_by, arguments=arguments
        )
        made = make_queue(declared, self.queue_context)
        self._add_queue(made)
        return made

    def _add_queue(self, queue: DeclaredQueue) -> None:
        if queue.stored:
            self.record(Put(queue_row(queue)))
        self.enter(queue)
        self.counters.queues_created += 1

    def enter(self, queue: DeclaredQueue) -> None:
        self.queues[queue.name] = queue
        self.footprint.count(queue_size(queue.options, queue.arguments))
        if self.tracer is not None:
            self.tracer.attend(queue)
        queue.consumers.paused = self.parameters.get(PAUSED, queue.name) is not None
        if queue.owner is not None:
            self._exclusive.setdefault(queue.owner, {})[queue] = None
        if self._names_queues:
            self.epoch += 1

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
        if queue.stored:
            self.record(Drop(QueueRow, (queue.id,)))
            self.parameters.drop(PAUSED, queue.name)
        self.internal.forget_trace(queue)
        del self.queues[queue.name]
        self.footprint.count(-queue_size(queue.options, queue.arguments))
        self.deletions += 1
        self._disown(queue)
        for binding in self.bindings.remove_destination(own):
            self.epoch += 1
            self._unlink(binding)
        self.counters.queue_gone(queue.counters)
        return queue.die()

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
        queue.consumers.paused = True

    def resume_queue(self, queue: DeclaredQueue) -> None:
        self.parameters.drop(PAUSED, queue.name)
        queue.consumers.paused = False
        queue.touch()

    def settle_down(self, queue: DeclaredQueue) -> None:
        """Do pending deliveries first, so that messages about to be delivered are not counted as ready."""
        if queue.dirty:
            queue.catch_up()

    def drop_exclusive(self, owner: Owner) -> None:
        """Delete the exclusive queues of a closed connection."""
        self.queue_context.background.begin(QueueRemoval(self, list(self._exclusive.get(owner, ()))))

    # ---- bindings

    def bind(self, binding: Binding) -> bool:
        """False if the binding exists already."""
        source = self._source_of(binding)
        if binding in self.bindings:
            return False
        self.bounds.refuse(binding, source, self.bindings)
        self._link(binding, source)
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
        self.footprint.add(f"binding of exchange '{binding.source}'", binding_size(binding))
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
        self._unlink(binding)
        return True

    def lasts(self, binding: Binding) -> bool:
        """Whether the binding is durable: both of its ends are."""
        kind, name = binding.destination
        if kind == "queue":
            end = self.queues.get(name)
            return self.exchanges[binding.source].durable and end is not None and end.stored
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
        """Remove a binding from its exchange, and delete an auto-delete exchange with its last binding."""
        self.footprint.count(-binding_size(binding))
        source = self.exchanges.get(binding.source)
        if source is None:
            return
        source.unbind(binding)
        if source.auto_delete and not self.bindings.of_source(source.name):
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
        return name in self.queues or name in self.reply_queues or name in self.hidden

    def live_queues(self, names: Sequence[str]) -> list[Queue]:
        """The queues with these routed names, except those deleted meanwhile."""
        found: list[Queue] = []
        for name in names:
            queue: Queue | None = self.queues.get(name) or self.reply_queues.get(name) or self.hidden.get(name)
            if queue is not None:
                found.append(queue)
        return found


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
