"""From runs of rows to queues, by the rules of every publish.

A run holds messages of one address. Where they lead is found once per address and remembered until something changes
that could make it wrong, as channels do it (session/routes.py). How closely messages must be looked at is known in
stretches: *plain* ones say that they are persistent and nothing else, and go to their queues as they are; of others the
priority and the expiration are read without decoding what is not needed; and where that is not enough (further keys,
times to wait for, exchanges that look at headers) all their properties.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from leveret.broker.counters import ExchangeCounters
from leveret.broker.publish_rules import further_keys, traits_of
from leveret.broker.schedules import until
from leveret.broker.vhost import Vhost
from leveret.delivery.selector import selectable
from leveret.errors import PreconditionFailed
from leveret.logs import get_log
from leveret.message import NEVER, PERSISTENT, Address, Message, Traits
from leveret.queues.choosy import hand_over, offer
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import REJECT_DLX
from leveret.queues.queue import Queue, publish_to, stretches
from leveret.routing.bounds import RoutingRefused
from leveret.routing.router import Routed
from leveret.session.inspection import inspect
from leveret.wire.content import PROPERTIES_AT, body_at, properties_of
from leveret.wire.splicing import spliced

if TYPE_CHECKING:
    from leveret.routing.exchange import Exchange

MOST_REMEMBERED = 4_096
RUN = 4_096  # messages that are handed on at once
RUN_BYTES = 1 << 20
QUICK = 16  # messages of which a quick look costs as much as one run that goes as it is
SPECIAL_COST = 4  # of a message that is routed by itself: that may take many routing steps
SLICE_COST = 128  # runs that go as they are, or messages that are looked at, before others get their turn
PLAIN = b"\x10\x00\x02"  # flags and value of the properties of a message that is persistent and nothing else
PLAIN_AT = slice(PROPERTIES_AT, PROPERTIES_AT + len(PLAIN))


class Incoming(NamedTuple):
    """A run that came in: messages of one address, known to be plain or not, and the bytes of their contents."""

    messages: list[Message]
    is_plain: bool
    size: int


class Look(IntEnum):
    """How closely a message must be looked at."""

    PLAIN = 0
    QUICK = 1
    CLOSE = 2


def is_plain(run: Sequence[Message]) -> bool:
    return {message[0][PLAIN_AT] for message in run} == {PLAIN}


def looked_at(run: list[Message], now: float) -> tuple[Look, list[Message]]:
    """The first messages that need the same look; with the traits that their properties ask for, if that is not a
    close one."""
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
    """As many of the first as may be handed on at once, and one at least."""
    ends = list(accumulate([len(message[0]) for message in messages[:RUN]]))
    number = max(bisect_right(ends, RUN_BYTES), 1)
    return messages if number >= len(messages) else messages[:number]


class Way:
    """Where the messages of one address go."""

    __slots__ = ("counters", "exchange", "is_picky", "is_special", "queues")

    def __init__(
        self, exchange: Exchange, counters: ExchangeCounters, queues: list[Queue], *, is_special: bool
    ) -> None:
        self.exchange = exchange
        self.counters = counters
        self.queues = queues
        self.is_special = is_special  # every message must be looked into to be routed
        self.is_picky = any(queue.choosy or queue.remote_log is not None for queue in queues)


class Ways:
    """The remembered ways of one virtual host."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._known: dict[tuple[str, str], Way] = {}
        self._state = (-1, -1)

    def of(self, address: Address) -> Way | None:
        """None if there is no such exchange."""
        vhost = self._vhost
        if self._state != (vhost.epoch, vhost.deaths) or len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
            self._state = (vhost.epoch, vhost.deaths)
        key = (address.exchange, address.key)
        way = self._known.get(key)
        if way is None:
            exchange = vhost.exchanges.get(address.exchange)
            if exchange is None:
                return None
            routed = self._route(exchange, (address.key,), {})
            way = self._way(exchange, routed.queues, is_special=not routed.by_key_only)
            if way.queues or address.exchange:  # a miss on the default exchange ends without a sign: see vhost.py
                self._known[key] = way
        return way

    def of_message(self, way: Way, address: Address, copies: Sequence[str], fields: Mapping[str, object]) -> Way:
        """The same for one message that has to be looked into."""
        routed = self._route(way.exchange, (address.key, *copies), fields)
        return self._way(way.exchange, routed.queues, is_special=True)

    def _route(self, exchange: Exchange, keys: Sequence[str], fields: Mapping[str, object]) -> Routed:
        return self._vhost.route(exchange, keys, fields)

    def _way(self, exchange: Exchange, names: Sequence[str], *, is_special: bool) -> Way:
        counters = self._vhost.counters_of(exchange.name)
        return Way(exchange, counters, self._vhost.live_queues(names), is_special=is_special)


