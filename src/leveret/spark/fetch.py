"""Fetches messages in tasks, as Arrow batches with the schema that Spark expects.

Partitions are sent to the executors, where the connection is opened. A fetch that is interrupted (by a restart of the
broker, for example) continues after the last received row: a range by its offset, a slice of a lease by the number of
rows, since a lease has the same messages each time it is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from leveret.http_client import BROKEN
from leveret.spark.broker_client import BrokerClient, Patience
from leveret.spark.errors import BrokerRefused, BrokerUnreachable, DataLoss
from leveret.spark.offsets import KEEP_GOING
from leveret.spark.options import Access, Home
from leveret.spark.shape import Shape

GONE = 410


@dataclass(eq=False)
class RangePartition(InputPartition):
    """A range of offsets of one queue.

    `skip_missing`: leave out deleted messages instead of raising an error. `browsed`: a classic queue, whose messages
    can change during the fetch and, with priorities, are not in the order of their offsets. Its fetch cannot continue
    after an interruption.
    """

    queue: str
    partition: int
    start: int
    stop: int
    skip_missing: bool = field(kw_only=True)
    browsed: bool = field(default=False, kw_only=True)
    home: Home | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__init__((self.queue, self.start, self.stop))


@dataclass(eq=False)
class SlicePartition(InputPartition):
    """Slice `index` of `count` of a lease."""

    queue: str
    consumer: str
    lease: int
    index: int
    count: int
    home: Home | None = None
    partition: int = 0

    def __post_init__(self) -> None:
        super().__init__((self.queue, self.lease, self.index))


@dataclass(frozen=True, slots=True)
class Fetch:
    """The broker, the schema and the filter of a fetch."""

    access: Access
    shape: Shape
    routing_key_pattern: str | None = None

    def range(self, wanted: RangePartition) -> Iterator[pa.RecordBatch]:
        query = {"queue": wanted.queue, "partition": wanted.partition, **self.shape.query}
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
            yield from self._patiently(rest, wanted.home)
        except BrokerRefused as refusal:
            raise _explained(refusal, wanted) from refusal

    def slice(self, wanted: SlicePartition) -> Iterator[pa.RecordBatch]:
        query = {"queue": wanted.queue, "consumer": wanted.consumer, "lease": wanted.lease}
        query |= {"slice": wanted.index, "of": wanted.count, **self.shape.query}
        shaped = self.shape.of(wanted.queue, wanted.partition)
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

        yield from self._patiently(rest, wanted.home)

    def _patiently(
        self, rest: Callable[[BrokerClient], Iterator[pa.RecordBatch]], home: Home | None
    ) -> Iterator[pa.RecordBatch]:
        """All batches; `rest` is called again after each interruption, for the batches that are still missing."""
        patience = Patience(self.access.retry_seconds)
        with BrokerClient(self.access, home) as client:
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
