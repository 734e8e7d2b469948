"""A Delta table, through the package ``deltalake``.

The number of the last batch is an application transaction (``txn``) of the table: it is in the same commit as the files
of the batch, stays when old commits are cleaned up, and two writers cannot commit the same batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from pyarrow.dataset import Dataset
from pyspark.sql.types import StructType

from leveret.errors import ConfigError
from leveret.spark.tables.data_files import FILE_BYTES, DataFile, Layout, arrow_schema
from leveret.spark.tables.evolution import check_partitions, has_additions

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import AddAction, RemoveAction
except ModuleNotFoundError as missing:
    raise ConfigError("Delta tables need the package deltalake: pip install 'leveret[lake]'") from missing


class Delta:
    """A table at a URI: a folder, or ``s3://bucket/path``."""

    def __init__(self, uri: str) -> None:
        self.name = uri if "://" in uri else str(Path(uri).absolute())

    def prepare(self, schema: StructType, by: Sequence[str]) -> None:
        """Create the table, or add the columns that it lacks."""
        if not DeltaTable.is_deltatable(self.name):
            DeltaTable.create(self.name, arrow_schema(schema), mode="ignore", partition_by=list(by))
        table = DeltaTable(self.name)
        check_partitions(self.name, table.metadata().partition_columns, by)
        known = StructType.fromJson(json.loads(table.schema().to_json()))
        if has_additions(self.name, known, schema):
            write_deltalake(table, arrow_schema(schema).empty_table(), mode="append", schema_mode="merge")

    def layout(self, by: Sequence[str]) -> Layout:
        """The values of partition columns are in the log only."""
        return Layout(self.name, tuple(by), keeps=False)

    def last_batch(self, transaction: str) -> int:
        """-1 before the first batch."""
        return _last_batch(DeltaTable(self.name), transaction)

    def commit(self, files: Sequence[DataFile], transaction: str, batch: int) -> bool:
        """Add the files in one commit. False: another run committed this batch, and nothing is added."""
        table = DeltaTable(self.name)
        if _last_batch(table, transaction) >= batch:
            return False
        now = time.time_ns() // 1_000_000
        added: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.bytes, file.partition, now, True, json.dumps({"numRecords": file.rows}))
            for file in files
        ]
        known = CommitProperties(app_transactions=[Transaction(transaction, batch)])
        by = table.metadata().partition_columns
        try:
            table.create_write_transaction(added, "append", table.schema(), by, commit_properties=known)
        except CommitFailedError:
            if self.last_batch(transaction) < batch:
                raise
            return False
        return True

    def compact(self) -> int:
        """Merge small files; returns how many are gone. Files of old versions stay until ``vacuum``."""
        try:
            changed = DeltaTable(self.name).optimize.compact(target_size=FILE_BYTES)
        except CommitFailedError:
            return 0  # another writer has replaced the files: they are merged the next time
        return int(changed["numFilesRemoved"]) - int(changed["numFilesAdded"])


def dataset_at(uri: str, version: str | None) -> tuple[int, Dataset] | None:
    """This version of a table, or the newest, for reading; None if it is not there."""
    try:
        table = DeltaTable(Delta(uri).name, version=None if version is None else int(version))
    except DeltaError:
        return None
    try:
        return table.version(), table.to_pyarrow_dataset()
    except DeltaError as problem:
        raise ConfigError(f"table {uri} cannot be read: {problem}") from problem


def _last_batch(table: DeltaTable, transaction: str) -> int:
    version = table.transaction_version(transaction)
    return -1 if version is None else version
