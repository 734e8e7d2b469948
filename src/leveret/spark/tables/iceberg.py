"""An Iceberg table, through the package ``pyiceberg``.

The number of the last batch is a property of the table, set in the same commit as the files of the batch. It stays when
snapshots expire. The summary of each snapshot has it too, for people.

PyIceberg repeats a commit after a conflict, without asking whether the other writer committed the same batch.
``_without_retries`` prevents this; ``commit`` asks first and then repeats.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ByteType, ShortType, StructType

from leveret.errors import ConfigError
from leveret.spark.tables.data_files import FILE_BYTES, DataFile, Layout, arrow_schema
from leveret.spark.tables.evolution import check_partitions, has_additions

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, parquet_files_to_data_files
    from pyiceberg.table import FileScanTask, Table
except ModuleNotFoundError as missing:
    raise ConfigError(f"Iceberg tables need the package {missing.name}: pip install 'leveret[lake]'") from missing

CATALOG = "leveret"
BATCH, TRANSACTION = "leveret.batch", "leveret.transaction"
RETRIES = "commit.retry.num-retries"
ATTEMPTS = 10
SMALL = FILE_BYTES // 2  # files below this size are merged


class Iceberg:
    """A table of a catalog; ``namespace.name``."""

    def __init__(self, name: str, catalog: Catalog) -> None:
        self.name = name
        self._catalog = catalog

    def prepare(self, schema: StructType, by: Sequence[str]) -> None:
        """Create the table, or add the columns that it lacks."""
        _refuse_small_integers(schema)
        wanted = arrow_schema(schema)
        table = self._found() or self._created(wanted, by)
        names = {field.field_id: field.name for field in table.schema().fields}
        check_partitions(self.name, [names[field.source_id] for field in table.spec().fields], by)
        known = from_arrow_schema(table.schema().as_arrow(), prefer_timestamp_ntz=True)
        if has_additions(self.name, known, schema):
            with table.update_schema() as update:
                update.union_by_name(wanted)

    def _found(self) -> Table | None:
        try:
            return self._catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    def _created(self, schema: pa.Schema, by: Sequence[str]) -> Table:
        self._catalog.create_namespace_if_not_exists(Catalog.namespace_from(self.name))
        try:
            with self._catalog.create_table_transaction(self.name, schema=schema) as new:
                with new.update_spec() as spec:
                    for name in by:
                        spec.add_identity(name)
        except TableAlreadyExistsError:
            pass  # by another run, just now
        return self._catalog.load_table(self.name)

    def layout(self, by: Sequence[str]) -> Layout:
        return Layout(f"{self._catalog.load_table(self.name).location()}/data", tuple(by))

    def last_batch(self, transaction: str) -> int:
        """-1 before the first batch."""
        return _last_batch(self._catalog.load_table(self.name), transaction)

    def commit(self, files: Sequence[DataFile], transaction: str, batch: int) -> bool:
        """Add the files in one commit. False: another run committed this batch, and nothing is added."""
        for attempt in range(1, ATTEMPTS + 1):
            table = _without_retries(self._catalog.load_table(self.name))
            if _last_batch(table, transaction) >= batch:
                return False
            paths = [f"{table.location()}/data/{file.path}" for file in files]
            summary = {TRANSACTION: transaction, BATCH: str(batch)}
            try:
                with table.transaction() as changes:
                    changes.set_properties({f"{BATCH}.{transaction}": str(batch)})
                    changes.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)
                return True
            except CommitFailedException:
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def compact(self) -> int:
        """Merge small files of a partition; returns how many are gone. Old snapshots keep theirs."""
        table = self._catalog.load_table(self.name)
        saved = 0
        for tasks in _bins(list(table.scan().plan_files())):
            path = f"{table.location()}/data/leveret-{uuid.uuid4()}.parquet"
            _merge(table, tasks, path)
            try:
                _replace(table, tasks, path)
            except CommitFailedException:
                return saved  # another writer was faster: the files are merged the next time
            saved += len(tasks) - 1
        return saved


def catalog_of(table: str, name: str | None) -> tuple[str, Catalog]:
    """The name of the table and its catalog: one of PyIceberg's configuration, or SQLite in the folder of the table."""
    if name is not None:
        try:
            return table, load_catalog(name)
        except ValueError as problem:
            raise ConfigError(
                f"--catalog {name}: {problem}; configure it in .pyiceberg.yaml, or in the environment "
                f"(PYICEBERG_CATALOG__{name.upper()}__URI)"
            ) from problem
    folder, _, identifier = table.rpartition("/")
    if not folder or "." not in identifier:
        raise ConfigError(
            f"--table {table}: without --catalog, an Iceberg table is FOLDER/NAMESPACE.NAME, such as "
            "/data/warehouse/shop.orders; the folder has the SQLite catalog and the files"
        )
    path = Path(folder.removeprefix("file://")).absolute()
    path.mkdir(parents=True, exist_ok=True)
    settings = {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}"}
    return identifier, load_catalog(CATALOG, **settings)


