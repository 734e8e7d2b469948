"""How far the readers of a stream are behind its end.

A reader is somebody who consumes now, or a name under which an offset is kept: whoever consumed under it before, or a
Spark query that commits there. Its offset is the next one that it has not done with; its lag is what there is from
there on. What retention has taken nobody can be behind with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from leveret.broker.stream_offsets import StoredOffset
from leveret.broker.vhost import Vhost
from leveret.queues.stream import StreamQueue
from leveret.queues.stream_reader import StreamReader

Kept = Mapping[str, list[StoredOffset]]
"""By the name of the stream."""


class Reader(NamedTuple):
    """``live`` is None while nobody consumes under the name; ``offset`` while it is not known where to begin."""

    name: str | None
    offset: int | None
    lag: int | None
    pinned: bool
    live: StreamReader | None

    @property
    def label(self) -> str:
        """What one reader of several partitions is called in all of them."""
        if self.name is not None or self.live is None:
            return self.name or ""
        return self.live.consumer.label


def kept_offsets(vhost: Vhost) -> Kept:
    """Of all its streams, once for many."""
    found: dict[str, list[StoredOffset]] = {}
    for each in vhost.stream_offsets.list():
        found.setdefault(each.queue, []).append(each)
    return found


def readers_of(queue: StreamQueue, kept: Kept) -> Iterator[Reader]:
    """Those who consume first."""
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
    """Of the one that is furthest behind, over all partitions that it reads; None if there is nobody."""
    lags: dict[str, int] = {}
    for reader in readers:
        if reader.lag is not None:
            lags[reader.label] = lags.get(reader.label, 0) + reader.lag
    return max(lags.values(), default=None)


def _behind(queue: StreamQueue, end: int, offset: int | None) -> int | None:
    return None if offset is None else max(end - max(offset, queue.first_offset), 0)
