"""A table of a lake: what ``lake`` needs of a format, and the format by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql.types import StructType

from leveret.spark.tables.data_files import DataFile, Layout

FORMATS = ("delta", "iceberg")


class LakeTable(Protocol):
    name: str

    def prepare(self, schema: StructType, by: Sequence[str]) -> None:
        """Create the table, or add the columns that it lacks. Raises ConfigError if its schema does not allow that."""

    def layout(self, by: Sequence[str]) -> Layout:
        """Where tasks write files of the table."""

    def last_batch(self, transaction: str) -> int:
        """The last committed batch of this transaction; -1 if there is none."""

    def commit(self, files: Sequence[DataFile], transaction: str, batch: int) -> bool:
        """Add the files and the number of the batch in one commit. False if the batch was committed before."""

    def compact(self) -> int:
        """Merge small files, without a change of the rows; returns by how many files the table is smaller."""


def lake_table(format_: str, table: str, catalog: str | None) -> LakeTable:
    """The packages of a format are imported only when it is used."""
    if format_ == "delta":
        from leveret.spark.tables.delta import Delta

        return Delta(table)
    from leveret.spark.tables.iceberg import Iceberg, catalog_of

    return Iceberg(*catalog_of(table, catalog))
