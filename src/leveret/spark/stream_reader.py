"""Streaming queries over streams: progress is stored as offsets, without acknowledgements.

Spark's checkpoint is authoritative. The offsets that the broker stores under `consumerName` are a copy for monitoring
(lag) and for retention (`pinned`). Spark calls `commit` one batch late, and never for the last batch of AvailableNow.
It requests the offset after `start` only when everything before `start` is finished, so `start` is stored as well.

The object in the driver exists as long as the query. Executors have a pickled copy, which only reads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused
from leveret.spark.fetch import Fetch, RangePartition
from leveret.spark.idle_pause import IdlePause
from leveret.spark.minimum_batch import MinimumBatch
from leveret.spark.offsets import (
    Offsets,
    Range,
    Source,
    cut,
    is_fixed,
    most_rows,
    ranges_between,
    refuse_loss,
    refuse_strangers,
    resumed,
    shares,
    sorted_by_queue,
    vanished,
)
from leveret.spark.options import LATEST, Position, SourceOptions
from leveret.spark.shape import Shape
from leveret.spark.source_lookup import resolved, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

log = logging.getLogger(__name__)
NOT_FOUND = 404


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads ranges of offsets of streams."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._fetch = Fetch(options.access, shape, options.routing_key_pattern)
        self._starting = options.starting or Position("startingOffsets", everywhere=LATEST)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._stored: Offsets = {}
        self._warned: dict[str, str] = {}
        self._known: dict[str, Source] = {}  # by queue; the offsets may be old
        self._idle = IdlePause()
        self._minimum = MinimumBatch(options.min_rows, options.longest_delay)

    def initialOffset(self) -> Offsets:
        """Empty if the position depends on the current time: the first batch then only stores it in the checkpoint."""
        if self._initial is None:
            self._initial = self._starting_offsets() if is_fixed(self._starting) else {}
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {source.queue: source.next for source in self._sources()}

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> Offsets:
        self._store(start)
        if not start:
            return self._starting_offsets()
        if self._target is None:
            self._idle.wait()
        end = self._end_of_batch(start, limit)
        self._idle.note(changed=end != start)
        return end

    def reportLatestOffset(self) -> Offsets | None:
        return self._seen

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        return [self._partition(part) for part in cut(ranges_between(start, end), self._options.min_partitions)]

    def _partition(self, part: Range) -> RangePartition:
        if part.queue not in self._known:
            self._sources()
        source = self._known.get(part.queue)
        number, home = (0, None) if source is None else (source.partition, source.home)
        lossy = not self._options.fail_on_data_loss
        return RangePartition(part.queue, number, part.start, part.stop, skip_missing=lossy, home=home)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return self._fetch.range(partition)

    def commit(self, end: Mapping[str, int]) -> None:
        self._store(end)

    def _starting_offsets(self) -> Offsets:
        with BrokerClient(self._options.access) as client:
            sources = self._sources()
            refuse_strangers(sources, self._starting)
            return resolved(client, sources, self._starting, fail_on_data_loss=self._options.fail_on_data_loss)

    def _end_of_batch(self, start: Mapping[str, int], limit: ReadLimit) -> Offsets:
        sources = {source.queue: source for source in self._sources_if_any()}
        end = dict(start)
        for queue in sorted(start.keys() - sources.keys()):
            if self._options.fail_on_data_loss:
                raise vanished(queue, start[queue])
            self._warn(queue, f"queue '{queue}' was deleted, it was read up to offset {start[queue]}")
        waiting: dict[str, int] = {}
        for queue, source in sources.items():
            if queue not in start:
                # A new partition is read from its first message, but not in a run of AvailableNow that started earlier.
                end |= {queue: source.first} if self._target is None or queue in self._target else {}
                continue
            end[queue] = self._resumed(source, start[queue])
            if end[queue] >= start[queue]:
                waiting[queue] = max(self._horizon(source) - end[queue], 0)
        if self._target is None and not self._minimum.is_reached(sum(waiting.values())):
            return sorted_by_queue(end)
        for queue, count in self._within(limit, waiting, sources).items():
            end[queue] += count
        return sorted_by_queue(end)

    def _resumed(self, source: Source, start: int) -> int:
        if self._options.fail_on_data_loss:
            refuse_loss(source, start)
        at = resumed(source, start)
        if at != start:
            self._warn(source.queue, f"queue '{source.queue}': reading continues at offset {at} instead of {start}")
        return at

    def _horizon(self, source: Source) -> int:
        return source.next if self._target is None else min(source.next, self._target.get(source.queue, 0))

    def _within(self, limit: ReadLimit, waiting: Mapping[str, int], sources: Mapping[str, Source]) -> Mapping[str, int]:
        if isinstance(limit, ReadAllAvailable):
            return waiting
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        if max_bytes is not None:
            means = {queue: sources[queue].mean_bytes for queue in waiting}
            max_rows = most_rows(waiting, means, max_rows, max_bytes)
        return waiting if max_rows is None else shares(waiting, max_rows)

    def _sources(self) -> list[Source]:
        with BrokerClient(self._options.access) as client:
            sources = sources_of(client, self._options.selection)
        self._seen = {source.queue: source.next for source in sources}
        self._known |= {source.queue: source for source in sources}
        return sources

    def _sources_if_any(self) -> list[Source]:
        try:
            return self._sources()
        except BrokerRefused as refusal:
            if refusal.status != NOT_FOUND:
                raise
            return []

    def _warn(self, queue: str, text: str) -> None:
        """Log each change once: this is called several times per second."""
        if self._warned.get(queue) != text:
            self._warned[queue] = text
            log.warning(text)

    def _store(self, done: Mapping[str, int]) -> None:
        """Store the offsets before which everything is finished, under the consumer's name."""
        if self._options.consumer is None:
            return
        news = {queue: offset for queue, offset in done.items() if self._stored.get(queue) != offset}
        with BrokerClient(self._options.access) as client:
            for queue, offset in news.items():
                stored = {"consumer": self._options.consumer, "queue": queue, "offset": offset}
                client.put("consumers", stored | {"pinned": self._options.pinned})
        self._stored |= news
