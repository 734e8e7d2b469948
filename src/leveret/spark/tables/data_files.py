"""Parquet files of a table, written by the tasks of Spark.

A task writes its rows to new files and returns one row for each file. The driver collects these rows, of successful
attempts only, and commits the files to the table. Files of failed or repeated attempts are never part of a table: the
table's own clean-up (``vacuum``) deletes them.

A row with a text in the column ``reason`` is refused: it is counted and not written. Rows are counted where they are
written, so that the counts are exact when Spark repeats a task.

A task holds one open file and at most ``GROUP_BYTES`` of rows that are not written yet: rows of a partitioned table
arrive sorted by partition.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

GROUP_BYTES = 32 << 20  # rows buffered for one row group
FILE_BYTES = 128 << 20  # a file of this size is closed, and another one begun
WRITTEN = pa.schema(
    [("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("partition", pa.string())],
)
WRITTEN_DDL = "path STRING, bytes BIGINT, rows BIGINT, partition STRING"
REASON = "reason"
Partition = tuple[object, ...]


@dataclass(frozen=True)
class DataFile:
    """A file that is not yet part of the table; ``path`` is relative to the folder."""

    path: str
    bytes: int
    rows: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True)
class Layout:
    """Where the files are written. ``keeps``: the columns of the partition are in the files too."""

    folder: str
    by: tuple[str, ...] = ()
    keeps: bool = True


def write_files(rows: DataFrame, layout: Layout) -> tuple[list[DataFile], int]:
    """Write the rows to files in the folder, and return the files and the number of refused rows."""
    if layout.by:
        rows = rows.repartition(*layout.by).sortWithinPartitions(*layout.by)
    written = rows.mapInArrow(writer_of(layout, arrow_schema(rows.schema)), WRITTEN_DDL).collect()
    files = [DataFile(row[0], row[1], row[2], json.loads(row[3])) for row in written if row[0] is not None]
    return files, sum(row[2] for row in written if row[0] is None)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Every column is nullable: a table can then get new columns, and lose old ones."""
    return pa.schema([field.with_nullable(True) for field in to_arrow_schema(schema, timezone="UTC")])


def writer_of(layout: Layout, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a task runs on its rows."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = TaskFiles(layout, schema)
        for batch in batches:
            files.write(batch.cast(schema))
        found = files.close()
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=WRITTEN)

    return write


class TaskFiles:
    """The files of one task."""

    def __init__(self, layout: Layout, schema: pa.Schema) -> None:
        self._filesystem, self._folder = filesystem_of(layout.folder)
        self._by = layout.by
        dropped = (REASON,) if layout.keeps else (REASON, *layout.by)
        self._refused = 0
        self._kept = pa.schema([field for field in schema if field.name not in dropped])
        self._closed: list[dict[str, object]] = []
        self._open: _OpenFile | None = None
        self._partition: Partition = ()

    def write(self, batch: pa.RecordBatch) -> None:
        if REASON in batch.schema.names:
            good = batch.filter(pc.is_null(batch.column(REASON)))
            self._refused += batch.num_rows - good.num_rows
            batch = good
        start = 0
        for partition, length in runs([batch.column(name).to_pylist() for name in self._by], batch.num_rows):
            self._write(partition, batch.select(self._kept.names).slice(start, length))
            start += length

    def _write(self, partition: Partition, rows: pa.RecordBatch) -> None:
        if self._open is not None and (partition != self._partition or self._open.is_full()):
            self._close()
        if self._open is None:
            self._partition = partition
            self._open = _OpenFile(self._filesystem, self._folder, self._kept)
        self._open.write(rows)

    def close(self) -> list[dict[str, object]]:
        if self._open is not None:
            self._close()
        refused: dict[str, object] = {"path": None, "bytes": 0, "rows": self._refused, "partition": "{}"}
        return [*self._closed, refused] if self._refused else self._closed

    def _close(self) -> None:
        assert self._open is not None
        values = dict(zip(self._by, map(partition_text, self._partition), strict=True))
        self._closed.append({**self._open.close(), "partition": json.dumps(values)})
        self._open = None


class _OpenFile:
    def __init__(self, filesystem: fs.FileSystem, folder: str, schema: pa.Schema) -> None:
        self._filesystem = filesystem
        self._name = f"leveret-{uuid.uuid4()}.parquet"
        self._path = f"{folder}/{self._name}"
        filesystem.create_dir(folder, recursive=True)
        self._sink = filesystem.open_output_stream(self._path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")
        self._schema = schema
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = self._rows = 0

    def is_full(self) -> bool:
        return bool(self._sink.tell() >= FILE_BYTES)

    def write(self, rows: pa.RecordBatch) -> None:
        self._buffered.append(rows)
        self._buffered_bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._buffered_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._buffered, self._schema))
        self._buffered, self._buffered_bytes = [], 0

    def close(self) -> dict[str, object]:
        self._flush()
        self._writer.close()
        self._sink.close()
        return {"path": self._name, "bytes": self._filesystem.get_file_info(self._path).size, "rows": self._rows}


def filesystem_of(folder: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI and the path in it; a local path may have characters that a URI may not."""
    local = folder.removeprefix("file://")
    if local.startswith("/"):
        return fs.LocalFileSystem(), local
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(folder)
    return found


def runs(columns: Sequence[list[object]], rows: int) -> Iterator[tuple[Partition, int]]:
    """Neighbouring rows with the same values, and their number."""
    if not columns:
        if rows:
            yield (), rows
        return
    for values, group in groupby(zip(*columns, strict=True)):
        yield values, sum(1 for _ in group)


def partition_text(value: object) -> str | None:
    """The value of a partition column as tables write it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
