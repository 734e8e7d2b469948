"""One version of a table, which never changes: rows ``a`` to ``b`` of it are always the same rows, in the same order.

The rows of a snapshot are numbered in the order of its files, sorted by path. A task reads a part of one file through
the package of the format, which knows about partitions, renamed columns and deleted rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from leveret.errors import ConfigError
from leveret.spark.tables.data_files import arrow_schema, filesystem_of

FORMATS = ("delta", "iceberg", "parquet")
ROWS_AT_ONCE = 10_000
ReadFile = Callable[[], Iterator[pa.RecordBatch]]


class Part(NamedTuple):
    """Rows of one file: from ``first`` to ``end`` (exclusive)."""

    read: ReadFile
    first: int
    end: int


class SnapshotFile(NamedTuple):
    rows: int
    read: ReadFile


@dataclass(frozen=True)
class Snapshot:
    version: str
    schema: StructType
    files: Sequence[SnapshotFile]

    @property
    def rows(self) -> int:
        """At least as many as there are: deleted rows are still counted."""
        return sum(file.rows for file in self.files)

    def parts(self, first: int, end: int) -> list[Part]:
        """The parts of files that have these rows."""
        found, start = [], 0
        for file in self.files:
            part = Part(file.read, max(first - start, 0), min(end - start, file.rows))
            if part.first < part.end:
                found.append(part)
            start += file.rows
        return found

    def read(self, spark: SparkSession, first: int, end: int) -> DataFrame:
        """These rows. Those of a file are in one partition, in their order."""
        parts, schema = self.parts(first, end), arrow_schema(self.schema)

        def read_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from (rows.cast(schema) for rows in rows_of(parts[number]))

        numbers = spark.range(0, len(parts), 1, max(len(parts), 1))
        return numbers.mapInArrow(read_parts, self.schema)


def rows_of(part: Part) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in part.read():
        first, end = max(part.first - start, 0), min(part.end - start, batch.num_rows)
        if first < end:
            yield batch.slice(first, end - first)
        start += batch.num_rows
        if start >= part.end:
            return


def snapshot_of(format_: str, table: str, catalog: str | None, version: str | None) -> Snapshot:
    """This version, or the newest. Raises ConfigError if the version is not there any more."""
    if format_ == "delta":
        return _of_delta(table, version)
    if format_ == "iceberg":
        return _of_iceberg(table, catalog, version)
    return _of_parquet(table, version)


def _of_delta(table: str, version: str | None) -> Snapshot:
    from leveret.spark.tables.delta import dataset_at

    found = dataset_at(table, version)
    if found is None:
        raise _gone(table, version)
    return Snapshot(str(found[0]), *_of_dataset(found[1]))


def _of_parquet(table: str, version: str | None) -> Snapshot:
    """Files have no versions: their names and sizes stand for one."""
    filesystem, path = filesystem_of(table if "://" in table else str(Path(table).absolute()))
    found = dataset.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive")
    sizes = [(info.path, info.size) for info in filesystem.get_file_info(sorted(found.files))]
    digest = hashlib.sha256(repr(sizes).encode()).hexdigest()
    if version not in (None, digest):
        raise _gone(table, version)
    return Snapshot(digest, *_of_dataset(found))


def _of_dataset(found: dataset.Dataset) -> tuple[StructType, list[SnapshotFile]]:
    fragments = sorted(found.get_fragments(), key=lambda fragment: str(fragment.path))
    schema = from_arrow_schema(found.schema, prefer_timestamp_ntz=True)
    return schema, [SnapshotFile(file.count_rows(), _fragment_reader(file, found.schema)) for file in fragments]


def _fragment_reader(fragment: dataset.Fragment, schema: pa.Schema) -> ReadFile:
    def read() -> Iterator[pa.RecordBatch]:
        yield from fragment.to_batches(schema=schema, batch_size=ROWS_AT_ONCE, batch_readahead=1)

    return read


def _of_iceberg(table: str, catalog: str | None, version: str | None) -> Snapshot:
    from leveret.spark.tables.iceberg import catalog_of, file_readers

    name, known = catalog_of(table, catalog)
    found = known.load_table(name)
    current = found.current_snapshot() if version is None else found.snapshot_by_id(int(version))
    if current is None and version is not None:
        raise _gone(table, version)
    schema = from_arrow_schema(found.schema().as_arrow(), prefer_timestamp_ntz=True)
    if current is None:
        return Snapshot("empty", schema, ())
    readers = file_readers(found, current.snapshot_id)
    return Snapshot(str(current.snapshot_id), schema, [SnapshotFile(rows, read) for rows, read in readers])


def _gone(table: str, version: str | None) -> ConfigError:
    if version is None:
        return ConfigError(f"there is no table at {table}: check --table and --format")
    return ConfigError(
        f"table {table} does not have version {version} any more, with which the replay started: "
        "use another --checkpoint to start again; messages that were published come again then"
    )
