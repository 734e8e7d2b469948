"""Dead-lettering: messages are republished with RabbitMQ's headers, in one group of the log with their removal.

As in RabbitMQ, ``x-death`` has one entry for each (queue, reason), the latest first, with a count; the first is also
in ``x-first-death-queue``, ``-reason`` and ``-exchange``. The per-message expiration is removed (and kept in the
entry); otherwise the message would expire in the next queue as well. A message that would return to a queue where it
was dead-lettered before, without a rejection in between, is in a cycle and is dropped.

A message for a queue that answers later keeps its place in its old queue until the new queue has it; until then it
is neither ready nor unacknowledged (broker/remote_writes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from leveret.broker.publish_rules import carbon_copies, readable_properties
from leveret.broker.publishes import Origin, deliver
from leveret.broker.remote_writes import RoutedRun, send_on
from leveret.broker.routes import Route, RouteCache
from leveret.broker.vhost import Vhost
from leveret.clock import Clock
from leveret.delivery.selector import selectable
from leveret.errors import FrameError, LeveretError
from leveret.logs import LogInterval, get_log
from leveret.message import PERSISTENT_BY_PRIORITY, TRANSIENT_BY_PRIORITY, Address, Message, Traits
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import NOWHERE, REJECTED, DeadLetterTo, DeadMessage
from leveret.queues.queue import Queue
from leveret.routing.exchange import Exchange
from leveret.wire.content import body_at, with_properties
from leveret.wire.content_edit import appended, long, spliced
from leveret.wire.fields import FieldValue, encode_long, encode_short, encode_table, encode_value
from leveret.wire.properties import FLAG_EXPIRATION, Properties

Death = dict[str, FieldValue]

DEATHS = "x-death"
FIRST_REASON = "x-first-death-reason"
FIRST_DEATH = ("x-first-death-queue", FIRST_REASON, "x-first-death-exchange")
MOST_ADDRESSES = 1024
MOST_LOGGED_CYCLES = 1024
BETWEEN_LINES = 60.0  # seconds between two log lines about dropped messages


class Letter(NamedTuple):
    """The new header frame of a dead-lettered message, and its route."""

    route: Route
    head: bytes
    address: Address
    traits: Traits
    is_for_all: bool  # valid for every message with the same header frame


class Place(NamedTuple):
    """The place of consecutive messages in their old queue. ``size``: bytes of their contents."""

    lane: int
    sequence: int
    number: int
    size: int

    def leave(self, queue: ClassicQueue) -> None:
        if self.sequence != NOWHERE:
            queue.release(*self)


class DeadLetters:
    """The dead letters of one virtual host.

    Messages that differ only in their bodies are often dead-lettered together, and share one letter. Messages that
    differ in their properties share the route and the encoded headers, which are appended to their own headers.
    """

    def __init__(self, vhost: Vhost, clock: Clock) -> None:
        self._vhost = vhost
        self._clock = clock
        self._addresses: dict[tuple[str, str, int, int], Address] = {}
        self._routes: RouteCache[tuple[str, str, str, str], Route] = RouteCache(vhost, MOST_ADDRESSES)
        self._last_headers: tuple[tuple[object, ...], bytes] = ((), b"")  # the last encoded headers, and their key
        self._logged_cycles: set[str] = set()  # queues for which a cycle was logged
        self._log = get_log("broker")
        self._lines = LogInterval(BETWEEN_LINES)

    def send(self, queue: ClassicQueue, reason: str, messages: Sequence[DeadMessage]) -> None:
        """Republish each message and remove it from its queue: after a crash both have happened, or neither."""
        target = queue.options.dead_letter
        assert target is not None
        with self._vhost.queue_context.log.group():
            for stretch in alike(messages):
                if self._forward(queue, reason, target, stretch):
                    place_of(stretch).leave(queue)

    def _forward(self, queue: ClassicQueue, reason: str, target: DeadLetterTo, stretch: list[DeadMessage]) -> bool:
        """Whether these messages can leave the queue now."""
        try:
            letter = self._letter(queue, reason, target, stretch[0].message)
            if letter is None:
                return True
            if letter.is_for_all or len(stretch) == 1:
                return self._deliver(queue, letter, stretch)
        except LeveretError as problem:  # the headers are too large, or the store is read-only
            self._log.warning("dead-lettered message dropped", queue=queue.name, reason=str(problem))
            return True
        leaving = [dead for dead in stretch if self._forward(queue, reason, target, [dead])]
        if len(leaving) == len(stretch):
            return True
        for dead in leaving:
            place_of([dead]).leave(queue)
        return False

    def _deliver(self, queue: ClassicQueue, letter: Letter, stretch: list[DeadMessage]) -> bool:
        start = body_at(stretch[0].message[0])
        run: list[Message] = [
            (letter.head + content[start:], letter.address, letter.traits) for _, _, (content, _, _) in stretch
        ]
        size = sum([len(message[0]) for message in run])
        log = self._vhost.queue_context.log
        if not letter.route.answers_later:
            deliver(letter.route, log, run, size, False, origin=Origin.BROKER)
            return True
        if stretch[0].sequence == NOWHERE and queue.departures is not None and queue.departures.are_full:
            if self._lines.is_due(self._clock.now()):
                reason = "too many are on their way to another cell"
                self._log.warning("dead letters of rejected publishes dropped", queue=queue.name, reason=reason)
            return True
        self._send_on(queue, RoutedRun(letter.route, run, size, False), place_of(stretch))
        return False

    def _send_on(self, queue: ClassicQueue, run: RoutedRun, place: Place) -> None:
        """The messages keep their places until the other cell has the copies; the originals are not kept."""
        log = self._vhost.queue_context.log

        def written() -> None:
            with log.group():
                deliver(run.local(), log, run.messages, run.size, False, origin=Origin.BROKER)
                if queue.alive:
                    place.leave(queue)

        send_on(self._vhost, queue, run, written)

    def _letter(self, queue: ClassicQueue, reason: str, target: DeadLetterTo, message: Message) -> Letter | None:
        content, address, traits = message
        key = target.key_of(queue.name)
        if target.makes_queue and key is not None:
            if key == queue.name:
                return None  # already in its dead-letter queue
            if key not in self._vhost.queues:
                encode_short(key)  # raises if the name is too long
                self._vhost.declare_queue(key, durable=True)
        exchange = self._vhost.exchanges.get(target.exchange)
        if exchange is None:
            return None  # dropped silently, as in RabbitMQ
        head = content[: body_at(content)]
        if not exchange.looks_at_headers and is_first_death(head):
            with suppress(FrameError):  # malformed headers
                return self._quick_letter(queue, reason, exchange, key, head, message)
        properties = readable_properties(message)
        headers = properties.headers or {}
        copies = carbon_copies(headers)
        deaths = self._entries(queue.name, reason, address, properties, copies)
        keys = (address.key, *copies) if key is None else (key,)
        seen = selectable(replace(properties, headers={**headers, DEATHS: list(deaths)}, expiration=None))
        routed = self._vhost.route_unattended(exchange, keys, seen)
        queues = self._without_cycles(queue.name, reason, deaths, self._vhost.live_queues(routed.queues))
        if not queues:
            return None
        death_headers = {DEATHS: encode_deaths(deaths)}
        if not has_first_death(headers):
            death_headers |= _first_death(queue.name, reason, address)
        head = _with_headers(head, properties, death_headers, without=() if key is None else ("CC",))
        to = self._address(target.exchange, keys[0], address)
        return Letter(Route(queues), head, to, _without_deadline(traits), routed.by_key_only)

    def _quick_letter(
        self, queue: ClassicQueue, reason: str, exchange: Exchange, key: str | None, head: bytes, message: Message
    ) -> Letter | None:
        """For the first dead-lettering of a message without properties that matter: nothing is decoded."""
        _, address, traits = message
        to = self._address(exchange.name, address.key if key is None else key, address)
        of = (queue.name, reason, address, int(self._clock.wall()))
        if self._last_headers[0] != of:
            deaths = self._entries(queue.name, reason, address, Properties(), ())
            fields = {DEATHS: encode_deaths(deaths), **_first_death(queue.name, reason, address)}
            self._last_headers = (of, b"".join([encode_short(name) + value for name, value in fields.items()]))
        way = (queue.name, reason, exchange.name, to.key)
        route = self._routes.find(way)
        is_for_all = True
        if route is None:
            routed = self._vhost.route_unattended(exchange, (to.key,), {})
            is_for_all = routed.by_key_only
            died: list[Death] = [{"queue": queue.name, "reason": reason}]
            route = Route(self._without_cycles(queue.name, reason, died, self._vhost.live_queues(routed.queues)))
            if is_for_all and (route.queues or exchange.name):
                self._routes.remember(way, route)
        if not route.queues:
            return None
        return Letter(route, appended(head, self._last_headers[1]), to, _without_deadline(traits), is_for_all)

    def _entries(
        self, queue: str, reason: str, address: Address, properties: Properties, copies: Sequence[str]
    ) -> list[Death]:
        """The entries of x-death with the current dead-lettering as the latest."""
        entries = _deaths(properties.headers or {})
        same = [entry for entry in entries if entry.get("queue") == queue and entry.get("reason") == reason]
        if same:
            count = same[0].get("count")
            latest = {**same[0], "count": count + 1 if isinstance(count, int) else 1}
        else:
            latest = {
                "count": 1,
                "reason": reason,
                "queue": queue,
                "time": datetime.fromtimestamp(int(self._clock.wall()), UTC),
                "exchange": address.exchange,
                "routing-keys": [address.key, *copies],
            }
            if properties.expiration is not None:
                latest["original-expiration"] = properties.expiration
        return [latest, *(entry for entry in entries if not same or entry is not same[0])]

    def _without_cycles(self, origin: str, reason: str, deaths: Sequence[Death], queues: list[Queue]) -> list[Queue]:
        if reason == REJECTED:
            return queues
        kept = [queue for queue in queues if not goes_round(queue.name, deaths)]
        if (
            len(kept) < len(queues)
            and origin not in self._logged_cycles
            and len(self._logged_cycles) < MOST_LOGGED_CYCLES
        ):
            self._logged_cycles.add(origin)
            self._log.warning("dead-letter cycle, messages dropped", queue=origin, vhost=self._vhost.name)
        return kept

    def _address(self, exchange: str, key: str, like: Address) -> Address:
        wanted = (exchange, key, like.channel, like.frame_max)
        found = self._addresses.get(wanted)
        if found is None:
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            found = self._addresses[wanted] = Address(*wanted)
        return found


def encode_deaths(deaths: Sequence[Death]) -> bytes:
    """The raw value of the header; counts have 64 bits, as RabbitMQ's clients expect."""
    entries = []
    for death in deaths:
        count = death.get("count")
        rest = encode_table({name: value for name, value in death.items() if name != "count"})[4:]
        fields = encode_short("count") + long(count if isinstance(count, int) else 1) + rest
        entries.append(b"F" + encode_long(fields))
    return b"A" + encode_long(b"".join(entries))


