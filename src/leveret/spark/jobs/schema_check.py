"""schema-check: forwards messages that match a schema; others go to another exchange, with the reason.

The schema comes from the broker's registry (registered_check.py), or is Spark's DDL:
``id STRING NOT NULL, amount DOUBLE, lines ARRAY<STRUCT<sku: STRING, n: INT>>``. With DDL, a body matches if it is a
JSON object, its fields have the declared types, and all NOT NULL fields are present. Additional fields are allowed.
``--mode strict`` checks the body exactly (json_check.py); ``--mode lenient`` matches what Spark's ``from_json`` can
read, which converts numbers to strings and ignores text after the object. Both kinds of messages are published in one
transaction, so each message goes to exactly one of the exchanges. The reason is in the header ``x-schema-error``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, StructField, StructType

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import counted
from leveret.spark.jobs.job import Job, PassingOptions, broker_settings, setting
from leveret.spark.jobs.json_check import CORRUPT, checker_of
from leveret.spark.jobs.messages import outgoing, own_headers, publish, read_stream, text_of_body, with_header
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.registered_check import with_registered_reason
from leveret.spark.jobs.running_job import Queries
from leveret.spark.schema_registry import SchemaRegistry

REASON = "x-schema-error"
STRICT, LENIENT = "strict", "lenient"


@dataclass(frozen=True, kw_only=True)
class SchemaCheckOptions(PassingOptions):
    schema: str | None = setting(
        "Required fields of a body, such as id STRING NOT NULL, amount DOUBLE.", None, metavar="DDL"
    )
    schema_name: str | None = setting(
        "Schema of the broker's registry: json, avro or protobuf.", None, metavar="NAME[:VERSION]"
    )
    schema_from_message: bool = setting("Use the schema that each message refers to (x-schema-id).", False)
    dead_letter_exchange: str = setting("Exchange for messages that do not match the schema.", metavar="EXCHANGE")
    mode: str = setting(
        "strict: exactly JSON of the declared types; lenient: what Spark can convert.",
        STRICT,
        choices=(STRICT, LENIENT),
        metavar="WORD",
    )

    def check(self) -> None:
        super().check()
        if sum((self.schema is not None, self.schema_name is not None, self.schema_from_message)) != 1:
            raise ConfigError("specify exactly one of --schema, --schema-name and --schema-from-message")
        if self.schema is None and self.mode == LENIENT:
            raise ConfigError("--mode lenient works with --schema only: remove it")


def start(spark: SparkSession, options: SchemaCheckOptions) -> Queries:
    sent = divided(read_stream(spark, options, "schema-check"), options)
    return Queries(publish(sent, options, "schema-check"), now=lambda: queues_of(options))


def divided(messages: DataFrame, options: SchemaCheckOptions) -> DataFrame:
    """Adds the exchange of each message, and the reason to those that do not match."""
    checked = _checked(messages, options)
    bad = F.col("reason").isNotNull()
    exchange = F.when(bad, F.lit(options.dead_letter_exchange)).otherwise(F.lit(options.exchange))
    checked = counted(checked, out=~bad, refused=bad)
    return outgoing(checked, exchange, with_header(own_headers(), REASON, F.col("reason")))


def _checked(messages: DataFrame, options: SchemaCheckOptions) -> DataFrame:
    """Adds the column ``reason``."""
    if options.schema is None:
        registry = SchemaRegistry(**broker_settings(options))
        named = None if options.schema_name is None else registry.schema(options.schema_name)
        return with_registered_reason(messages, registry, named)
    schema = schema_of(options.schema)
    return with_reason(messages, schema) if options.mode == LENIENT else with_strict_reason(messages, schema)


def schema_of(ddl: str) -> StructType:
    try:
        schema = DataType.fromDDL(ddl)
    except (PySparkException, ValueError):
        schema = None
    if not isinstance(schema, StructType) or not schema.fields:
        raise ConfigError(f"--schema is {ddl!r}: list fields with their types, as id STRING NOT NULL, amount DOUBLE")
    return schema


def with_strict_reason(messages: DataFrame, schema: StructType) -> DataFrame:
    """As ``with_reason``, in Python: Spark's functions for JSON skip text after an object and convert values."""
    checker_of(schema)  # refuses types that it has no check for

    def reasons(bodies: pa.Array) -> pa.Array:
        check = checker_of(schema)  # made in the task: a decoder cannot be pickled
        return pa.array([check(body) for body in bodies.to_pylist()], pa.string())

    # The annotations of a function in this module are text, which Spark does not resolve: declared here as objects.
    reasons.__annotations__ = {"bodies": pa.Array, "return": pa.Array}
    return messages.withColumn("reason", arrow_udf(reasons, "string")("body"))  # type: ignore[call-overload]


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
    return reason.when(F.col("value")[CORRUPT].isNotNull(), "a part of the body has another type than in the schema")


JOB = Job("schema-check", SchemaCheckOptions, start)