class CommittedWays(Ways):
    """For messages whose publisher has been told that they arrive: routing that is refused leads to no queue."""

    def _route(self, exchange: Exchange, keys: Sequence[str], fields: Mapping[str, object]) -> Routed:
        try:
            return super()._route(exchange, keys, fields)
        except RoutingRefused as refusal:
            get_log("pipeline").warning("committed messages dropped", vhost=self._vhost.name, reason=refusal.text)
            return Routed([], by_key_only=True)


class Inflow:
    """Publishes runs, and counts what became of them.

    ``insists``: these were promised to arrive, so a full queue has to take them all the same.
    """

    def __init__(self, vhost: Vhost, *, insists: bool = False) -> None:
        self._vhost = vhost
        self._log = vhost.surroundings.log
        self._insists = insists
        self._ways = CommittedWays(vhost) if insists else Ways(vhost)
        self.published = 0
        self.unroutable = 0  # of these
        self.refused = 0  # by a full queue

    def cost(self, run: Sequence[Message], look: Look) -> int:
        """About how much work it is to publish the run: 1 for one that goes to its queues as it is."""
        way = self._ways.of(run[0][1])
        if way is None:
            return 1
        if way.is_special:
            return len(run) * SPECIAL_COST
        if look is Look.CLOSE or way.is_picky:
            return len(run)
        return 1 + len(run) * len(way.queues) // RUN + (len(run) // QUICK if look else 0)

    def publish(self, run: list[Message], look: Look, *, has_traits: bool) -> None:
        """``run``: of one address; ``has_traits``: as ``looked_at`` gave it."""
        way = self._ways.of(run[0][1])
        if way is None:
            self.published += len(run)
            self.unroutable += len(run)
        elif way.is_special or (look and not (has_traits and look is Look.QUICK)):
            self._look(way, run)
        elif look:
            self._hand_over_each(way, run)
        else:
            self._hand_over(way, run, timed=False)

    def _look(self, way: Way, run: Sequence[Message]) -> None:
        now = self._vhost.surroundings.now()
        alike: list[Message] = []
        for content, address, _ in run:
            traits = None if way.is_special else quick_traits(content, now)
            if traits is not None:
                alike.append((content, address, traits))
                continue
            self._hand_over_each(way, alike)
            alike = []
            self._look_closely(way, content, address)
        self._hand_over_each(way, alike)

    def _hand_over_each(self, way: Way, run: list[Message]) -> None:
        for stretch in stretches(run):
            self._hand_over(way, stretch, any(message[2].deadline != NEVER for message in stretch))

    def _hand_over(self, way: Way, run: list[Message], timed: bool) -> None:
        """All persistent, or all transient."""
        number = len(run)
        self.published += number
        way.counters.published += number
        if not way.queues:
            self.unroutable += number
            way.counters.unroutable += number
        elif way.is_picky:
            for message in run:
                self._offer(way.queues, message)
        else:
            publish_to(way.queues, self._log, run, sum([len(message[0]) for message in run]), timed)

    def _look_closely(self, way: Way, content: bytes, address: Address) -> None:
        vhost = self._vhost
        properties = properties_of(content)
        headers = properties.headers or {}
        try:
            traits = traits_of(properties, vhost.surroundings.now())
            copies, due = further_keys(headers), vhost.schedules.due(way.exchange, headers)
        except PreconditionFailed as problem:
            if not self._insists:
                raise
            # It was sound when it came; since then the exchange has become one that minds.
            get_log("pipeline").warning("committed message dropped", vhost=vhost.name, reason=problem.text)
            self.published += 1
            self.unroutable += 1
            return
        if due is not None:
            self.published += 1
            way.counters.published += 1
            offer([vhost.schedules.queue], self._log, (content, address, until(due, traits)))
            return
        if "BCC" in headers:
            content = spliced(content, {}, without=("BCC",))
        if copies or way.is_special:
            way = self._ways.of_message(way, address, copies, selectable(properties))
        self._hand_over(way, [(content, address, traits)], traits.deadline != NEVER)

    def _offer(self, queues: Sequence[Queue], message: Message) -> None:
        """To queues of which some may refuse it, or do not take it at once."""
        if not self._insists:
            self.refused += hand_over(queues, self._log, message).refused
            return
        for queue in queues:
            if hand_over([queue], self._log, message, may_drain=False).refused:
                self._insist(queue, message)

    def _insist(self, queue: Queue, message: Message) -> None:
        assert isinstance(queue, ClassicQueue)
        if queue.options.overflow == REJECT_DLX and queue.options.dead_letter is not None:
            return  # it has gone to the dead letters, as the queue asks for
        publish_to([queue], self._log, [message], len(message[0]), message[2].deadline != NEVER)
        if queue.duplicates is not None:
            queue.duplicates.note(message)


def quick_traits(content: bytes, now: float) -> Traits | None:
    """What the properties ask for, without decoding them; None if that takes a closer look."""
    if content[PLAIN_AT] == PLAIN:
        return PERSISTENT
    flags = int.from_bytes(content[PROPERTIES_AT : PROPERTIES_AT + 2], "big")
    return inspect(flags, content, PROPERTIES_AT + 2, body_at(content) - 1, now)
