"""Scheduled messages: ``x-deliver-at`` on any exchange, ``x-delay`` on an exchange of type x-delayed-message.

Theory of operation. A scheduled message waits in an internal queue of its virtual host, where its deadline is the time
at which it is due. So the journal keeps that time, recovery restores it, and long schedules are paged out. Messages
that expire in that queue are due: like dead letters, they are routed in one group of the log with their removal. They
are routed as if they were published now, with their original exchange and keys; their own expiration starts then.

    publish ──> schedule, deadline = due ──time──> route ──> queues     (after a crash, it is in one of the two)

Times are message time in memory, and wall time on disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from leveret.backlog.deadlines import unpacked
from leveret.backlog.lane import HOLE, Lane
from leveret.backlog.scattered_read import ScatteredRead
from leveret.broker.internal_queues import SCHEDULE
from leveret.broker.publish_rules import PUBLISH, further_keys, traits_of
from leveret.broker.publishes import Origin, deliver
from leveret.broker.remote_writes import RoutedRun, send_on
from leveret.broker.routes import Route
from leveret.delivery.selector import selectable
from leveret.errors import LeveretError, PreconditionFailed
from leveret.logs import get_log
from leveret.message import NEVER, Message, Traits
from leveret.queues.classic import ClassicQueue
from leveret.queues.discard_counters import DiscardCounters
from leveret.queues.options import DeadLetterTo, DeadMessage, QueueOptions
from leveret.routing.delayed import DELAYED
from leveret.routing.exchange import Exchange
from leveret.store.pages import Loaded
from leveret.wire.content import body_of, properties_of
from leveret.wire.content_edit import spliced
from leveret.wire.fields import encode_value

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

DELAY, DELIVER_AT = "x-delay", "x-deliver-at"
MOST_MS = 1 << 53
AT_ONCE = 256  # messages that are routed in one drain
QUEUE_MEMORY = 8 << 20  # bytes of content in memory; the rest is on disk only
ID = re.compile(r"(\d+)-(\d+)-(\d+)", re.ASCII)
SHOWN_BYTES = 200  # of a body in a list
MOST_READ = 16 << 10  # bytes of a message whose body is shown


class Scheduled(NamedTuple):
    id: str
    due: float  # wall time
    exchange: str
    routing_key: str
    size: int  # bytes of properties, body and the frames around them
    start: bytes  # of the body; empty if the message is large


class Page(NamedTuple):
    messages: list[Scheduled]
    next: int | None  # ``after`` of the next page; None if this is the last


class Schedules:
    """The scheduled messages of one virtual host."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._queue: ClassicQueue | None = None
        self.sent = 0  # messages that were due and reached a queue
        self.dropped = 0  # due, but their exchange was deleted or routed to no queue
        self._log = get_log("broker")

    # ---- scheduling

    @property
    def queue(self) -> ClassicQueue:
        """The internal queue of the scheduled messages; created for the first one."""
        return self._queue or self.open()

    def open(self, id_: int | None = None) -> ClassicQueue:
        context = replace(
            self._vhost.queue_context,
            queue_memory=min(QUEUE_MEMORY, self._vhost.queue_context.queue_memory),
            dead_letters=self,
            discards=DiscardCounters(),  # messages that are due are not discarded
            expiries_at_once=AT_ONCE,
            watches_all=True,
        )
        options = QueueOptions(dead_letter=DeadLetterTo(""))  # the target is not used: see ``send``
        self._queue = self._vhost.internal.open(SCHEDULE, options, context, id_)
        return self._queue

    def due(self, exchange: Exchange, headers: Mapping[str, object]) -> float | None:
        """The message time at which a message with these headers is due; None if it is due now."""
        if DELAY not in headers and DELIVER_AT not in headers:
            return None
        context = self._vhost.queue_context
        now, moment = context.now(), -NEVER
        if DELIVER_AT in headers:
            moment = _deliver_at(headers[DELIVER_AT]) - context.wall_ahead()
        if exchange.kind == DELAYED:
            moment = max(moment, now + _delay_ms(headers) / 1000)
        return moment if moment > now else None

    # ---- routing

    def send(self, queue: ClassicQueue, reason: str, messages: Sequence[DeadMessage]) -> None:
        with self._vhost.queue_context.log.group():
            for dead in messages:
                try:
                    run = self._routed(dead.message)
                    if run is not None and run.route.answers_later:
                        send_on(self._vhost, queue, run, partial(self._send_locally, queue, dead, run))
                        continue
                    self._send_locally(queue, dead, run)
                except LeveretError as problem:  # for example, the store is read-only
                    self._log.warning("scheduled message dropped", vhost=self._vhost.name, reason=str(problem))
                    self.dropped += 1
                    queue.release_dead(dead)

    def _send_locally(self, queue: ClassicQueue, dead: DeadMessage, run: RoutedRun | None) -> None:
        """Pass a message that is due to the queues of this broker, and remove it from the schedule."""
        log = self._vhost.queue_context.log
        with log.group():
            if run is not None:
                deliver(run.local(), log, run.messages, run.size, run.timed, origin=Origin.BROKER)
            self.sent += run is not None
            self.dropped += run is None
            if queue.alive:
                queue.release_dead(dead)

    def _routed(self, message: Message) -> RoutedRun | None:
        """The message as it will be delivered, with its queues; None if there are none."""
        content, address, _ = message
        vhost = self._vhost
        exchange = vhost.exchanges.get(address.exchange)
        if exchange is None:
            return None
        properties = properties_of(content)
        headers = properties.headers or {}
        keys = (address.key, *further_keys(headers))
        queues = vhost.live_queues(vhost.route_unattended(exchange, keys, selectable(properties)).queues)
        if not queues:
            vhost.counters_of(exchange.name).unroutable += 1
            return None
        content = _as_delivered(content, headers, exchange)
        traits = traits_of(properties, vhost.queue_context.now())
        return RoutedRun(Route(queues), [(content, address, traits)], len(content), traits.deadline != NEVER)

    # ---- listing and cancelling

    @property
    def count(self) -> int:
        return 0 if self._queue is None else self._queue.ready

    def list(self, limit: int, after: int | None, done: Callable[[Page], None]) -> None:
        """Call ``done`` with the messages that are due first, after ``after``; reads the disk if needed."""
        queue = self._queue
        if queue is None or queue.deadlines is None:
            done(Page([], None))
            return
        entries = queue.deadlines.soonest(limit, after)
        watched = [unpacked(entry) for entry in entries]
        found: dict[int, Message] = {}
        on_disk: list[int] = []
        for _, _, sequence in watched:
            message = _waiting(queue.lane, sequence)
            if message is not None:
                found[sequence] = message
            elif queue.lane.is_paged(sequence):
                on_disk.append(sequence)

        def take(loaded: Sequence[Loaded], missing: Sequence[int]) -> None:
            found.update({each.sequence: each.message for each in loaded})

        def over() -> None:
            ahead = self._vhost.queue_context.wall_ahead()
            messages = [
                _scheduled(queue.id, sequence, deadline + ahead, found[sequence])
                for deadline, _, sequence in watched
                if sequence in found
            ]
            done(Page(messages, entries[-1] if len(entries) == limit else None))

        if on_disk and queue.pager is not None:
            ScatteredRead(queue.pager.pages, queue.id, 0, on_disk, take, over).go_on()
        else:
            over()

    def read(self, id_: str, done: Callable[[Message | None], None]) -> None:
        """Call ``done`` with a scheduled message, None if there is none with this ID; reads the disk if needed."""
        place = self._place(id_)
        if place is None:
            done(None)
            return
        queue, sequence = place
        found = [_waiting(queue.lane, sequence)]

        def take(loaded: Sequence[Loaded], missing: Sequence[int]) -> None:
            found.extend(each.message for each in loaded)

        if queue.lane.is_paged(sequence) and queue.pager is not None:
            ScatteredRead(queue.pager.pages, queue.id, 0, [sequence], take, lambda: done(found[-1])).go_on()
        else:
            done(found[0])

    def _place(self, id_: str) -> tuple[ClassicQueue, int] | None:
        parts = ID.fullmatch(id_)
        queue = self._queue
        if parts is None or queue is None or int(parts[1]) != queue.id or int(parts[2]):
            return None
        return queue, int(parts[3])

    def cancel(self, id_: str) -> bool:
        """Remove a scheduled message; False if there is none with this ID."""
        place = self._place(id_)
        if place is None:
            return False
        queue, sequence = place
        size: int | None = None
        if queue.lane.is_paged(sequence):
            size = None if queue.pager is None else queue.pager.expire(queue.lane, sequence)
        elif waiting := queue.lane.cut_out(sequence):
            size = len(waiting[2][0])
        if size is None:
            return False
        queue.release(0, sequence, 1, size)
        queue.touch()
        self._vhost.queue_context.log.promise()
        return True


