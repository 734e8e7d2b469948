"""Where the publishes of a channel go: routing results, remembered by the raw bytes of the publish frame.  Hot path.

Decoding the frame, asking interceptors and permissions, and routing are paid once per distinct frame, not per message.
A remembered route is valid for one epoch of the vhost (any change of bindings, exchanges or permissions ends it).
Queues that only the default exchange reaches come and go without ending an epoch; ``deaths`` tells of their end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leveret.broker.counters import ExchangeCounters
from leveret.errors import AccessRefused, Unsupported
from leveret.message import Address
from leveret.queues.queue import Queue
from leveret.routing.exchange import Exchange
from leveret.session.access import access_of
from leveret.session.extending import EXTEND
from leveret.wire.methods import BasicPublish

if TYPE_CHECKING:
    from leveret.broker.tracing import Tracer
    from leveret.session.channel import Channel

MOST_REMEMBERED = 1_024
PER_ROUTE = 800  # bytes in memory, and twice its frame, which is also in the address; measured: 1,180 with 215 bytes
MOST_ROUTE_BYTES = 32 << 20  # of all channels together: some 30,000 routes
MADE_FOR_ONE = -1  # the epoch of a route that is not remembered
FRAME_HEAD = 11  # bytes of a method frame before its arguments


class Route:
    """The outcome of routing one publish frame."""

    __slots__ = (
        "address",
        "answers_later",
        "choosy",
        "counters",
        "deaths",
        "durable",
        "epoch",
        "exchange",
        "extends",
        "mandatory",
        "plain",
        "queues",
        "scheduled",
        "special",
    )

    def __init__(self, address: Address, exchange: Exchange, counters: ExchangeCounters, mandatory: bool) -> None:
        self.address = address
        self.exchange = exchange
        self.counters = counters
        self.mandatory = mandatory
        self.queues: list[Queue] = []
        self.plain = False  # there are queues, and each takes a run by a mere call
        self.durable = False  # some queue outlives the process: the log must be told
        self.answers_later = False  # some queue has a log of its own (delivery/receipts.py)
        self.choosy = False  # some queue may not take every message
        self.special = False  # every message must be looked into to be routed
        self.scheduled = False  # its messages wait for a moment, which is their deadline
        self.extends = False  # it is no message, but a word about one (session/extending.py)
        self.epoch = MADE_FOR_ONE
        self.deaths = -1

    def like(self) -> Route:
        """The same without queues."""
        return Route(self.address, self.exchange, self.counters, self.mandatory)

    def living(self) -> Route:
        """The route without queues that died since it was made: for what waited before it could be published."""
        if all(queue.alive for queue in self.queues):
            return self
        rest = self.like()
        rest.special, rest.extends = self.special, self.extends
        rest.lead_to([queue for queue in self.queues if queue.alive])
        return rest

    def waiting_in(self, queue: Queue) -> Route:
        """The same for a message that is to be routed later (broker/schedules.py)."""
        own = self.like()
        own.scheduled = True
        own.lead_to([queue])
        return own

    def lead_to(self, queues: list[Queue]) -> None:
        self.queues = queues
        self.durable = any(queue.stored for queue in queues)
        self.answers_later = any(queue.remote_log is not None for queue in queues)
        self.choosy = any(queue.choosy for queue in queues)
        self.plain = bool(queues) and not self.durable and not self.answers_later and not self.choosy


class TracedRoute(Route):
    """In a virtual host that is traced. Whatever its queues are, it goes by publish_choosy, which knows of it."""

    __slots__ = ("tracer",)

    def __init__(
        self, address: Address, exchange: Exchange, counters: ExchangeCounters, mandatory: bool, tracer: Tracer
    ) -> None:
        super().__init__(address, exchange, counters, mandatory)
        self.tracer = tracer
        self.choosy = True

    def like(self) -> Route:
        return TracedRoute(self.address, self.exchange, self.counters, self.mandatory, self.tracer)

    def lead_to(self, queues: list[Queue]) -> None:
        self.queues = queues

    def untraced(self) -> Route:
        """The way that it would be if nobody wanted to know."""
        usual = super().like()
        usual.lead_to(self.queues)
        return usual


class Routes:
    """The remembered routes of one channel."""

    __slots__ = ("_channel", "_size", "known")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._size = 0  # bytes, about
        self.known: dict[bytes, Route] = {}

    def resolve(self, frame: bytes, known: Route | None) -> Route:
        """The route of a publish frame that is new, or whose remembered route is out of date."""
        vhost = self._channel.vhost
        if known is not None and known.epoch == vhost.epoch and all(queue.alive for queue in known.queues):
            if not known.special:  # these come here each time: routing them takes steps
                known.deaths = vhost.deaths  # others died
            return known
        self.known.pop(frame, None)
        method = BasicPublish.decode(frame, FRAME_HEAD, len(frame) - 1)
        intercepted = self._channel.intercept(method)
        assert isinstance(intercepted, BasicPublish)
        route = self._make(intercepted)
        if self._may_be_remembered(route):
            if len(self.known) >= MOST_REMEMBERED:
                self.forget()
            self.known[frame] = route
            self._count(PER_ROUTE + 2 * len(frame))
        return route

    def _count(self, size: int) -> None:
        self._size += size
        broker = self._channel.connection.broker
        broker.memory_users.routes.add(size)
        if broker.memory_users.routes.bytes > MOST_ROUTE_BYTES:
            broker.registry.forget_routes()

    def forget(self) -> None:
        """Routes are made again when they are needed."""
        self.known.clear()
        self._channel.connection.broker.memory_users.routes.add(-self._size)
        self._size = 0

    def _make(self, method: BasicPublish) -> Route:
        channel = self._channel
        connection, vhost = channel.connection, channel.vhost
        if method.immediate:
            raise Unsupported("immediate=true", method=BasicPublish.id)
        access_of(connection).check("publish", method.exchange, keys=(method.routing_key,))
        exchange = vhost.exchange(method.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'")
        address = Address(method.exchange, method.routing_key, channel.number, connection.frame_max)
        tracer, counters = vhost.trace_points.tracer, vhost.counters_of(exchange.name)
        route = Route(address, exchange, counters, method.mandatory)
        if tracer is not None:
            route = TracedRoute(address, exchange, counters, method.mandatory, tracer)
        route.epoch = vhost.epoch
        if not method.exchange and method.routing_key == EXTEND:
            route.special = route.extends = True
            return route
        routed = vhost.route(exchange, (method.routing_key,), {})
        route.special = not routed.by_key_only
        if not route.special:
            route.deaths = vhost.deaths
        route.lead_to(vhost.live_queues(routed.queues))
        return route

    def current(self, route: Route) -> Route:
        """The route as it is now: for what waited before it could be published."""
        vhost = self._channel.vhost
        if vhost.moves and route.epoch not in (vhost.epoch, MADE_FOR_ONE) and not route.special:
            return self.reroute(route, (route.address.key,), {})
        return route.living()

    def reroute(self, route: Route, keys: Sequence[str], headers: Mapping[str, object]) -> Route:
        """A route for one message that has to be looked into: by its headers, or to more keys than one."""
        vhost = self._channel.vhost
        own = route.like()
        own.lead_to(vhost.live_queues(vhost.route(route.exchange, keys, headers).queues))
        if vhost.work.is_spent:
            self._channel.connection.wait_for_tick()
        return own

    def _may_be_remembered(self, route: Route) -> bool:
        """A miss on the default exchange ends when somebody declares that queue, which ends no epoch."""
        if self._channel.connection.broker.interceptors.concerns(BasicPublish.id):
            return False
        return bool(route.queues) or bool(route.exchange.name)
