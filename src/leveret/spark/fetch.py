"""Messages on their way into a task, as Arrow batches in the shape that Spark was promised.

Partitions travel to the executors; the connection is opened there. A fetch that breaks in the middle (the broker was
restarted, say) goes on behind the last row that arrived: a range by its offset, a slice of a lease by counting, since a
lease is the same list of messages each time it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from leveret.http_client import BROKEN
from leveret.spark.broker_client import BrokerClient, Patience
from leveret.spark.errors import BrokerRefused, BrokerUnreachable, DataLoss
from leveret.spark.offsets import KEEP_GOING
from leveret.spark.options import Access
from leveret.spark.schema import Shape

GONE = 410


class RangePartition(InputPartition):
    """A range of one queue.

    `skip_missing`: what is gone is left out instead of being an error. `browsed`: a classic queue, whose messages come
    and go, and in no order of offsets if it has priorities; so a fetch of it cannot go on after a break.
    """

    def __init__(
        self, queue: str, partition: int, start: int, stop: int, *, skip_missing: bool, browsed: bool = False
    ) -> None:
        super().__init__((queue, start, stop))
        self.queue = queue
        self.partition = partition
        self.start = start
        self.stop = stop
        self.skip_missing = skip_missing
        self.browsed = browsed


class SlicePartition(InputPartition):
    """Slice `index` of `count` of a lease."""

    def __init__(self, queue: str, consumer: str, lease: int, index: int, count: int) -> None:
        super().__init__((queue, lease, index))
        self.queue = queue
        self.consumer = consumer
        self.lease = lease
        self.index = index
        self.count = count


@dataclass(frozen=True, slots=True)
class Fetch:
    """How to fetch: from where, in which shape, which of the messages."""

    access: Access
    shape: Shape
    routing_key_pattern: str | None = None

    def range(self, wanted: RangePartition) -> Iterator[pa.RecordBatch]:
        query = {"queue": wanted.queue, "partition": wanted.partition, "columns": self.shape.columns}
        query |= {"routing_key": self.routing_key_pattern} if self.routing_key_pattern else {}
        query |= {"missing": "skip"} if wanted.skip_missing else {}
        shaped = self.shape.of(wanted.queue, wanted.partition)
        at = wanted.start

        def rest(client: BrokerClient) -> Iterator[pa.RecordBatch]:
            nonlocal at
            if wanted.browsed and at != wanted.start:
                raise BrokerUnreachable(
                    f"the connection was lost while fetching queue '{wanted.queue}', which may have changed since; "
                    "run the query again"
                )
            for batch in client.arrow("messages", query | {"from": at, "to": wanted.stop}):
                if batch.num_rows:
                    at = batch.column("offset")[batch.num_rows - 1].as_py() + 1
                    yield shaped(batch)

        try:
            yield from self._patiently(rest)
        except BrokerRefused as refusal:
            raise _explained(refusal, wanted) from refusal

    def slice(self, wanted: SlicePartition) -> Iterator[pa.RecordBatch]:
        query = {"queue": wanted.queue, "consumer": wanted.consumer, "lease": wanted.lease}
        query |= {"slice": wanted.index, "of": wanted.count, "columns": self.shape.columns}
        shaped = self.shape.of(wanted.queue, partition=0)  # of a classic queue
        had = 0

        def rest(client: BrokerClient) -> Iterator[pa.RecordBatch]:
            nonlocal had
            skip = had
            for batch in client.arrow("leases/messages", query):
                new = batch.slice(min(skip, batch.num_rows))
                skip -= batch.num_rows - new.num_rows
                if new.num_rows:
                    had += new.num_rows
                    yield shaped(new)

        yield from self._patiently(rest)

    def _patiently(self, rest: Callable[[BrokerClient], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """All of it; after a break, `rest` is what has not arrived yet."""
        patience = Patience(self.access.retry_seconds)
        with BrokerClient(self.access) as client:
            while True:
                try:
                    for batch in rest(client):
                        patience.renew()
                        yield batch
                    return
                except BROKEN as error:
                    if patience.is_over():
                        raise BrokerUnreachable(
                            f"the connection was lost repeatedly while fetching: {error}"
                        ) from error
                    patience.pause()


def _explained(refusal: BrokerRefused, wanted: RangePartition) -> Exception:
    if refusal.status != GONE:
        return refusal
    first = refusal.answer.get("first", "unknown")
    return DataLoss(
        f"queue '{wanted.queue}': offset {wanted.start} was removed by retention before it was read, the first is now "
        f"{first}; keep more (x-max-age, x-max-length-bytes, or the option pinned), and {KEEP_GOING}"
    )
