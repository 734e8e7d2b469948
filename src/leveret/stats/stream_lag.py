"""The lag of stream consumers.

A reader is a consumer, or a name with a stored offset, of an earlier consumer or of a Spark query that commits it. The
offset of a reader is that of its next unprocessed message; its lag is the number of messages from there to the end.
Messages deleted by retention do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from leveret.broker.stream_offsets import StoredOffset
from leveret.broker.vhost import Vhost
from leveret.queues.stream import StreamQueue
from leveret.queues.stream_reader import StreamReader

Kept = Mapping[str, list[StoredOffset]]
"""Stored offsets by stream name."""


class Reader(NamedTuple):
    """``live`` is None if no consumer has the name; ``offset`` is None while the start offset is unknown."""

    name: str | None
    offset: int | None
    lag: int | None
    pinned: bool
    live: StreamReader | None

    @property
    def label(self) -> str:
        """The same label for all partitions of one consumer."""
        if self.name is not None or self.live is None:
            return self.name or ""
        return self.live.consumer.label


def kept_offsets(vhost: Vhost) -> Kept:
    """The stored offsets of all streams of the virtual host."""
    found: dict[str, list[StoredOffset]] = {}
    for each in vhost.stream_offsets.list():
        found.setdefault(each.queue, []).append(each)
    return found


def readers_of(queue: StreamQueue, kept: Kept) -> Iterator[Reader]:
    """Current consumers first."""
    end, names = queue.end_offset, set()
    for live in queue.readers:
        name = live.options.name
        offset = live.position if name is None else live.safe
        names.add(name)
        yield Reader(name, offset, _behind(queue, end, offset), live.options.pinned, live)
    for stored in kept.get(queue.name, ()):
        if stored.consumer not in names:
            yield Reader(stored.consumer, stored.offset, _behind(queue, end, stored.offset), stored.pinned, None)


def largest_lag(readers: Iterable[Reader]) -> int | None:
    """The highest lag of a reader, summed over its partitions; None without readers."""
    lags: dict[str, int] = {}
    for reader in readers:
        if reader.lag is not None:
            lags[reader.label] = lags.get(reader.label, 0) + reader.lag
    return max(lags.values(), default=None)


def _behind(queue: StreamQueue, end: int, offset: int | None) -> int | None:
    return None if offset is None else max(end - max(offset, queue.first_offset), 0)
