"""Options of tables: found when the table is created, kept with its columns, and used when it is read."""

from __future__ import annotations

from pyspark.sql.types import StructType

from leveret.spark.schema import SCHEMA
from leveret.spark.table_options import options_of_table, read_options, with_options

CREATED = {"provider": "leveret", "owner": "me", "queue": "q", "option.queue": "q", "option.endpoint": "http://b:1"}


def test_the_options_of_a_table_come_back_with_its_columns() -> None:
    given = options_of_table(CREATED)
    assert given == {"queue": "q", "endpoint": "http://b:1"}
    stored = StructType.fromJson(with_options(SCHEMA, given).jsonValue())  # as Spark's catalog stores it
    assert stored.fieldNames() == SCHEMA.fieldNames()
    assert read_options(stored, {}) == given
    assert read_options(stored, {"QUEUE": "r"}) == {"endpoint": "http://b:1", "QUEUE": "r"}


def test_other_reads_have_the_options_of_the_query_only() -> None:
    assert options_of_table({"queue": "q"}) is None
    assert read_options(SCHEMA, {"queue": "q"}) == {"queue": "q"}
