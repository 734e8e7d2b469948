"""Writers of the sink: rows are staged by the tasks and committed by the driver, or published at once.

Exactly once: each task stages its rows in the broker, durable and invisible, and returns the ids of its stages to the
driver. The commit of the driver publishes all of them or none, and records the batch of the transaction: a batch that
Spark repeats after a crash is recognised and dropped. The transaction is the id of the query, which is in the
checkpoint. Only tasks can read it (from their local properties), so they return it with their stages. A batch write is
a transaction with one batch; to write in numbered parts, set both `transactionId` and `batchId`.

At least once: each task publishes its rows and waits until the broker has accepted them. A repeated task publishes them
again.

Writers are pickled, for the tasks and for the committing process: they contain only values.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import OptionError, Unroutable
from leveret.spark.options import REPORT, SinkOptions
from leveret.spark.schema import refuse_unless_publishable
from leveret.spark.stage_renewal import StageRenewal
from leveret.spark.upload import Answer, answers_to, pieces_of
from leveret.spark.written import Written, last_batch, refuse_more_rows, refuse_old_batch, summed, written_by

log = logging.getLogger(__name__)
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class SinkWriter:
    """Writes, commits and aborts, for both kinds of sinks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        refuse_unless_publishable(schema)
        if options.exchange is None and "exchange" not in schema.fieldNames():
            raise OptionError(
                'option exchange is missing, and so is a column exchange; give .option("exchange", ...), '
                "empty for the default exchange"
            )
        self._options = options

    def write(self, batches: Iterator[pa.RecordBatch], transaction: str, batch: int) -> Written:
        with BrokerClient(self._options.access) as client:
            exactly_once = self._options.exactly_once
            write = self._stage(client, batches, transaction, batch) if exactly_once else self._publish(client, batches)
            written = Written(transaction)
            for answer in write:
                written.add(answer)
            for reason, seconds in client.waits.seconds.items():
                written.wait(reason, seconds)
        return written

    def _stage(
        self, client: BrokerClient, batches: Iterator[pa.RecordBatch], transaction: str, batch: int
    ) -> Iterator[Answer]:
        task = task_context()
        query = {
            "transaction": transaction,
            "batch": str(batch),
            "partition": str(task.partitionId()),
            "attempt": str(task.taskAttemptId()),
            **self._address(),
        }
        with StageRenewal(self._options.access, transaction):
            yield from answers_to(pieces_of(batches), lambda piece: client.send_arrow("stages", query, piece))

    def _publish(self, client: BrokerClient, batches: Iterator[pa.RecordBatch]) -> Iterator[Answer]:
        query = self._address()
        return answers_to(pieces_of(batches), lambda piece: client.send_arrow("messages", query, piece))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        done = written_by(messages)
        total = summed(done)
        if total.stages:
            commit = {"transaction": total.transaction, "batch": batch, "stages": total.stages}
            with BrokerClient(self._options.access) as client:
                answer = client.post("commits", commit)
                if answer.get("duplicate"):
                    self._note_repeated(client, total, batch, answer.get("messages_before"))
            total.count_unroutable(answer)
        for reason, seconds in total.waited.items():
            log.warning("the tasks of batch %d waited %.1f s for the broker: %s", batch, seconds, reason)
        self._check_routed(total)

    def _note_repeated(self, client: BrokerClient, total: Written, batch: int, before: object) -> None:
        """``before``: the messages of the committed batch, if it is the last one. A named transaction may be continued
        by a new checkpoint, whose batches begin again."""
        if self._options.transaction is None:
            last = last_batch(client, total.transaction)
            refuse_old_batch(batch, batch if last is None else last, "the broker")
        fewer = ""
        if isinstance(before, int):
            refuse_more_rows(total, batch, before)
            fewer = f", with {before} messages instead of {total.messages}" if total.messages < before else ""
        log.warning("batch %d of transaction '%s' was committed before%s: dropped", batch, total.transaction, fewer)

    def abort(self, transaction: str | None, batch: int) -> None:
        """Delete the stages of the batch. Without this they would expire, as stages sent during the abort do."""
        if not self._options.exactly_once or transaction is None:
            return
        with BrokerClient(self._options.access) as client:
            client.delete("stages", {"transaction": transaction, "batch": str(batch)})

    def _address(self) -> dict[str, str]:
        address = {"exchange": self._options.exchange or ""}
        address |= {"routing_key": self._options.routing_key} if self._options.routing_key is not None else {}
        address |= {"mandatory": "true"} if self._options.mandatory else {}
        address |= {"unroutable": REPORT} if self._options.reports_unroutable else {}
        return address

    def _check_routed(self, total: Written) -> None:
        if not total.unroutable:
            return
        marked = f" ({total.unroutable_mandatory} of them mandatory)" if total.unroutable_mandatory else ""
        text = f"{total.unroutable} messages were routed to no queue{marked}: {total.unroutable_text()}"
        if (marked or self._options.mandatory) and not self._options.reports_unroutable:
            raise Unroutable(
                f"{text}; their queues or bindings were removed while the batch was committed, so these messages are "
                "lost, and the other ones were published; bind a queue, and publish these again"
            )
        log.warning(text)


class StreamSink(DataSourceStreamArrowWriter):
    """A streaming query into an exchange."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._writer = SinkWriter(options, schema)
        self._transaction = options.transaction

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = task_context()
        transaction = self._transaction or _property(task, QUERY_ID)
        return self._writer.write(iterator, transaction, int(_property(task, BATCH_ID)))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._writer.commit(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        done = written_by(messages)
        self._writer.abort(self._transaction or (done[0].transaction if done else None), batchId)


class BatchSink(DataSourceArrowWriter):
    """A DataFrame into an exchange."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("""mode "overwrite": an exchange holds nothing to overwrite; use .mode("append")""")
        self._writer = SinkWriter(options, schema)
        self._transaction = options.transaction or f"batch-{uuid.uuid4()}"
        self._batch = options.batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._writer.write(iterator, self._transaction, self._batch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages, self._batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.abort(self._transaction, self._batch)


def task_context() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "rows are written by tasks only"
    return task


def _property(task: TaskContext, name: str) -> str:
    value = task.getLocalProperty(name)
    if value is None:
        raise OptionError(f"Spark gives no {name} to the task; name the transaction by the option transactionId")
    return value