def _last_batch(table: Table, transaction: str) -> int:
    return int(table.properties.get(f"{BATCH}.{transaction}", -1))


def _without_retries(table: Table) -> Table:
    """Only this object sees the property: commits are made of changes, not of the properties it has."""
    properties = {**table.metadata.properties, RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _bins(tasks: list[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Small files of one partition, together about as large as a file should be."""
    by_partition: dict[Any, list[FileScanTask]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: task.file.file_path):
        partition = task.file.partition
        if task.file.file_size_in_bytes < SMALL and not task.delete_files:
            by_partition[tuple(partition[at] for at in range(len(partition)))].append(task)
    for small in by_partition.values():
        chosen: list[FileScanTask] = []
        for task in small:
            chosen.append(task)
            if sum(each.file.file_size_in_bytes for each in chosen) >= FILE_BYTES:
                yield chosen
                chosen = []
        if len(chosen) > 1:
            yield chosen


def _merge(table: Table, tasks: Sequence[FileScanTask], path: str) -> None:
    """One file at a time, so that memory is bounded by the largest of them."""
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    schema = table.schema().as_arrow()
    plain = pa.schema([field.remove_metadata() for field in schema])
    with table.io.new_output(path).create() as sink, pq.ParquetWriter(sink, plain, compression="zstd") as writer:
        for task in tasks:
            rows = pa.Table.from_batches(scan.to_record_batches([task]), None if task.file.record_count else schema)
            writer.write_table(rows.cast(plain))


def _replace(table: Table, tasks: Sequence[FileScanTask], path: str) -> None:
    """In one commit, the merged file takes the place of the files of these tasks."""
    with _without_retries(table).transaction() as changes, changes.update_snapshot().overwrite() as files:
        for task in tasks:
            files.delete_data_file(task.file)
        for merged in parquet_files_to_data_files(table.io, table.metadata, iter([path])):
            files.append_data_file(merged)


def _refuse_small_integers(schema: StructType) -> None:
    for field in schema.fields:
        if isinstance(field.dataType, ByteType | ShortType):
            raise ConfigError(
                f"column {field.name} is {field.dataType.simpleString()}, which Iceberg does not have: declare INT"
            )


def file_readers(table: Table, snapshot: int) -> list[tuple[int, Callable[[], Iterator[pa.RecordBatch]]]]:
    """The number of rows of each file of a snapshot with a function that reads it, in the order of their paths."""
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())

    def reader(task: FileScanTask) -> Callable[[], Iterator[pa.RecordBatch]]:
        return lambda: scan.to_record_batches([task])

    tasks = sorted(table.scan(snapshot_id=snapshot).plan_files(), key=lambda task: task.file.file_path)
    return [(task.file.record_count, reader(task)) for task in tasks]
