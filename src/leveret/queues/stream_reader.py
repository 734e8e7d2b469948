"""One consumer of a stream: its position, the messages that were read ahead, and the acknowledged offsets.

Readers are independent: each has its own position in the stream and its own pace. Acks return credit and move the
offset that is stored under the reader's name; they do not remove messages from the stream, or return them to it.

    offsets    ... 41 | 42 43 44 | 45 46 47 48 | 49 ...
           safe ──────┘          │             │
           unacknowledged:       │             └── cursor: the next offset to read from the files
           42, 43, 44            └── position: the next offset to deliver; 45 to 48 are read ahead
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from leveret.delivery.consumer import Consumer
from leveret.delivery.selector import selectable
from leveret.errors import FrameError
from leveret.message import Message
from leveret.queues.stream_offset_header import OffsetHeaders
from leveret.queues.stream_options import ReaderOptions
from leveret.store.stream_files import StreamRun
from leveret.wire.content import body_at, properties_of

FILTER_VALUE = "x-stream-filter-value"
RAW_FILTER_VALUE = FILTER_VALUE.encode()
STEPS_PER_LOOK = 250  # steps of a selector that count as one more message checked
STRETCH_BYTES = 256 << 10  # delivered to a consumer at once


class Progress:
    """The progress of a named reader: the lowest offset that was delivered and is not acknowledged.

    Acks may arrive in any order. Acknowledged offsets above the lowest one are kept as ranges, and adjacent ranges are
    joined: there are never more ranges than unacknowledged messages. Offsets that were filtered out count as
    acknowledged. An offset that was requeued does not: the reader gets it again when it is restarted, and nothing above
    it counts until then.
    """

    __slots__ = ("_firsts", "_high", "_limit", "_low", "_stops")

    def __init__(self) -> None:
        self._low = 0  # all offsets below are acknowledged
        self._high = -1  # the end of the delivered offsets; negative: nothing was delivered yet
        self._limit: int | None = None  # the lowest offset that was requeued
        self._stops: dict[int, int] = {}  # ends of acknowledged ranges, by their starts
        self._firsts: dict[int, int] = {}  # starts by ends

    @property
    def low(self) -> int | None:
        """The lowest unacknowledged offset; None if everything that was delivered is acknowledged."""
        return self._low if self._low < self._high else None

    def given(self, first: int, stop: int) -> None:
        if self._high < 0:
            self._low = self._high = first
        if first > self._high:
            passed, self._high = self._high, first
            self.read(passed, first)
        self._high = stop

    def read(self, first: int, stop: int) -> None:
        if self._limit is not None and first >= self._limit:
            return
        if first == self._low:
            self._low = self._stops.pop(stop, stop)
            self._firsts.pop(self._low, None)
            return
        first = self._firsts.pop(first, first)
        joined = self._stops.pop(stop, stop)
        self._firsts.pop(joined, None)
        self._stops[first], self._firsts[joined] = joined, first

    def returned(self, offset: int) -> None:
        if self._limit is None or offset < self._limit:
            self._limit = offset
            self._stops = {first: stop for first, stop in self._stops.items() if first < offset}
            self._firsts = {stop: first for first, stop in self._stops.items()}


class StreamReader:
    """``number`` is used as the lane of deliveries, so that acks are routed to the reader."""

    __slots__ = (
        "_at",
        "ahead",
        "ahead_bytes",
        "consumer",
        "cursor",
        "is_filtered",
        "is_loading",
        "looks",
        "number",
        "options",
        "progress",
        "stored",
        "unacked",
    )

    def __init__(self, number: int, consumer: Consumer, options: ReaderOptions) -> None:
        self.number = number
        self.consumer = consumer
        self.options = options
        self.is_filtered = options.filters is not None or consumer.selector is not None
        self.cursor: int | None = None  # None until the start is known
        self.is_loading = False
        self.ahead: deque[StreamRun] = deque()
        self.ahead_bytes = 0  # of the last read ahead, until all of it is delivered
        self.stored: int | None = None  # the offset that was last stored under its name
        self.looks = 0  # messages that it may still check in this tick, if it has a filter
        self._at = 0  # messages of ahead[0] that are delivered or filtered out
        self.unacked = 0  # messages, if it has a name
        self.progress = Progress()

    # ---- reading ahead

    @property
    def position(self) -> int | None:
        """The next offset to deliver."""
        return self.ahead[0].first + self._at if self.ahead else self.cursor

    def take_in(self, runs: Iterable[StreamRun], size: int) -> None:
        """Take runs that were read from the cursor on."""
        assert self.cursor is not None
        skip = self.cursor
        self.ahead.extend(run for run in runs if run.first + len(run.messages) > skip)
        self.ahead_bytes = size
        if self.ahead:
            last = self.ahead[-1]
            self.cursor = last.first + len(last.messages)
            self._go_to(skip)

    def _go_to(self, offset: int) -> None:
        ahead = self.ahead
        while ahead and ahead[0].first + len(ahead[0].messages) <= offset:
            ahead.popleft()
        self._at = max(offset - ahead[0].first, 0) if ahead else 0
        if not ahead:
            self.ahead_bytes = 0

    # ---- to the consumer

    def next_stretch(self, headers: OffsetHeaders, most: int) -> tuple[int, deque[Message]]:
        """Consecutive messages with their offsets in the headers, and the offset of the first."""
        stretch: deque[Message] = deque()
        first = self.ahead[0].first + self._at
        size, skip = 0, self._at
        for run in self.ahead:
            offset = first + len(stretch)
            if run.first + skip != offset or size >= STRETCH_BYTES or len(stretch) == most:
                break
            messages = run.messages[skip : skip + most - len(stretch)]
            size += headers.append(messages, offset, stretch, STRETCH_BYTES - size)
            skip = 0
        return first, stretch

    def next_chosen(self, headers: OffsetHeaders, most: int) -> tuple[int, deque[Message]]:
        """As ``next_stretch``, but only messages that match the filter; others are skipped. When ``looks`` is used up,
        the result may be empty although more messages follow."""
        self._skip()
        first = self.position or 0
        chosen: list[Message] = []
        if self.ahead:
            for message in islice(self.ahead[0].messages, self._at, self._at + most):
                if self.looks <= 0 or not self._matches(message):
                    break
                chosen.append(message)
        stretch: deque[Message] = deque()
        headers.append(chosen, first, stretch, STRETCH_BYTES)
        return first, stretch

    def _skip(self) -> None:
        """Skip to the first message that matches."""
        while self.ahead:
            run = self.ahead[0]
            for message in islice(run.messages, self._at, None):
                if self.looks <= 0 or self._matches(message):
                    return
                self._at += 1
            self._go_to(run.first + self._at)

    def _matches(self, message: Message) -> bool:
        self.looks -= 1
        content, filters, selector = message[0], self.options.filters, self.consumer.selector
        if filters is not None and selector is None and RAW_FILTER_VALUE not in content[: body_at(content)]:
            return self.options.unfiltered
        try:
            properties = properties_of(content)
        except FrameError:  # malformed headers have no value to filter by
            return self.options.unfiltered and selector is None
        if filters is not None:
            value = (properties.headers or {}).get(FILTER_VALUE)
            if value not in filters if isinstance(value, str) else not self.options.unfiltered:
                return False
        if selector is None:
            return True
        matches, steps = selector.asked(selectable(properties))
        self.looks -= steps // STEPS_PER_LOOK
        return matches

    def given(self, first: int, number: int) -> None:
        """The consumer took this many messages of a stretch."""
        self._go_to(first + number)
        if self.options.name is not None:
            self.unacked += number
            self.progress.given(first, first + number)

    # ---- acks

    def settled(self, offset: int, number: int, is_read: bool) -> None:
        """Record acks, which arrive in any order, but only once for each offset."""
        if self.options.name is not None:
            self.unacked -= number
            if is_read:
                self.progress.read(offset, offset + number)
            else:
                self.progress.returned(offset)

    @property
    def safe(self) -> int | None:
        """The offset at which it would continue after a restart."""
        low = self.progress.low
        return self.position if low is None else low
