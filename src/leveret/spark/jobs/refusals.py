"""Messages that a job cannot process: they go to a dead-letter exchange with the reason, or fail the job."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from leveret.spark.broker_client import BrokerClient
from leveret.spark.jobs.failure import JobFailed
from leveret.spark.jobs.fields import REASON
from leveret.spark.jobs.job import BrokerOptions, broker_settings
from leveret.spark.jobs.messages import FORMAT, outgoing, own_headers, with_header
from leveret.spark.options import connection_options
from leveret.spark.written import last_batch, refuse_old_batch

HEADER = "x-schema-error"
HELP = "Exchange for messages that cannot be processed.  [default: such a message fails the pipeline]"


def refusal(job: str, dead_letter_exchange: str | None, reason: Column) -> Column:
    """The same reason, null if there is none. Without a dead-letter exchange, a message with a reason fails the job."""
    if dead_letter_exchange is not None:
        return reason
    place = F.concat(F.lit("message "), F.col("offset").cast("string"), F.lit(" of '"), F.col("queue"), F.lit("': "))
    remedy = F.lit(f"; with --dead-letter-exchange, {job} publishes such messages there and continues")
    return F.when(reason.isNotNull(), F.raise_error(F.concat(place, reason, remedy)).cast("string"))


def publish_refused(
    batch: DataFrame, options: BrokerOptions, exchange: str | None, transaction: str, number: int
) -> int:
    """Publish the refused messages of a batch with the reason, exactly once. Without an exchange, raise JobFailed."""
    refused = batch.where(F.col(REASON).isNotNull())
    if exchange is None:
        first = refused.select("queue", "offset", REASON).first()
        assert first is not None
        raise JobFailed(
            f"message {first[1]} of {first[0]} does not match the schema: {first[2]}. Nothing of its batch was "
            "written: set --dead-letter-exchange for such messages, or change the schema"
        )
    named = f"{transaction}-refused"
    with BrokerClient(connection_options(broker_settings(options))) as broker:
        refuse_old_batch(number, last_batch(broker, named) or 0, "the broker")
    counted = Observation()
    sent = outgoing(refused, headers=with_header(own_headers(), HEADER, F.col(REASON)))
    settings = broker_settings(options) | {
        "exchange": exchange,
        "mandatory": "true",
        "transactionId": named,
        "batchId": str(number),
    }
    rows = sent.observe(counted, F.count(F.lit(1)).alias("rows"))
    rows.write.format(FORMAT).mode("append").options(**settings).save()
    return int(counted.get["rows"])
