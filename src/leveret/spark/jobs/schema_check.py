"""schema-check: forwards messages that match a schema; others go to another exchange, with the reason.

The schema is Spark's DDL: ``id STRING NOT NULL, amount DOUBLE, lines ARRAY<STRUCT<sku: STRING, n: INT>>``. A body
matches if it is a JSON object, its fields have the declared types, and all NOT NULL fields are present. Additional
fields are allowed. Both kinds of messages are published in one transaction, so each message goes to exactly one of the
exchanges. The reason is in the header ``x-schema-error``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from leveret.errors import ConfigError
from leveret.spark.jobs.job import Job, PassingOptions, setting
from leveret.spark.jobs.messages import outgoing, own_headers, publish, read_stream, text_of_body, with_header
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries

REASON = "x-schema-error"
CORRUPT = "_does_not_fit"


@dataclass(frozen=True, kw_only=True)
class SchemaCheckOptions(PassingOptions):
    schema: str = setting("Required fields of a body, such as id STRING NOT NULL, amount DOUBLE.", metavar="DDL")
    dead_letter_exchange: str = setting("Exchange for messages that do not match the schema.", metavar="EXCHANGE")


def start(spark: SparkSession, options: SchemaCheckOptions) -> Queries:
    sent = divided(read_stream(spark, options, "schema-check"), options)
    return Queries(publish(sent, options, "schema-check"), now=lambda: queues_of(options))


def divided(messages: DataFrame, options: SchemaCheckOptions) -> DataFrame:
    """Adds the exchange of each message, and the reason to those that do not match."""
    checked = with_reason(messages, schema_of(options.schema))
    bad = F.col("reason").isNotNull()
    exchange = F.when(bad, F.lit(options.dead_letter_exchange)).otherwise(F.lit(options.exchange))
    return outgoing(checked, exchange, with_header(own_headers(), REASON, F.col("reason")))


def schema_of(ddl: str) -> StructType:
    try:
        schema = DataType.fromDDL(ddl)
    except (PySparkException, ValueError):
        schema = None
    if not isinstance(schema, StructType) or not schema.fields:
        raise ConfigError(f"--schema is {ddl!r}: list fields with their types, as id STRING NOT NULL, amount DOUBLE")
    return schema


def with_reason(messages: DataFrame, schema: StructType) -> DataFrame:
    """Adds the column ``reason``: null if the body matches."""
    with_corrupt = StructType([*schema.fields, StructField(CORRUPT, DataType.fromDDL("string"))])
    parsed = F.from_json(F.col("text"), with_corrupt, {"columnNameOfCorruptRecord": CORRUPT})
    rows = messages.withColumn("text", text_of_body()).withColumn("value", parsed)
    return rows.withColumn("reason", reason_of(schema)).drop("text", "value")


def reason_of(schema: StructType) -> Column:
    """The first error: an invalid body, a field of a wrong type, or a missing field."""
    reason = F.when(F.expr("try_parse_json(text)").isNull(), "the body is no JSON")
    reason = reason.when(
        F.schema_of_variant(F.expr("try_parse_json(text)")).startswith("OBJECT") == F.lit(False),
        "the body is no JSON object",
    )
    for field in schema.fields:
        there = F.get_json_object("text", f"$['{field.name}']").isNotNull()
        parsed = F.col("value")[field.name].isNotNull()
        kind = field.dataType.simpleString()
        reason = reason.when(there & ~parsed, F.lit(f"the field {field.name} is not {kind}"))
        if not field.nullable:
            reason = reason.when(~there, F.lit(f"the field {field.name} is missing"))
    return reason.when(F.col("value")[CORRUPT].isNotNull(), "a part of the body has another type than the schema says")


JOB = Job("schema-check", SchemaCheckOptions, start)
