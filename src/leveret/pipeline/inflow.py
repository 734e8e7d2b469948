"""Publishes runs of rows, with the same rules as any other publish.

A run holds messages of one address. The route of an address is found once and cached until something changes that could
invalidate it (broker/routes.py). How closely messages must be inspected differs: *plain* ones have the delivery mode
persistent and no other property, and go to their queues unchanged; of others, priority and expiration are read without
decoding the rest; all properties are decoded only if needed (CC and BCC, delays, exchanges that route by headers).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.publish_rules import further_keys, traits_of
from leveret.broker.publishes import Origin, deliver
from leveret.broker.remote_writes import RoutedRun
from leveret.broker.routes import PublishRoute, Route, RouteCache
from leveret.broker.schedules import until
from leveret.broker.vhost import Vhost
from leveret.delivery.receipts import Receipts
from leveret.delivery.selector import selectable
from leveret.errors import PreconditionFailed
from leveret.logs import get_log
from leveret.message import NEVER, PERSISTENT, Address, Message, Traits
from leveret.pipeline.unroutable import Unroutable
from leveret.queues.queue import stretches
from leveret.routing.bounds import RoutingRefused
from leveret.routing.router import Routed
from leveret.session.inspection import inspect
from leveret.wire.content import PROPERTIES_AT, body_at, properties_of
from leveret.wire.content_edit import spliced

if TYPE_CHECKING:
    from leveret.routing.exchange import Exchange

MOST_REMEMBERED = 4_096
RUN = 4_096  # messages that are processed at once
RUN_BYTES = 1 << 20
QUICK = 16  # messages whose quick inspection costs as much as one plain run
SPECIAL_COST = 4  # cost of a message that is routed alone, which may take many routing steps
SLICE_COST = 128  # plain runs, or inspected messages, before other work gets a time slice
PLAIN = b"\x10\x00\x02"  # flags and properties of a message whose only property is the delivery mode persistent
PLAIN_AT = slice(PROPERTIES_AT, PROPERTIES_AT + len(PLAIN))
WINDOW_BYTES = 4 << 20
MOST_WINDOWS = 4  # windows that may wait for the disk


class Incoming(NamedTuple):
    """A received run: messages of one address, whether they are plain, and the bytes of their contents."""

    messages: list[Message]
    is_plain: bool
    size: int


class Look(IntEnum):
    """How closely a message must be inspected."""

    PLAIN = 0
    QUICK = 1
    CLOSE = 2


def is_plain(run: Sequence[Message]) -> bool:
    return {message[0][PLAIN_AT] for message in run} == {PLAIN}


def looked_at(run: list[Message], now: float) -> tuple[Look, list[Message]]:
    """The first messages that need the same inspection, with the traits from their properties unless that is CLOSE."""
    if is_plain(run):
        return Look.PLAIN, run
    seen: list[Message] = []
    for content, address, _ in run:
        traits = quick_traits(content, now)
        if traits is None:
            break
        seen.append((content, address, traits))
    if seen:
        return Look.QUICK, seen
    number = 1
    while number < min(len(run), SLICE_COST) and quick_traits(run[number][0], now) is None:
        number += 1
    return Look.CLOSE, run[:number]


def incoming(messages: list[Message], *, is_plain: bool) -> Incoming:
    return Incoming(messages, is_plain, sum([len(message[0]) for message in messages]))


def front(messages: list[Message]) -> list[Message]:
    """As many of the first messages as may be processed at once, at least one."""
    ends = list(accumulate([len(message[0]) for message in messages[:RUN]]))
    number = max(bisect_right(ends, RUN_BYTES), 1)
    return messages if number >= len(messages) else messages[:number]


class AddressRoutes(RouteCache[tuple[str, str], PublishRoute]):
    """Routes by exchange and routing key."""

    def __init__(self, vhost: Vhost) -> None:
        super().__init__(vhost, MOST_REMEMBERED)

    def of(self, address: Address) -> PublishRoute | None:
        """None if there is no such exchange."""
        key = (address.exchange, address.key)
        route = self.find(key)
        if route is None:
            exchange = self.vhost.exchanges.get(address.exchange)
            if exchange is None:
                return None
            routed = self._route(exchange, (address.key,), {})
            route = PublishRoute(address, exchange, self.vhost.counters_of(exchange.name))
            route.special = not routed.by_key_only
            route.lead_to(self.vhost.live_queues(routed.queues))
            if route.queues or address.exchange:
                self.remember(key, route)
        return route

    def of_message(
        self, route: PublishRoute, address: Address, copies: Sequence[str], fields: Mapping[str, object]
    ) -> PublishRoute:
        """The route of one message that must be inspected."""
        routed = self._route(route.exchange, (address.key, *copies), fields)
        return route.to(self.vhost.live_queues(routed.queues))

    def _route(self, exchange: Exchange, keys: Sequence[str], fields: Mapping[str, object]) -> Routed:
        return self.vhost.route(exchange, keys, fields)


class CommittedRoutes(AddressRoutes):
    """For messages that are already committed: if routing is refused, they are routed to no queue."""

    def _route(self, exchange: Exchange, keys: Sequence[str], fields: Mapping[str, object]) -> Routed:
        try:
            return super()._route(exchange, keys, fields)
        except RoutingRefused as refusal:
            get_log("pipeline").warning("committed messages dropped", vhost=self.vhost.name, reason=refusal.text)
            return Routed([], by_key_only=True)


class Inflow:
    """Publishes runs, and counts the outcomes.

    ``insists``: the messages are committed already, so full queues accept them too.
    """

    def __init__(self, vhost: Vhost, *, insists: bool = False) -> None:
        self._vhost = vhost
        self._log = vhost.queue_context.log
        self._insists = insists
        self._origin = Origin.PROMISED if insists else Origin.CLIENT
        self.routes = CommittedRoutes(vhost) if insists else AddressRoutes(vhost)
        self.published = 0
        self.without_queue = Unroutable()
        self.refused = 0  # messages refused by a full queue
        self.receipts = Receipts()

    @property
    def unroutable(self) -> int:
        """The number of messages that were routed to no queue."""
        return self.without_queue.total

    def cost(self, run: Sequence[Message], look: Look) -> int:
        """Approximate work to publish the run; 1 for a plain one."""
        route = self.routes.of(run[0][1])
        if route is None:
            return 1
        if route.special:
            return len(run) * SPECIAL_COST
        if look is Look.CLOSE or not route.uniform:
            return len(run)
        return 1 + len(run) * len(route.queues) // RUN + (len(run) // QUICK if look else 0)

    def publish(self, run: list[Message], look: Look, *, has_traits: bool, size: int | None = None) -> None:
        """``run``: messages of one address; ``has_traits``: whether ``looked_at`` set their traits; ``size``: the bytes
        of their contents, if the caller has counted them."""
        for routed in self.routed(run, look, has_traits=has_traits, size=size):
            self.deliver(routed)

    def routed(
        self, run: list[Message], look: Look, *, has_traits: bool, size: int | None = None
    ) -> Iterator[RoutedRun]:
        """The same messages with their queues, to be delivered. Unroutable ones are counted and left out."""
        route = self.routes.of(run[0][1])
        if route is None:
            self.published += len(run)
            self.without_queue.add(run[0][1], len(run))
        elif route.special or (look and not (has_traits and look is Look.QUICK)):
            yield from self._look(route, run)
        elif look:
            yield from self._routed_each(route, run)
        else:
            yield from self._routed(route, run, False, size)

    def deliver(self, run: RoutedRun, route: Route | None = None) -> None:
        """Pass a run to its queues, or to those of ``route``; all persistent, or all transient."""
        route = route or run.route
        pending = None
        if route.answers_later:
            pending = self.receipts.open(run.messages)
        outcomes = deliver(route, self._log, *run[1:], origin=self._origin, pending=pending)
        self.refused += sum([outcome.number for outcome in outcomes if outcome.is_rejected])
        if pending is not None:
            pending.resolve(True)  # the caller waits for the broker's log

    def _look(self, route: PublishRoute, run: Sequence[Message]) -> Iterator[RoutedRun]:
        now = self._vhost.queue_context.now()
        alike: list[Message] = []
        for content, address, _ in run:
            traits = None if route.special else quick_traits(content, now)
            if traits is not None:
                alike.append((content, address, traits))
                continue
            yield from self._routed_each(route, alike)
            alike = []
            yield from self._look_closely(route, content, address)
        yield from self._routed_each(route, alike)

    def _routed_each(self, route: PublishRoute, run: list[Message]) -> Iterator[RoutedRun]:
        for stretch in stretches(run):
            yield from self._routed(route, stretch, any(message[2].deadline != NEVER for message in stretch))

    def _routed(
        self, route: PublishRoute, run: list[Message], timed: bool, size: int | None = None
    ) -> Iterator[RoutedRun]:
        """Runs that are all persistent or all transient."""
        number = len(run)
        self.published += number
        route.counters.published += number
        self._vhost.message_sizes.lengths[len(run[0][0])] += number
        if not route.queues:
            self.without_queue.add(run[0][1], number)
            route.counters.unroutable += number
            return
        yield RoutedRun(route, run, sum([len(message[0]) for message in run]) if size is None else size, timed)

    def _look_closely(self, route: PublishRoute, content: bytes, address: Address) -> Iterator[RoutedRun]:
        vhost = self._vhost
        properties = properties_of(content)
        headers = properties.headers or {}
        try:
            traits = traits_of(properties, vhost.queue_context.now())
            copies, due = further_keys(headers), vhost.schedules.due(route.exchange, headers)
        except PreconditionFailed as problem:
            if not self._insists:
                raise
            # The message was valid when it was staged; the exchange was then replaced by one of another type.
            get_log("pipeline").warning("committed message dropped", vhost=vhost.name, reason=problem.text)
            self.published += 1
            self.without_queue.add(address, 1)
            return
        if due is not None:
            self.published += 1
            route.counters.published += 1
            run: list[Message] = [(content, address, until(due, traits))]
            vhost.message_sizes.lengths[len(content)] += 1
            yield RoutedRun(Route([vhost.schedules.queue]), run, len(content), True)
            return
        if "BCC" in headers:
            content = spliced(content, {}, without=("BCC",))
        if copies or route.special:
            route = self.routes.of_message(route, address, copies, selectable(properties))
        yield from self._routed(route, [(content, address, traits)], traits.deadline != NEVER)


def quick_traits(content: bytes, now: float) -> Traits | None:
    """The traits, without decoding the properties; None if the message needs a closer inspection."""
    if content[PLAIN_AT] == PLAIN:
        return PERSISTENT
    flags = int.from_bytes(content[PROPERTIES_AT : PROPERTIES_AT + 2], "big")
    return inspect(flags, content, PROPERTIES_AT + 2, body_at(content) - 1, now)


class WriteWindow:
    """Counts the bytes that one writer has appended and that are not on disk yet: they are held in memory."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unmarked = 0  # bytes since the last mark
        self._marks: deque[int] = deque()  # receipts, each of one window

    def wrote(self, size: int) -> None:
        self._unmarked += size
        if self._unmarked >= WINDOW_BYTES:
            self._unmarked = 0
            self._marks.append(self._broker.log.issued)

    def too_long(self) -> int | None:
        """The receipt to wait for before more is written; None if there is none."""
        while self._marks and self._marks[0] <= self._broker.last_granted:
            self._marks.popleft()
        return self._marks[0] if len(self._marks) >= MOST_WINDOWS else None
