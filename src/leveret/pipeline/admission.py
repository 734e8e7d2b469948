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
from leveret.errors import NotFound, PreconditionFailed
from leveret.message import Address, Message
from leveret.pipeline.inflow import QUICK, AddressRoutes, Look
from leveret.pipeline.unroutable import MandatoryAddress, MandatoryAddresses, Unroutable
from leveret.queues.direct_reply import REPLY_TO
from leveret.wire.content import properties_of


class Publisher(NamedTuple):
    """The user of the request, and whether its messages must be routable: all of them (``mandatory``), those with a
    ``MandatoryAddress``, or, if they are only to be reported, none."""

    user: str
    tags: tuple[str, ...]
    mandatory: bool
    reports: bool = False

    def requires_route(self, address: Address) -> bool:
        return not self.reports and (self.mandatory or isinstance(address, MandatoryAddress))


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
        self.mandatory = MandatoryAddresses()  # of the admitted messages
        self.unroutable = Unroutable()  # messages that were not admitted for that

    def cost(self, run: Sequence[Message], look: Look) -> int:
        """Approximate work to admit the run."""
        route = self.routes.of(run[0][1])
        return len(run) if look is Look.CLOSE or (route is not None and route.special) else 1 + look * len(run) // QUICK

    def admit(self, run: list[Message], look: Look, number: int | None = None) -> list[Message]:
        """Those of these messages, all of one address, that are not mandatory and unroutable. Raises an error if one is
        refused. ``number``: how many messages the only one in ``run`` stands for."""
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
            raise NotFound(f"no exchange '{address.exchange}' in vhost '{self._vhost.name}'")  # deleted since the check
        is_mandatory = self._publisher.requires_route(address)
        if is_mandatory:
            self.mandatory.add(address)
        if look is Look.CLOSE or route.special:
            admitted = [message for message in run if self._check(route, message)]
        else:
            admitted = [] if is_mandatory and not route.queues else run
        if len(admitted) < len(run):
            self.unroutable.add(address, number or len(run) - len(admitted))
        return admitted

    def refuse_unless_writable(self, exchange: str, key: str) -> None:
        self._caller.exchange_to_publish(exchange, key)

    def _check(self, route: PublishRoute, message: Message) -> bool:
        """False if the message must be routed and is not."""
        content, address, _ = message
        properties = properties_of(content)
        headers = properties.headers or {}
        traits_of(properties, 0.0)
        if properties.reply_to == REPLY_TO:
            raise PreconditionFailed("fast reply consumer does not exist")  # an HTTP request cannot consume replies
        copies = self._caller.check_properties(route.exchange.name, properties)
        due = self._vhost.schedules.due(route.exchange, headers)
        if due is not None or not self._publisher.requires_route(address):
            return True
        if copies or route.special:
            route = self.routes.of_message(route, address, copies, selectable(properties))
        return bool(route.queues)
