"""Messages as DataFrames: read from queues, published to exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from leveret.spark.jobs.checkpoint import refuse_used_transaction
from leveret.spark.jobs.job import PassingOptions, QueryOptions, SourceOptions, required, sink_settings, source_settings
from leveret.spark.jobs.queues import has_classic
from leveret.spark.options import STREAM_ONLY
from leveret.spark.schema import SCHEMA

FORMAT = "leveret"
STARTING = {"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"}
OF_STREAMS = {name.lower() for name in STREAM_ONLY}  # options are case-insensitive
# Headers that the broker acts on or adds. They are removed from republished messages: they describe the history
# of the original, and as strings they have no effect.
BROKER_HEADERS = ("CC", "BCC", "x-death", "x-delay", "x-deliver-at")
DEATH_HEADERS = "^x-(first|last)-death-"


def read_stream(spark: SparkSession, options: SourceOptions, name: str, columns: Sequence[str] = ()) -> DataFrame:
    """Messages as they arrive. With ``columns``, only these are fetched."""
    settings = stream_settings(options, name, is_classic=has_classic(options))
    settings |= {"includeHeaders": has_headers(columns)}
    return spark.readStream.format(FORMAT).schema(schema_of(columns)).options(**settings).load()


def read_now(spark: SparkSession, options: SourceOptions, columns: Sequence[str] = (), **more: str) -> DataFrame:
    """The messages that are in the queues now; they are not consumed."""
    settings = batch_settings(options) | {"includeHeaders": has_headers(columns), **more}
    return spark.read.format(FORMAT).schema(schema_of(columns)).options(**settings).load()


def stream_settings(options: SourceOptions, name: str, *, is_classic: bool) -> dict[str, str]:
    """A new query starts at the first message of a stream, unless another position is given. The messages of a classic
    queue are leased under the name of the job, unless another consumer name is given."""
    given = source_settings(options)
    usual = {"consumerName": name} if is_classic else {"startingOffsets": "earliest"}
    if not is_classic and STARTING & {option.lower() for option in given}:
        usual = {}
    return usual | given


def batch_settings(options: SourceOptions) -> dict[str, str]:
    """Without the options of streaming reads, which a job can have for both."""
    return {name: value for name, value in source_settings(options).items() if name.lower() not in OF_STREAMS}


def schema_of(columns: Sequence[str]) -> StructType:
    return StructType([field for field in SCHEMA.fields if not columns or field.name in columns])


def has_headers(columns: Sequence[str]) -> str:
    return "true" if not columns or "headers" in columns else "false"


def text_of_body() -> Column:
    return F.col("body").cast("string")


def outgoing(messages: DataFrame, exchange: Column | None = None, headers: Column | None = None) -> DataFrame:
    """The columns that the sink accepts. A message keeps its properties except the user id."""
    columns = [F.col("body"), F.col("routing_key")]
    if exchange is not None:
        columns.append(exchange.alias("exchange"))
    columns.append((own_headers() if headers is None else headers).alias("headers"))
    columns.append(F.col("properties").dropFields("user_id").alias("properties"))
    return messages.select(*columns)


def own_headers() -> Column:
    """The headers of the publisher, without those of the broker."""
    return F.map_filter("headers", lambda name, _: ~(name.isin(*BROKER_HEADERS) | name.rlike(DEATH_HEADERS)))


def with_header(headers: Column, name: str, value: Column) -> Column:
    """The headers with this one set, or removed where the value is null."""
    others = F.map_filter(headers, lambda key, _: key != name)
    added = F.map_concat(
        F.coalesce(others, F.create_map().cast("map<string,string>")), F.create_map(F.lit(name), value)
    )
    return F.when(value.isNull(), others).otherwise(added)


def publish(messages: DataFrame, options: PassingOptions, name: str) -> StreamingQuery:
    """Start a query that publishes the result of ``outgoing`` to the exchange."""
    required(options.exchange, "exchange", "the results are published to this exchange")
    if options.routing_key is not None:
        messages = messages.withColumn("routing_key", F.lit(options.routing_key))
    return started(messages, options, name, FORMAT, sink_settings(options))


def started(
    rows: DataFrame, query: QueryOptions, name: str, format_: str, settings: dict[str, str], by: tuple[str, ...] = ()
) -> StreamingQuery:
    """``by``: the columns that files are partitioned by."""
    if format_ == FORMAT and query.checkpoint:
        refuse_used_transaction(rows.sparkSession, settings, query.checkpoint)
    writer = rows.writeStream.format(format_).options(**settings).outputMode("append")
    return _start(writer.partitionBy(*by) if by else writer, query, name)


def started_batches(
    rows: DataFrame, query: QueryOptions, name: str, write: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """``write`` gets each batch and its number; a batch may be repeated after a crash."""
    return _start(rows.writeStream.foreachBatch(write), query, name)


def _start(writer: DataStreamWriter, query: QueryOptions, name: str) -> StreamingQuery:
    checkpoint = required(query.checkpoint, "checkpoint", "a restarted query continues from this folder")
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    if query.continuous:
        return writer.trigger(processingTime=query.interval).start()
    return writer.trigger(availableNow=True).start()
