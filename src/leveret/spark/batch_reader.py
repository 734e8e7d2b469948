"""Batch reads: the messages that are in a queue now, without consuming them.

The offsets are fixed when the read is planned: messages that arrive later are not read. A classic queue is browsed:
messages that are consumed between planning and reading are left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from leveret.spark.broker_client import BrokerClient
from leveret.spark.fetch import Fetch, RangePartition
from leveret.spark.filters import PushedFilters
from leveret.spark.offsets import Offsets, Range, Source, cut, refuse_strangers
from leveret.spark.options import EARLIEST, Position, SourceOptions
from leveret.spark.shape import Shape
from leveret.spark.source_lookup import STREAM, offsets_at, resolved, sources_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

WORTH_A_TASK = 100_000  # messages


class BatchReader(DataSourceReader):
    """Reads a range of offsets of each queue."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._filters = PushedFilters(takes_routing_key=options.routing_key_pattern is None)

    def partitions(self) -> list[InputPartition]:
        with BrokerClient(self._options.access) as client:
            found = sources_of(client, self._options.selection)
            sources = {source.queue: source for source in found if self._filters.reads(source.queue)}
            starting = self._options.starting or Position("startingOffsets", everywhere=EARLIEST)
            ending, lossless = self._options.ending, self._options.fail_on_data_loss
            for position in (starting, ending):
                refuse_strangers(found, position)  # a queue that only the filters leave out is none
            start = resolved(client, sources.values(), starting, fail_on_data_loss=lossless)
            end = resolved(client, sources.values(), ending, fail_on_data_loss=lossless)
            since = self._since(client, sources.values())
        whole = [Range(queue, max(start[queue], since.get(queue, 0)), end[queue]) for queue in sources]
        ranges = [part for part in map(self._filters.clipped, whole) if part.size > 0]
        pieces = self._options.min_partitions or self._pieces(sources, ranges)
        return [self._partition(sources[part.queue], part) for part in cut(ranges, pieces)]

    def _since(self, client: BrokerClient, sources: Collection[Source]) -> Offsets:
        """The offsets of the oldest messages that can fulfil a filter on the timestamp; streams only."""
        streams = [source for source in sources if source.kind == STREAM]
        if self._filters.since is None or not streams:
            return {}
        return offsets_at(client, streams, "pushFilters", self._filters.since)

    def _pieces(self, sources: dict[str, Source], ranges: list[Range]) -> int:
        """A stream is read by partition. A long classic queue is divided, to use all cores."""
        waiting = sum(one.size for one in ranges if sources[one.queue].kind != STREAM)
        return min(os.cpu_count() or 1, waiting // WORTH_A_TASK)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For an empty list of partitions, Spark calls this once with a partition of its own.
        key = self._filters.routing_key or self._options.routing_key_pattern
        fetch = Fetch(self._options.access, self._shape, key)
        return fetch.range(partition) if isinstance(partition, RangePartition) else iter(())

    def _partition(self, source: Source, part: Range) -> RangePartition:
        browsed = source.kind != STREAM
        return RangePartition(
            part.queue,
            source.partition,
            part.start,
            part.stop,
            skip_missing=browsed or not self._options.fail_on_data_loss,
            browsed=browsed,
            home=source.home,
        )


class FilteringBatchReader(BatchReader):
    """Applies filters of the query. A class of its own, because PySpark refuses any reader that has this method while
    spark.sql.python.filterPushdown.enabled is off, which is the default."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return [one for one in filters if not self._filters.take(one)]