def _with_headers(
    content: bytes, properties: Properties, death_headers: Mapping[str, bytes], without: Sequence[str]
) -> bytes:
    try:
        return spliced(content, death_headers, without=without, drops=(FLAG_EXPIRATION,))
    except FrameError:
        return spliced(with_properties(content, properties), death_headers)


def _deaths(headers: Mapping[str, FieldValue]) -> list[Death]:
    """The valid entries: clients may send any header of this name."""
    entries = headers.get(DEATHS)
    return [entry for entry in entries if _is_death(entry)] if isinstance(entries, list) else []  # type: ignore[misc]


def has_first_death(headers: Mapping[str, FieldValue]) -> bool:
    """Whether ``x-death`` has an entry for the first death in the headers. Clients may send any of these headers."""
    first = [headers.get(name) for name in FIRST_DEATH[:2]]
    return any([death["queue"], death["reason"]] == first for death in _deaths(headers))


def _is_death(entry: FieldValue) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("queue"), str) and isinstance(entry.get("reason"), str)


def goes_round(queue: str, deaths: Sequence[Mapping[str, object]]) -> bool:
    """Whether the message was dead-lettered in this queue before, without a rejection since."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue:
            return True
    return False


def _without_deadline(traits: Traits) -> Traits:
    return (PERSISTENT_BY_PRIORITY if traits.persistent else TRANSIENT_BY_PRIORITY)[traits.priority]


def _first_death(queue: str, reason: str, address: Address) -> dict[str, bytes]:
    values = (queue, reason, address.exchange)
    return {name: encode_value(value) for name, value in zip(FIRST_DEATH, values, strict=True)}


def is_first_death(head: bytes) -> bool:
    """Whether a header frame has no x-death, no CC and no expiration."""
    return b"x-" not in head and b"CC" not in head and not int.from_bytes(head[19:21], "big") & FLAG_EXPIRATION


def alike(deaths: Sequence[DeadMessage]) -> Iterator[list[DeadMessage]]:
    """Runs of neighbours that differ only in their bodies."""
    stretch: list[DeadMessage] = []
    head, address, traits = b"", None, None
    for dead in deaths:
        content, its_address, its_traits = dead.message
        if stretch:
            last = stretch[-1]
            follows = dead.lane == last.lane and dead.sequence == last.sequence + 1 and last.sequence != NOWHERE
            if follows and its_address is address and its_traits is traits and content.startswith(head):
                stretch.append(dead)
                continue
            yield stretch
        stretch = [dead]
        head, address, traits = content[: body_at(content)], its_address, its_traits
    if stretch:
        yield stretch


def place_of(stretch: list[DeadMessage]) -> Place:
    lane, sequence, _ = stretch[0]
    return Place(lane, sequence, len(stretch), sum([len(dead.message[0]) for dead in stretch]))
