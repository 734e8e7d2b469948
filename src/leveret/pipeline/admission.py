"""Checks of the messages that a user publishes by HTTP, before any of them is stored.

Messages that are admitted are not refused later, so a stage that was confirmed can be committed. Permissions and the
existence of exchanges are checked once per address of a request; properties only of messages that have more than a
delivery mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leveret.auth.permissions import Permissions
from leveret.broker.access import UserAccess
from leveret.broker.caller import Caller
from leveret.broker.publish_rules import traits_of
from leveret.broker.routes import PublishRoute
from leveret.broker.vhost import Vhost
from leveret.delivery.selector import selectable
from leveret.errors import PreconditionFailed
from leveret.message import Address, Message
from leveret.pipeline.inflow import QUICK, AddressRoutes, Look
from leveret.queues.direct_reply import REPLY_TO
from leveret.wire.content import properties_of


class Publisher(NamedTuple):
    """The user of the request, and whether its messages must be routable."""

    user: str
    tags: tuple[str, ...]
    mandatory: bool


class Admission:
    """The checks of one request."""

    def __init__(self, vhost: Vhost, permissions: Permissions, publisher: Publisher) -> None:
        self._vhost = vhost
        self._caller = Caller(UserAccess(permissions, vhost, publisher.user, publisher.tags))
        self._publisher = publisher
        self.routes = AddressRoutes(vhost)
        self._known: set[tuple[str, str]] = set()
        self._epoch = permissions.epoch  # permissions epoch of the cached addresses
        self.exchanges: set[str] = set()  # of the admitted messages

    def cost(self, run: Sequence[Message], look: Look) -> int:
        """Approximate work to admit the run."""
        route = self.routes.of(run[0][1])
        return len(run) if look is Look.CLOSE or (route is not None and route.special) else 1 + look * len(run) // QUICK

    def admit(self, run: Sequence[Message], look: Look) -> None:
        """Raises an error if one of these messages, all of one address, is refused."""
        address = run[0][1]
        epoch = self._caller.access.permissions.epoch
        if self._epoch != epoch:  # permissions changed: a request body can take hours to arrive
            self._epoch = epoch
            self._known.clear()
        if (address.exchange, address.key) not in self._known:
            self.refuse_unless_writable(address.exchange, address.key)
            self._known.add((address.exchange, address.key))
            self.exchanges.add(address.exchange)
        route = self.routes.of(address)
        if route is None:
            raise self._unreachable(address)  # deleted since the permission check
        if look is Look.CLOSE or route.special:
            for message in run:
                self._check(route, message)
        elif self._publisher.mandatory and not route.queues:
            raise self._unreachable(address)

    def refuse_unless_writable(self, exchange: str, key: str) -> None:
        self._caller.exchange_to_publish(exchange, key)

    def _check(self, route: PublishRoute, message: Message) -> None:
        content, address, _ = message
        properties = properties_of(content)
        headers = properties.headers or {}
        traits_of(properties, 0.0)
        if properties.reply_to == REPLY_TO:
            raise PreconditionFailed("fast reply consumer does not exist")  # an HTTP request cannot consume replies
        copies = self._caller.check_properties(route.exchange.name, properties)
        due = self._vhost.schedules.due(route.exchange, headers)
        if self._publisher.mandatory and due is None:
            if copies or route.special:
                route = self.routes.of_message(route, address, copies, selectable(properties))
            if not route.queues:
                raise self._unreachable(address)

    def _unreachable(self, address: Address) -> PreconditionFailed:
        return PreconditionFailed(
            f"routing key '{address.key}' is not routed to any queue by exchange '{address.exchange or 'amq.default'}' "
            f"in vhost '{self._vhost.name}': bind a queue, or publish without mandatory"
        )
