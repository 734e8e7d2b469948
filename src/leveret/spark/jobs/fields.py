"""The body of a message as columns, by a schema: JSON by a declared one, any format by a schema of the registry."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from leveret.errors import ConfigError
from leveret.schemas.schema import JSON
from leveret.spark.errors import BrokerRefused
from leveret.spark.formats import SchemaRegistry, from_schema
from leveret.spark.jobs.job import BrokerOptions, broker_settings
from leveret.spark.jobs.json_check import CORRUPT
from leveret.spark.jobs.messages import text_of_body
from leveret.spark.jobs.schema_check import schema_of, with_strict_reason
from leveret.spark.schema import SCHEMA

REASON, VALUE = "reason", "value"


def with_fields(messages: DataFrame, ddl: str | None, registered: str | None, options: BrokerOptions) -> DataFrame:
    """Adds ``value``, the fields of the body, and ``reason``, which is null if the body matches the schema."""
    if registered is None:
        assert ddl is not None
        return _with_json(messages, schema_of(ddl))
    registry = SchemaRegistry(**broker_settings(options))
    try:
        schema = registry.schema(registered)
    except BrokerRefused as refusal:
        raise ConfigError(f"--schema-name {registered}: {refusal.reason}") from refusal
    if schema.type == JSON:
        return _with_json(messages, schema_of(schema.text))
    decoded = messages.withColumn("decoded", from_schema("body", schema, registry=registry))
    return (
        decoded.withColumn(VALUE, F.col("decoded")["value"])
        .withColumn(REASON, F.col("decoded")["error"])
        .drop("decoded")
    )


def _with_json(messages: DataFrame, schema: StructType) -> DataFrame:
    """What the strict check lets pass and Spark cannot read is refused too: it would be null."""
    with_corrupt = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    parsed = F.from_json(text_of_body(), with_corrupt, {"columnNameOfCorruptRecord": CORRUPT})
    unread = F.when(F.col(VALUE)[CORRUPT].isNotNull(), "a part of the body has another type than in the schema")
    rows = with_strict_reason(messages, schema).withColumn(VALUE, parsed)
    return rows.withColumn(REASON, F.coalesce(REASON, unread)).withColumn(VALUE, F.col(VALUE).dropFields(CORRUPT))


def fields_of(rows: DataFrame) -> StructType:
    schema = rows.schema[VALUE].dataType
    assert isinstance(schema, StructType)
    return schema


def flattened(rows: DataFrame, keep: Sequence[str]) -> DataFrame:
    """The kept columns of the message, the fields, and the reason."""
    fields = [F.col(VALUE)[field.name].alias(field.name) for field in fields_of(rows).fields]
    return rows.select(*keep, *fields, REASON)


def check_schemas(ddl: str | None, registered: str | None) -> None:
    if ddl is not None and registered is not None:
        raise ConfigError("--schema and --schema-name exclude each other: remove one of them")


def check_names(schema: StructType, keep: Sequence[str], others: Sequence[str] = ()) -> None:
    """Refuse unknown columns of the message, and two columns with one name."""
    for name in keep:
        if name not in SCHEMA.fieldNames():
            raise ConfigError(f"--keep {name}: a message has {', '.join(SCHEMA.fieldNames())}")
    for field in schema.fields:
        if field.name.lower() in (*keep, *others, REASON):
            raise ConfigError(
                f"the field {field.name} of the schema has the name of another column: leave that out of --keep "
                f"and --partition-by; a field cannot be called {REASON}"
            )


def names_in(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