def until(due: float, traits: Traits) -> Traits:
    """The traits of a message in the schedule, where its own expiration has no effect."""
    return Traits(persistent=traits.persistent, deadline=due, priority=traits.priority)


def _deliver_at(value: object) -> float:
    """Seconds since 1970. Timestamps beyond the range of dates are in milliseconds, and decoded as numbers."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, str) and re.fullmatch(r"\d{1,16}", value, re.ASCII):  # sent by protocols with text headers
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value <= MOST_MS:
        return value / 1000
    raise PreconditionFailed(
        f"invalid header '{DELIVER_AT}' {value!r}: must be a timestamp, or a whole number of milliseconds since 1970 "
        f"up to {MOST_MS}",
        method=PUBLISH,
    )


def _delay_ms(headers: Mapping[str, object]) -> int:
    """0: no delay. Values that are not whole numbers are ignored, as in RabbitMQ's plugin."""
    value = headers.get(DELAY)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    if value > MOST_MS:
        raise PreconditionFailed(
            f"invalid header '{DELAY}' {value}: must be a number of milliseconds up to {MOST_MS}", method=PUBLISH
        )
    return value


def _as_delivered(content: bytes, headers: Mapping[str, object], exchange: Exchange) -> bytes:
    """The content without BCC; the delay becomes negative, as in RabbitMQ's plugin."""
    delay = _delay_ms(headers) if exchange.kind == DELAYED else 0
    if delay <= 0 and "BCC" not in headers:
        return content
    return spliced(content, {DELAY: encode_value(-delay)} if delay > 0 else {}, without=("BCC",))


def _waiting(lane: Lane, sequence: int) -> Message | None:
    """The message with this sequence, if it is in memory."""
    is_behind = lane.page_stop and sequence >= lane.page_stop
    messages = lane.fresh if is_behind else lane.ready
    index = sequence - (lane.page_stop if is_behind else lane.head)
    message = messages[index] if 0 <= index < len(messages) else HOLE
    return None if message is HOLE else message


def _scheduled(queue: int, sequence: int, due: float, message: Message) -> Scheduled:
    content, address, _ = message
    start = body_of(content)[:SHOWN_BYTES] if len(content) <= MOST_READ else b""
    return Scheduled(f"{queue}-0-{sequence}", due, address.exchange, address.key, len(content), start)
