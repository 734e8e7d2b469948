"""A batch read: any queue as it is now, without consuming it.

What is read is decided at planning: the ending offsets are numbers by then, and messages that arrive later are not
seen. A classic queue is browsed: what others consume between planning and reading is left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.spark.broker_client import BrokerClient
from leveret.spark.fetch import Fetch, RangePartition
from leveret.spark.offsets import Offsets, Range, Source, cut, placed, refuse_strangers, wanted_offset
from leveret.spark.options import EARLIEST, Position, SourceOptions
from leveret.spark.schema import Shape
from leveret.spark.source_lookup import STREAM, offsets_at, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

WORTH_A_TASK = 100_000  # messages


class BatchReader(DataSourceReader):
    """Reads from a position to a position."""

    def __init__(self, options: SourceOptions, shape: Shape) -> None:
        self._options = options
        self._fetch = Fetch(options.access, shape, options.routing_key_pattern)

    def partitions(self) -> list[InputPartition]:
        with BrokerClient(self._options.access) as client:
            sources = {source.queue: source for source in sources_of(client, self._options.selection)}
            starting = self._options.starting or Position("startingOffsets", everywhere=EARLIEST)
            start = self._resolved(client, sources, starting)
            end = self._resolved(client, sources, self._options.ending)
        ranges = [Range(queue, start[queue], end[queue]) for queue in sources if end[queue] > start[queue]]
        pieces = self._options.min_partitions or self._pieces(sources, ranges)
        return [self._partition(sources[part.queue], part) for part in cut(ranges, pieces)]

    def _pieces(self, sources: dict[str, Source], ranges: list[Range]) -> int:
        """A stream is read shard by shard. A classic queue has no shards: a long one is cut, for all cores to work."""
        waiting = sum(one.size for one in ranges if sources[one.queue].kind != STREAM)
        return min(os.cpu_count() or 1, waiting // WORTH_A_TASK)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes one partition without a value of an empty list.
        return self._fetch.range(partition) if isinstance(partition, RangePartition) else iter(())

    def _partition(self, source: Source, part: Range) -> RangePartition:
        browsed = source.kind != STREAM
        return RangePartition(
            part.queue,
            source.partition,
            part.start,
            part.stop,
            skip_missing=browsed or not self._options.fail_on_data_loss,
            browsed=browsed,
        )

    def _resolved(self, client: BrokerClient, sources: dict[str, Source], position: Position) -> Offsets:
        if position.timestamp is not None:
            return offsets_at(client, sources.values(), position.option, position.timestamp)
        refuse_strangers(sources.values(), position)
        return {
            queue: placed(
                source,
                wanted_offset(source, position),
                position.option,
                lossy=source.kind != STREAM or not self._options.fail_on_data_loss,
            )
            for queue, source in sources.items()
        }
