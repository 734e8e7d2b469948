"""`format("leveret")` with failpoints: the code that Spark calls in its processes, unchanged except for the failpoints.

    fetch      a task has read part of a response, and the broker has not sent the rest
    read       a task has read all its rows, and has not ended
    written    a task has all its rows at the broker (staged or published), and has not told Spark
    staged     all tasks are done and the commit is about to be sent
    committed  the broker has committed, and Spark has not received the response

Failpoints are named after their pipeline: `orders.fetch`. The pipeline has the name of its exchange and of the consumer
of its source. Only `read` is named after the queue.
"""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from leveret.http_client import HttpConnection
from leveret.spark import LeveretDataSource, broker_client
from leveret.spark.fetch import RangePartition, SlicePartition
from leveret.spark.lease_reader import LeaseReader
from leveret.spark.sink_writer import BATCH_ID, BatchSink, StreamSink, task_context
from leveret.spark.stream_reader import StreamReader
from leveret.spark.written import Written, written_by
from tests.support.failpoints import FOLDER, Failpoints

# So small that a broker cannot hand an answer over to the kernel and forget about it: together about 150 kB fit.
RECEIVE_BYTES, SEGMENT_BYTES = 4096, 536


def failpoints() -> Failpoints:
    return Failpoints(Path(os.environ[FOLDER]))


class Fetching:
    """What this process fetches now. A task has a process for itself, and reads one answer after the other."""

    pipeline = ""
    batch = -1
    connections = 0


class FailpointResponse(http.client.HTTPResponse):
    """The trap is behind the first bytes of an answer in Arrow."""

    def read(self, amt: int | None = None) -> bytes:
        data = super().read(amt)
        if data and Fetching.pipeline and self.getheader("content-type", "").endswith("arrow.stream"):
            failpoints().pass_by(f"{Fetching.pipeline}.fetch", Fetching.batch, bytes=len(data))
        return data


class FailpointConnection(http.client.HTTPConnection):
    response_class = FailpointResponse

    def connect(self) -> None:
        self.sock = socket.socket()
        self.sock.settimeout(self.timeout)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        self.sock.connect((self.host, self.port))
        Fetching.connections += 1


class FailpointHttpConnection(HttpConnection):
    def __init__(
        self, scheme: str, host: str, port: int, seconds: float, *, connect_seconds: float | None = None
    ) -> None:
        super().__init__(scheme, host, port, seconds, connect_seconds=connect_seconds)
        self._connection = FailpointConnection(host, port, timeout=seconds)


def watched(pipeline: str, partition: InputPartition, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A fetch whose answers have the trap in them; notes how many connections and rows it took."""
    broker_client.HttpConnection = FailpointHttpConnection  # type: ignore[misc]
    Fetching.pipeline, Fetching.batch, Fetching.connections = pipeline, current_batch(), 0
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            yield batch
    finally:
        broker_client.HttpConnection = HttpConnection  # type: ignore[misc]
        Fetching.pipeline = ""
    failpoints().note(f"{pipeline}.fetches", batch=Fetching.batch, connections=Fetching.connections, rows=rows)
    assert isinstance(partition, RangePartition | SlicePartition)
    failpoints().pass_by(f"{partition.queue}.read", Fetching.batch, rows=rows)


def current_batch() -> int:
    return int(TaskContext.get().getLocalProperty(BATCH_ID))


class FailpointStreamReader(StreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return watched(self._options.consumer or "", partition, super().read(partition))


class FailpointLeaseReader(LeaseReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return watched(self._options.consumer or "", partition, super().read(partition))


TRAPPED = {StreamReader: FailpointStreamReader, LeaseReader: FailpointLeaseReader}


def pass_written(pipeline: str, batch: int, written: Written) -> None:
    task = task_context()
    seen = {"partition": task.partitionId(), "attempt": task.attemptNumber(), "stages": written.stages}
    seen |= {"messages": written.messages}
    failpoints().note(f"{pipeline}.writes", batch=batch, **seen)
    if written.messages:
        failpoints().pass_by(f"{pipeline}.written", batch, **seen)


class FailpointBatchSink(BatchSink):
    """Of publish_each_batch; it has the failpoint ``written`` only."""

    pipeline: str

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        written = super().write(iterator)
        pass_written(self.pipeline, self._batch, written)
        return written


class FailpointSink(StreamSink):
    pipeline: str

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        written = super().write(iterator)
        pass_written(self.pipeline, current_batch(), written)
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        stages = [stage for one in written_by(messages) for stage in one.stages]
        failpoints().note(f"{self.pipeline}.commits", batch=batchId, stages=stages)
        failpoints().pass_by(f"{self.pipeline}.staged", batchId)
        super().commit(messages, batchId)
        failpoints().pass_by(f"{self.pipeline}.committed", batchId)


class FailpointSource(LeveretDataSource):
    """Registered in the place of the usual one."""

    def streamReader(self, schema: StructType) -> Any:
        reader = super().streamReader(schema)
        reader.__class__ = TRAPPED[type(reader)]
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        writer = super().writer(schema, overwrite)
        writer.__class__ = FailpointBatchSink
        writer.pipeline = self.options["exchange"]
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = FailpointSink
        writer.pipeline = self.options["exchange"]
        return writer
