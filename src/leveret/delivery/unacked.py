"""Deliveries of a channel that are not settled.  Hot path.

Theory of operation. Delivery tags of a channel are 1, 2, 3, ... so the outstanding messages are a list indexed by
``tag - base``; a settled message in the middle is a hole (None). The holder and the source of a message are not stored
per message: consecutive tags of one holder, from consecutive places of one lane, form a *span*, and a single consumer
on a channel has one span. In a span ``sequence = tag + delta`` always holds.

    tags     base ............................ next_tag
    items    [ m  m  m  None  m  m  m  m  m  m ]
    spans    |--- holder A, delta 7 ---|- holder B -|

One old delivery that is never settled would keep the list growing. When most of the list is holes, the outstanding
deliveries of its older half become *stragglers*, which are stored individually, and that half of the list is dropped.

Settling returns *portions*: consecutive sequences of one lane, without holes. A queue settles or requeues a whole
portion at once, and the log writes one range instead of many numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from leveret.delivery.consumer import Holder, Source
from leveret.errors import PreconditionFailed
from leveret.message import Message

MOST_TIMED_OUT = 65536  # tags
COMPACT_FROM = 1024  # settled slots at the front before the list is shortened


class Portion(NamedTuple):
    """Consecutive messages of one lane that were settled together. ``tries``: deliveries before this one."""

    holder: Holder
    lane: int
    sequence: int
    messages: list[Message]
    tries: int


def acknowledge(portions: list[Portion]) -> None:
    for holder, lane, sequence, messages, _ in portions:
        holder.queue.settle(lane, sequence, messages)
        holder.restore(len(messages))


def requeue(portions: list[Portion]) -> None:
    for holder, lane, sequence, messages, count in portions:
        holder.queue.requeue(lane, sequence, messages, count)
        holder.restore(len(messages))


def give_back(portions: list[Portion]) -> None:
    """Requeue messages whose holder was closed before it settled them."""
    for holder, lane, sequence, messages, count in portions:
        holder.queue.requeue(lane, sequence, messages, count, tried=False)


def give_back_unseen(portions: list[Portion]) -> None:
    """Requeue messages that another cell has prefetched, and given to no consumer: this was no delivery."""
    for holder, lane, sequence, messages, count in portions:
        holder.queue.requeue(lane, sequence, messages, count - 1, tried=False)


def requeue_left(portions: list[Portion]) -> None:
    """Requeue messages whose holder in another cell was closed before it settled them."""
    give_back(portions)
    for portion in portions:
        portion.holder.restore(len(portion.messages))


def requeue_unseen(portions: list[Portion]) -> None:
    give_back_unseen(portions)
    for portion in portions:
        portion.holder.restore(len(portion.messages))


def drop(portions: list[Portion]) -> None:
    for holder, lane, sequence, messages, _ in portions:
        holder.queue.drop(lane, sequence, messages)
        holder.restore(len(messages))


def unknown_tag(tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {tag}")


class Span:
    __slots__ = ("count", "delta", "holder", "lane", "last")

    def __init__(self, last: int, delta: int, holder: Holder, lane: int, count: int) -> None:
        self.last = last
        self.delta = delta
        self.holder = holder
        self.lane = lane
        self.count = count


NO_SPANS: deque[Span] = deque()  # of channels without deliveries yet: a deque of their own takes 0.75 KB


class Unacked:
    """Outstanding deliveries of one channel, by delivery tag."""

    __slots__ = ("base", "holes", "items", "late", "next_tag", "spans", "start", "stragglers", "timed_out")

    def __init__(self) -> None:
        self.base = 1  # tag of items[start]
        self.next_tag = 1
        self.start = 0
        self.holes = 0
        self.items: list[Message | None] = []
        self.spans = NO_SPANS
        self.stragglers: dict[int, Portion] = {}  # by tag, in order, all below base
        self.timed_out: dict[int, None] = {}  # tags whose ack timeout has passed: a late ack is not an error
        self.late = 0  # settlements of tags that had timed out

    def __len__(self) -> int:
        return len(self.items) - self.start - self.holes + len(self.stragglers)

    # ---- deliveries

    def add(self, holder: Holder, message: Message | None, lane: int, sequence: int, count: int) -> int:
        """Add one delivery; returns its tag. Without a message the delivery needs no ack."""
        tag = self.next_tag
        if message is None:
            self.skip(1)
        else:
            self.items.append(message)
            self.opened(holder, lane, sequence, 1, count)
        return tag

    def opened(self, holder: Holder, lane: int, sequence: int, number: int, count: int = 0) -> None:
        """The caller has appended ``number`` messages to ``items``: assign their tags and record their holder."""
        first = self.next_tag
        last = first + number - 1
        self.next_tag = last + 1
        delta = sequence - first
        if self.spans is NO_SPANS:
            self.spans = deque()
        elif self.spans:
            span = self.spans[-1]
            same_source = span.holder is holder and span.lane == lane and span.count == count
            if same_source and span.delta == delta and span.last == first - 1:
                span.last = last
                return
        self.spans.append(Span(last, delta, holder, lane, count))

    def skip(self, number: int) -> None:
        """Use up tags of deliveries that need no ack."""
        self.next_tag += number
        if self.start == len(self.items):
            self.base += number
        else:
            self.items.extend([None] * number)
            self.holes += number
            self._set_stragglers_apart()

    # ---- settling

    def holds(self, tag: int) -> bool:
        if tag < self.base:
            return tag in self.stragglers
        return tag < self.next_tag and self.items[self.start + tag - self.base] is not None

    def take_through(self, tag: int, *, also_stragglers: bool = True) -> list[Portion]:
        """Settle everything up to and including ``tag``; without stragglers, only from ``base`` on."""
        portions: list[Portion] = []
        if self.stragglers and also_stragglers:
            portions = [self.stragglers.pop(old) for old in list(self.stragglers) if old <= tag]
        if tag < self.base:
            return portions
        spans, items = self.spans, self.items
        first, shift = self.base, self.start - self.base
        while first <= tag and spans:
            span = spans[0]
            last = span.last if span.last < tag else tag
            messages = items[first + shift : last + shift + 1]
            if self.holes:
                self._split(portions, span, first, messages)
            else:
                portions.append(Portion(span.holder, span.lane, first + span.delta, messages, span.count))  # type: ignore[arg-type]
            if last == span.last:
                spans.popleft()
            first = last + 1
        self._drop_front(tag - self.base + 1)
        return portions

    def claim(self, tag: int, multiple: bool) -> list[Portion]:
        """Take the messages that basic.ack, nack or reject with this tag settles; with ``multiple``, 0 means all.

        An unknown tag is refused, a tag that timed out is not.
        """
        is_late = tag in self.timed_out
        if multiple and tag and not is_late and not self.holds(tag):
            raise unknown_tag(tag)
        if self.timed_out:
            self.late += self._forget_timed_out(tag or self.next_tag, multiple)
        if multiple:
            return self.take_through(tag) if tag else self.take_all()
        portion = self.take_one(tag)
        if portion is None and not is_late:
            raise unknown_tag(tag)
        return [] if portion is None else [portion]

    def take_all(self) -> list[Portion]:
        return self.take_through(self.next_tag - 1)

    def take_one(self, tag: int) -> Portion | None:
        """Settle only ``tag``; None if it is not outstanding."""
        if tag < self.base:
            return self.stragglers.pop(tag, None)
        if tag >= self.next_tag:
            return None
        index = self.start + tag - self.base
        message = self.items[index]
        if message is None:
            return None
        span = self._span_of(tag)
        if tag == self.base:
            self._drop_front(1)
        else:
            self.items[index] = None
            self.holes += 1
            self._set_stragglers_apart()
        return Portion(span.holder, span.lane, tag + span.delta, [message], span.count)

    def take_each(self, tags: Iterable[int]) -> list[Portion]:
        """Settle each of these tags that is outstanding."""
        portions = [self.take_one(tag) for tag in tags]
        return [portion for portion in portions if portion is not None]

    def take_back(self, tag: int) -> Portion | None:
        """Take back a message whose ack timeout has passed; a later settlement of its tag is ignored."""
        portion = self.take_one(tag)
        if portion is not None:
            self.timed_out[tag] = None
            if len(self.timed_out) > MOST_TIMED_OUT:
                del self.timed_out[next(iter(self.timed_out))]
        return portion

    def holder_of(self, tag: int) -> Holder | None:
        """The holder of an outstanding tag; otherwise None."""
        if not self.holds(tag):
            return None
        return self.stragglers[tag].holder if tag < self.base else self._span_of(tag).holder

    def place_of(self, tag: int) -> tuple[int, int]:
        """Lane and sequence of an outstanding tag."""
        if tag < self.base:
            portion = self.stragglers[tag]
            return portion.lane, portion.sequence
        span = self._span_of(tag)
        return span.lane, tag + span.delta

    def held_of(self, queue: Source, most_spans: int) -> Iterator[tuple[int, Portion]]:
        """The outstanding deliveries of one queue, each with its tag, from the oldest on; nothing may change meanwhile.
        ``most_spans``: how many spans are read."""
        for tag, portion in self.stragglers.items():
            if portion.holder.queue is queue:
                yield tag, portion
        for first, span in self._spans_of(queue, most_spans):
            for tag in range(first, span.last + 1):
                message = self.items[self.start + tag - self.base]
                if message is not None:
                    yield tag, Portion(span.holder, span.lane, tag + span.delta, [message], span.count)

    def number_of(self, queue: Source, most_spans: int) -> int:
        """How many deliveries of one queue are outstanding."""
        number = sum(portion.holder.queue is queue for portion in self.stragglers.values())
        shift = self.start - self.base
        for first, span in self._spans_of(queue, most_spans):
            slots = self.items[first + shift : span.last + 1 + shift]
            number += len(slots) - slots.count(None)
        return number

    def _spans_of(self, queue: Source, most_spans: int) -> Iterator[tuple[int, Span]]:
        """Spans that are not settled, each with its first tag from ``base`` on."""
        first = self.base
        for span in islice(self.spans, most_spans):
            if span.holder.queue is queue:
                yield first, span
            first = max(first, span.last + 1)

    def _forget_timed_out(self, tag: int, multiple: bool) -> int:
        """Forget the timed-out tags that this settlement covers; returns how many."""
        if not multiple:
            is_late = tag in self.timed_out
            self.timed_out.pop(tag, None)
            return int(is_late)
        late = [old for old in self.timed_out if old <= tag]
        for old in late:
            del self.timed_out[old]
        return len(late)

    def tags(self, upto: int) -> list[int]:
        """The outstanding tags up to and including ``upto``."""
        older = [tag for tag in self.stragglers if tag <= upto]
        return older + [tag for tag in range(self.base, min(upto + 1, self.next_tag)) if self.holds(tag)]

    def _set_stragglers_apart(self) -> None:
        slots = len(self.items) - self.start
        if self.holes <= COMPACT_FROM or self.holes * 4 < slots * 3:
            return
        half = slots // 2
        for tag, message in enumerate(self.items[self.start : self.start + half], self.base):
            if message is not None:
                span = self._span_of(tag)
                self.stragglers[tag] = Portion(span.holder, span.lane, tag + span.delta, [message], span.count)
        self._drop_front(half)

    def _span_of(self, tag: int) -> Span:
        spans = self.spans
        if tag <= spans[0].last:
            return spans[0]
        return spans[bisect_left(spans, tag, key=_last_tag)]

    def _split(self, portions: list[Portion], span: Span, first: int, slots: list[Message | None]) -> None:
        """Split a stretch of slots at its holes."""
        run: list[Message] = []
        for tag, message in enumerate(slots, first):
            if message is not None:
                run.append(message)
            elif run:
                portions.append(Portion(span.holder, span.lane, tag - len(run) + span.delta, run, span.count))
                run = []
        if run:
            tag = first + len(slots)
            portions.append(Portion(span.holder, span.lane, tag - len(run) + span.delta, run, span.count))

    def _drop_front(self, number: int) -> None:
        """The first slots are settled: drop them, and the holes that follow."""
        items = self.items
        if self.holes:
            stop = self.start + number
            self.holes -= items[self.start : stop].count(None)
            while self.holes and stop < len(items) and items[stop] is None:
                stop += 1
                self.holes -= 1
            number = stop - self.start
        self.start += number
        self.base += number
        if self.start == len(items):
            items.clear()
            self.start = 0
            self.spans.clear()
            return
        if self.start > COMPACT_FROM and self.start * 2 > len(items):
            del items[: self.start]
            self.start = 0
        else:  # free the settled messages before the list is shortened
            items[self.start - number : self.start] = [None] * number
        while self.spans and self.spans[0].last < self.base:
            self.spans.popleft()


def _last_tag(span: Span) -> int:
    return span.last
