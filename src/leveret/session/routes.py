"""Where the publishes of a channel go: routes, remembered by the raw bytes of the publish frame.  Hot path.

Decoding the frame, interceptors, permissions and routing are paid once per distinct frame, not per message. Channels of
other protocols remember routes by exchange and routing key. See broker/routes.py for how long a route is valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from leveret.broker.routes import NO_EPOCH, PublishRoute, RouteCache
from leveret.errors import Unsupported
from leveret.message import Address
from leveret.session.ack_timeout_extension import EXTEND
from leveret.session.connection_moves import consider
from leveret.wire.methods import BasicPublish

if TYPE_CHECKING:
    from leveret.session.channel import Channel

MOST_REMEMBERED = 1_024
PER_ROUTE = 800  # bytes, plus twice the frame, which is also in the address; measured: 1,180 with a frame of 215 bytes
MOST_ROUTE_BYTES = 32 << 20  # of all channels together: some 30,000 routes
FRAME_HEAD = 11  # bytes of a method frame before its arguments


Key = bytes | tuple[str, str]


class Routes(RouteCache[Key, PublishRoute]):
    """The remembered routes of one channel."""

    __slots__ = ("_channel", "_size")

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.vhost, MOST_REMEMBERED)
        self._channel = channel
        self._size = 0  # bytes, about

    def resolve(self, frame: bytes, known: PublishRoute | None) -> PublishRoute:
        """The route of a publish frame that is new, or whose remembered route may be out of date."""
        if known is not None and self.is_current(known):
            return known
        return self._resolve(frame, BasicPublish.decode(frame, FRAME_HEAD, len(frame) - 1), len(frame))

    def lead(self, exchange: str, key: str) -> PublishRoute:
        """The route of a publish without a frame."""
        known = self.find((exchange, key))
        return known or self._resolve((exchange, key), BasicPublish(exchange, key), len(exchange) + len(key))

    def _resolve(self, key: Key, method: BasicPublish, size: int) -> PublishRoute:
        self.known.pop(key, None)
        intercepted = self._channel.intercept(method)
        assert isinstance(intercepted, BasicPublish)
        route = self._make(intercepted)
        if self._channel.connection.may_move:
            consider(self._channel.connection, route.queues, size)
        if self._may_be_remembered(route):
            self.remember(key, route)
            self._count(PER_ROUTE + 2 * size)
        return route

    def _count(self, size: int) -> None:
        self._size += size
        broker = self._channel.connection.broker
        broker.memory_users.routes.add(size)
        if broker.memory_users.routes.bytes > MOST_ROUTE_BYTES:
            broker.registry.forget_routes()

    def forget(self) -> None:
        """Forget all routes; they are resolved again when needed."""
        super().forget()
        self._channel.connection.broker.memory_users.routes.add(-self._size)
        self._size = 0

    def _make(self, method: BasicPublish) -> PublishRoute:
        channel, vhost = self._channel, self.vhost
        connection = channel.connection
        if method.immediate:
            raise Unsupported("immediate=true", method=BasicPublish.id)
        exchange = channel.caller.exchange_to_publish(method.exchange, method.routing_key)
        address = Address(method.exchange, method.routing_key, channel.number, connection.frame_max)
        tracer, counters = vhost.tracer, vhost.counters_of(exchange.name)
        route = PublishRoute(address, exchange, counters, mandatory=method.mandatory, tracer=tracer)
        if not method.exchange and method.routing_key == EXTEND:
            route.special = route.extends = True
            self.stamp(route)
            return route
        routed = vhost.route(exchange, (method.routing_key,), {})
        route.special = not routed.by_key_only
        self.stamp(route)
        route.lead_to(vhost.live_queues(routed.queues))
        return route

    def current(self, route: PublishRoute) -> PublishRoute:
        """The current route of a publish that waited for its content, or for a commit."""
        vhost = self.vhost
        if vhost.moves and route.epoch not in (vhost.epoch, NO_EPOCH) and not route.special:
            return self.reroute(route, (route.address.key,), {})
        return route.without_deleted()

    def reroute(self, route: PublishRoute, keys: Sequence[str], headers: Mapping[str, object]) -> PublishRoute:
        """A route for one message, by its headers or by several routing keys."""
        vhost = self.vhost
        own = route.to(vhost.live_queues(vhost.route(route.exchange, keys, headers).queues))
        if vhost.work.is_spent:
            self._channel.connection.wait_for_tick()
        return own

    def _may_be_remembered(self, route: PublishRoute) -> bool:
        if self._channel.connection.broker.interceptors.concerns(BasicPublish.id):
            return False
        return bool(route.queues) or bool(route.exchange.name)
