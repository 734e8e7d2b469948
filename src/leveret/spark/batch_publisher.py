"""`publish_each_batch`: the sink for queries whose output mode Spark does not allow for Python sinks.

Spark's Python sinks take the modes append and complete. An aggregation in update mode, or transformWithState, can be
written by `foreachBatch`, which runs each batch as a batch write. Spark may run a batch again after a failure; the
transaction and the number of the batch make it a repeat that the broker drops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import OptionError
from leveret.spark.options import sink_options
from leveret.spark.written import last_batch, refuse_old_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"


def publish_each_batch(options: Mapping[str, object] | None = None, **more: object) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch(...)`; options are those of the sink.

    Without `transactionId` the transaction is the id of the query, as it is for the sink.
    """
    given = {name: str(value) for name, value in {**(options or {}), **more}.items()}
    if "batchid" in {name.lower() for name in given}:
        raise OptionError("option batchId: Spark numbers the batches of a query; remove it")
    options_of_sink = sink_options(given)

    def publish(frame: DataFrame, batch: int) -> None:
        transaction = options_of_sink.transaction
        if transaction is None:
            transaction = _query_of(frame)
            with BrokerClient(options_of_sink.access) as client:
                last = last_batch(client, transaction)
            refuse_old_batch(batch, batch if last is None else last, "the broker")
        writer = frame.write.format("leveret").mode("append").options(**given)
        writer.option("transactionId", transaction).option("batchId", str(batch)).save()

    return publish


def _query_of(frame: DataFrame) -> str:
    try:
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except (PySparkException, AttributeError):  # Spark Connect has no SparkContext
        query = None
    if not query:
        raise OptionError(
            "option transactionId is missing, and Spark gives no id of the query to foreachBatch: name the "
            "transaction, the same after each start of the query"
        )
    return str(query)
