"""Rows of streams, super streams and sharded queues.

A *super stream* is an exchange over several streams; *shards* are the queues behind an exchange that a policy shards.
Each is one row with the sums over its partitions. The ``share`` of a partition is its share of all messages ever
published, so that it shows how keys are distributed, independent of consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leveret.api.views.connection import CONSUMER_ROWS, FoundConsumer
from leveret.broker.super_streams import partitions_of
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer_ring import BY_OPERATOR
from leveret.errors import AmqpError
from leveret.http.listings import viewed
from leveret.http.rows import Row, made_rows
from leveret.http.time_slice import TimeSlice
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.stream import StreamQueue
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats
from leveret.stats.stream_lag import Kept, Reader, kept_offsets, largest_lag, readers_of
from leveret.store.stream_files import SEGMENT_BYTES

STREAM, SUPER_STREAM, SHARDS = "stream", "super stream", "shards"
ARGUMENT = "x-super-stream"
STREAM_ROWS = made_rows(
    *("name", "vhost", "kind", "state", "partitions", "first_offset", "last_offset", "next_offset", "messages"),
    *("messages_ready", "messages_unacknowledged", "bytes", "segments", "retention", "consumers", "readers", "lag"),
    *("largest_share", "problem", "message_stats", "messages_details"),
    *("messages_ready_details", "messages_unacknowledged_details"),
)
SUMMED = ("messages", "messages_ready", "messages_unacknowledged", "bytes", "segments", "consumers", "readers")


class Partitioned(NamedTuple):
    """The queues behind one exchange. ``problem``: the reason why there are none."""

    name: str
    queues: Sequence[DeclaredQueue]
    draining: Sequence[DeclaredQueue] = ()
    problem: str | None = None

    @property
    def kind(self) -> str:
        is_sharded = any(not queue.has_offsets for queue in self.queues)
        return SHARDS if is_sharded else SUPER_STREAM


def find_partitioned(vhost: Vhost, name: str) -> Partitioned | None:
    pool = vhost.pools.get(name)
    if pool is not None:
        return Partitioned(name, _own(pool.local()), _own(pool.draining()))
    exchange = vhost.exchanges.get(name)
    if exchange is None or exchange.arguments.get(ARGUMENT) is not True:
        return None
    try:
        return Partitioned(name, partitions_of(vhost, name))
    except AmqpError as refusal:
        return Partitioned(name, (), problem=refusal.text)


def _own(queues: Sequence[DeclaredQueue]) -> Sequence[DeclaredQueue]:
    """Without those of other cells."""
    return [queue for queue in queues if queue.home is None]


class StreamView:
    """The rows of streams in one virtual host, for one response. Partitions are read in time slices."""

    def __init__(self, stats: Stats, node: str, vhost: Vhost, windows: Windows = NO_WINDOWS) -> None:
        self._stats = stats
        self._node = node
        self._vhost = vhost
        self._windows = windows
        self._kept: Kept = kept_offsets(vhost)
        self._slice = TimeSlice()

    # ---- rows

    async def rows(self) -> list[Row]:
        """One for each super stream, sharded exchange and stream that is not a partition."""
        found = await viewed(self._vhost.exchanges, lambda name: find_partitioned(self._vhost, name))
        partitions = {queue.name for each in found for queue in (*each.queues, *each.draining)}
        rows = [await self.partitioned(each) for each in found]

        def row(queue: DeclaredQueue) -> Row | None:
            stream = queue.stream
            is_listed = stream is not None and stream.alive and stream.name not in partitions
            return self.stream(stream) if stream is not None and is_listed else None

        return rows + await viewed(self._vhost.queues.values(), row)

    def stream(self, queue: StreamQueue) -> Row:
        return self._stream(queue) | self._stats.of_queue(queue, self._windows)

    def _stream(self, queue: StreamQueue) -> Row:
        first, end = queue.first_offset, queue.end_offset
        readers = list(readers_of(queue, self._kept))
        return {
            "name": queue.name,
            "vhost": self._vhost.name,
            "kind": STREAM,
            "state": _state(queue),
            "partitions": 1,
            "first_offset": first,
            "last_offset": end - 1 if end > first else None,
            "next_offset": end,
            "messages": end - first,
            "messages_unacknowledged": queue.unacked,
            "bytes": queue.files.bytes + queue.bytes,
            "segments": queue.files.segments,
            "retention": _retention(queue),
            "consumers": len(queue.consumers),
            "readers": len(readers),
            "lag": largest_lag(readers),
        }

    async def partitioned(self, found: Partitioned) -> Row:
        partitions, readers = await self._partitions(found), await self._readers(found)
        return self._summed(found, partitions, readers) | await self._summed_stats(found)

    def _shard(self, queue: DeclaredQueue) -> Row:
        return {
            "name": queue.name,
            "vhost": self._vhost.name,
            "kind": "shard",
            "state": _state(queue),
            "messages": queue.ready + queue.unacked,
            "messages_ready": queue.ready,
            "messages_unacknowledged": queue.unacked,
            "bytes": queue.bytes,
            "consumers": len(queue.consumers),
        }

    async def _summed_stats(self, found: Partitioned) -> Row:
        """Counters, rates and samples of all partitions together."""
        sums: Row = {}
        for queue in (*found.queues, *found.draining):
            sums = added([sums, self._stats.of_queue(queue, self._windows)])
            await self._slice.pause_if_over()
        return sums

    async def _partitions(self, found: Partitioned) -> list[Row]:
        """Rows with rates, without samples: there may be a thousand partitions."""
        queues = [*found.queues, *found.draining]
        published = sum(queue.counters.received for queue in queues)
        rows: list[Row] = []
        for place, queue in enumerate(queues):
            row = self._shard(queue) if queue.stream is None else self._stream(queue.stream)
            row |= self._stats.of_queue(queue)
            row["partition"] = place
            row["is_draining"] = place >= len(found.queues)
            row["share"] = queue.counters.received / published if published else None
            rows.append(row)
            await self._slice.pause_if_over()
        return rows

    async def _readers(self, found: Partitioned) -> list[tuple[StreamQueue, Reader]]:
        readers: list[tuple[StreamQueue, Reader]] = []
        for queue in found.queues:
            if (stream := queue.stream) is not None:
                readers += [(stream, each) for each in readers_of(stream, self._kept)]
                await self._slice.pause_if_over()
        return readers

    def _summed(self, found: Partitioned, partitions: list[Row], readers: Iterable[tuple[StreamQueue, Reader]]) -> Row:
        row: Row = {
            "name": found.name,
            "vhost": self._vhost.name,
            "kind": found.kind,
            "state": "paused" if any(each["state"] == "paused" for each in partitions) else "running",
            "partitions": len(found.queues),
            **{name: sum(each[name] for each in partitions if name in each) for name in SUMMED},
            "lag": largest_lag(reader for _, reader in readers),
            "largest_share": max((each["share"] for each in partitions if each["share"] is not None), default=None),
            "problem": found.problem,
        }
        if found.queues and (first := found.queues[0].stream) is not None:
            row["retention"] = _retention(first)
        return row

    # ---- details

    async def stream_detail(self, queue: StreamQueue) -> Row:
        readers = await viewed(readers_of(queue, self._kept), lambda each: self._reader_row(queue, each))
        return self.stream(queue) | {"reader_details": readers}

    async def partitioned_detail(self, found: Partitioned) -> Row:
        partitions, readers = await self._partitions(found), await self._readers(found)
        return (
            self._summed(found, partitions, readers)
            | await self._summed_stats(found)
            | {
                "partition_details": partitions,
                "reader_details": await viewed(readers, lambda pair: self._reader_row(*pair)),
            }
        )

    def _reader_row(self, queue: StreamQueue, reader: Reader) -> Row:
        row: Row = {
            "queue": queue.name,
            "name": reader.name,
            "is_live": reader.live is not None,
            "offset": reader.offset,
            "lag": reader.lag,
            "pinned": reader.pinned,
            "messages_unacknowledged": 0,
            "consumer_tag": None,
        }
        if reader.live is not None:
            consumer = reader.live.consumer
            seen = CONSUMER_ROWS.row(FoundConsumer(queue, consumer, self._node))
            row |= {name: seen[name] for name in ("consumer_tag", "prefetch_count", "channel_details")}
            row["messages_unacknowledged"] = consumer.limit - consumer.credit
            row["filter"] = sorted(reader.live.options.filters or ())
        return row


# ---- parts


def _state(queue: DeclaredQueue) -> str:
    return "paused" if queue.consumers.paused & BY_OPERATOR else "running"


def _retention(queue: StreamQueue) -> Row:
    """In seconds and bytes; null: no limit."""
    return {
        "max_age": queue.retention.max_age,
        "max_bytes": queue.retention.max_bytes,
        "segment_bytes": queue.options.segment_bytes or SEGMENT_BYTES,
    }


def added(told: Sequence[Row]) -> Row:
    """The sums of counters and rates of several queues. Samples are summed by their time."""
    sums: Row = {}
    for key in dict.fromkeys(key for row in told for key in row):
        values = [row[key] for row in told if key in row]
        if key == "samples":
            sums[key] = _samples(values)
        elif isinstance(values[0], dict):
            sums[key] = added(values)
        else:
            sums[key] = sum(values)
    return sums


def _samples(lists: Iterable[list[Row]]) -> list[Row]:
    """The latest first, as in each of the lists."""
    by_time: dict[int, int] = {}
    for samples in lists:
        for one in samples:
            by_time[one["timestamp"]] = by_time.get(one["timestamp"], 0) + one["sample"]
    return [{"sample": by_time[time], "timestamp": time} for time in sorted(by_time, reverse=True)]
