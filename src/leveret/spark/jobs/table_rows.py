"""Rows of a table as messages, for ``replay``."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from leveret.spark.schema import PROPERTIES, SCHEMA

MESSAGE = ("routing_key", "headers", "properties")


def as_messages(rows: DataFrame) -> DataFrame:
    """A table with a column ``body`` has messages as ``lake`` writes them. Rows of others are published as JSON."""
    columns = {name: _own(rows.schema, name) for name in MESSAGE}
    if "body" in rows.columns:
        body, properties = F.col("body"), columns["properties"]
    else:
        body = F.to_json(F.struct(*(f"`{name}`" for name in rows.columns)))
        kinds = [F.lit("application/json") if name == "content_type" else F.lit(None) for name in PROPERTIES.names]
        properties = F.struct(*(kind.alias(name) for kind, name in zip(kinds, PROPERTIES.names, strict=True)))
    return rows.select(
        body.alias("body"),
        F.coalesce(columns["routing_key"], F.lit("")).alias("routing_key"),
        columns["headers"].alias("headers"),
        properties.cast(PROPERTIES).alias("properties"),
    )


def _own(schema: StructType, name: str) -> Column:
    """The column of the table if it has the type that it has in a message, otherwise null."""
    kind = SCHEMA[name].dataType
    if name in schema.names and schema[name].dataType.simpleString() == kind.simpleString():
        return F.col(name)
    return F.lit(None).cast(kind)
