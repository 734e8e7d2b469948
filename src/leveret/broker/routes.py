"""Routes: the queues behind an address, how they accept messages, and how long a route stays valid.  Hot path.

A cached route is valid for one epoch of its virtual host (any change of bindings, exchanges or permissions ends it).
Creating or deleting a queue that only the default exchange reaches does not end the epoch: ``Vhost.deletions`` counts
deleted queues, and a route with an older count checks that its queues still exist. A route of the default exchange that
leads to no queue is not cached, since the queue may be declared within the same epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from leveret.broker.counters import ExchangeCounters
from leveret.message import Address
from leveret.queues.queue import Queue
from leveret.routing.exchange import Exchange

if TYPE_CHECKING:
    from leveret.broker.tracing import Tracer
    from leveret.broker.vhost import Vhost

NO_EPOCH = -1  # of a route that is not cached


class Route:
    """The queues that messages are routed to. Messages are passed to them in broker/publishes.py."""

    __slots__ = (
        "answers_later",
        "can_reject",
        "deletions",
        "durable",
        "epoch",
        "only_log",
        "plain",
        "queues",
        "special",
        "uniform",
    )

    def __init__(self, queues: Sequence[Queue] = ()) -> None:
        self.special = False  # the headers of every message must be read to route it
        self.epoch = NO_EPOCH
        self.deletions = -1
        self.lead_to(queues)

    def lead_to(self, queues: Sequence[Queue]) -> None:
        self.queues = queues
        self.durable = any(queue.stored for queue in queues)  # the log must write
        self.can_reject = any(queue.can_reject for queue in queues)
        self.answers_later = any(queue.remote_log is not None for queue in queues)
        self.uniform = bool(queues) and not self.can_reject and not self.answers_later  # a run has one outcome
        self.plain = self.uniform and not self.durable  # and no queue needs the log
        self.only_log = queues[0].remote_log if len(queues) == 1 else None  # of the only queue, if it answers later


class PublishRoute(Route):
    """The outcome of routing one publish. ``tracer`` is set if the virtual host is traced."""

    __slots__ = ("address", "counters", "exchange", "extends", "mandatory", "scheduled", "tracer")

    def __init__(
        self,
        address: Address,
        exchange: Exchange,
        counters: ExchangeCounters,
        *,
        mandatory: bool = False,
        tracer: Tracer | None = None,
    ) -> None:
        self.address = address
        self.exchange = exchange
        self.counters = counters
        self.mandatory = mandatory
        self.tracer = tracer
        self.scheduled = False  # its messages wait until a given time, which is their deadline
        self.extends = (
            False  # it carries no message, but extends the ack timeout of one (session/ack_timeout_extension.py)
        )
        super().__init__()

    def lead_to(self, queues: Sequence[Queue]) -> None:
        super().lead_to(queues)
        if self.tracer is not None:
            self.uniform = self.plain = False
            self.only_log = None

    def to(self, queues: Sequence[Queue]) -> PublishRoute:
        """The same publish with other queues; the result is not cached."""
        route = PublishRoute(self.address, self.exchange, self.counters, mandatory=self.mandatory, tracer=self.tracer)
        route.lead_to(queues)
        return route

    def without_deleted(self) -> PublishRoute:
        """The route without queues that were deleted since it was created."""
        if all(queue.alive for queue in self.queues):
            return self
        rest = self.to([queue for queue in self.queues if queue.alive])
        rest.special, rest.extends = self.special, self.extends
        return rest

    def waiting_in(self, queue: Queue) -> PublishRoute:
        """The same publish for a message that will be routed later (broker/schedules.py)."""
        route = self.to([queue])
        route.scheduled = True
        return route


Key = TypeVar("Key")
AnyRoute = TypeVar("AnyRoute", bound=Route)


class RouteCache(Generic[Key, AnyRoute]):
    """The cached routes of one virtual host."""

    __slots__ = ("_most", "known", "vhost")

    def __init__(self, vhost: Vhost, most: int) -> None:
        self.vhost = vhost
        self._most = most
        self.known: dict[Key, AnyRoute] = {}

    def find(self, key: Key) -> AnyRoute | None:
        route = self.known.get(key)
        return route if route is not None and self.is_current(route) else None

    def is_current(self, route: AnyRoute) -> bool:
        if route.epoch != self.vhost.epoch:
            return False
        if route.deletions != self.vhost.deletions:
            if not all(queue.alive for queue in route.queues):
                return False
            self.stamp(route)
        return True

    def stamp(self, route: AnyRoute) -> None:
        """Mark the route as valid now."""
        route.epoch = self.vhost.epoch
        if not route.special:  # channels look these up each time, since routing them takes steps
            route.deletions = self.vhost.deletions

    def remember(self, key: Key, route: AnyRoute) -> None:
        if len(self.known) >= self._most:
            self.forget()
        self.known[key] = route
        self.stamp(route)

    def forget(self) -> None:
        self.known.clear()
