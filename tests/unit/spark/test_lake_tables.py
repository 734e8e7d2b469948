"""Delta and Iceberg tables: files of tasks are committed with the number of their batch, and schemas grow."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret.errors import ConfigError
from leveret.spark.errors import OldCheckpoint
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.lake import LakeOptions, LakeWriter
from leveret.spark.tables import data_files
from leveret.spark.tables.data_files import DataFile, arrow_schema, runs, writer_of
from leveret.spark.tables.evolution import check_partition_columns, has_additions
from leveret.spark.tables.iceberg import Iceberg, catalog_of
from leveret.spark.tables.snapshot import Snapshot, rows_of, snapshot_of
from leveret.spark.tables.table import LakeTable, lake_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


NESTED = struct(a=IntegerType())
MESSAGE = struct(
    id=LongType(),
    queue=StringType(),
    day=DateType(),
    at=TimestampType(),
    headers=MapType(StringType(), StringType()),
    lines=ArrayType(NESTED),
)


def table_of(format_: str, folder: Path) -> LakeTable:
    return lake_table(format_, str(folder / ("a b" if format_ == "delta" else "ware house/shop.orders")), None)


def row(id_: int, queue: str | None = "q", **others: object) -> dict[str, object]:
    usual = {"day": date(2031, 5, 1), "at": NOON, "headers": [("k", "v")], "lines": [{"a": id_}]}
    return {"id": id_, "queue": queue, **usual, **others}


def files_of(
    table: LakeTable, schema: StructType, rows: list[dict[str, object]], by: tuple[str, ...] = ()
) -> list[DataFile]:
    """Written as a task writes them."""
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    [written] = writer_of(table.layout(by), arrow_schema(schema))(iter([batch]))
    return [
        DataFile(file["path"], file["bytes"], file["rows"], data_files.json.loads(file["partition"]))
        for file in written.to_pylist()
    ]


def read(format_: str, folder: Path) -> list[dict[str, Any]]:
    table = table_of(format_, folder)
    if format_ == "delta":
        found = DeltaTable(table.name).to_pyarrow_table()
    else:
        identifier, catalog = catalog_of(str(folder / "ware house/shop.orders"), None)
        found = catalog.load_table(identifier).scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda one: one["id"])


@FORMATS
def test_a_batch_is_committed_once_with_its_partitions(format_: str, tmp_path: Path) -> None:
    by = ("queue", "day")
    table = table_of(format_, tmp_path)
    table.prepare(MESSAGE, by)
    assert table.last_batch("query") == -1
    rows = [row(1, None), row(2, "a/b ü"), row(3, "a/b ü")]
    files = files_of(table, MESSAGE, rows, by)
    assert [(file.rows, file.partition["queue"]) for file in files] == [(1, None), (2, "a/b ü")]
    assert table.commit(files, "query", 0)
    # A driver that was thought dead, or one that repeats the batch: its files never become part of the table.
    assert not table_of(format_, tmp_path).commit(files_of(table, MESSAGE, rows, by), "query", 0)
    assert table.commit(files_of(table, MESSAGE, [row(4)], by), "another", 0)
    assert (table.last_batch("query"), table.last_batch("another")) == (0, 0)
    assert [(one["id"], one["queue"]) for one in read(format_, tmp_path)] == [
        (1, None),
        (2, "a/b ü"),
        (3, "a/b ü"),
        (4, "q"),
    ]
    assert read(format_, tmp_path)[0] == row(1, None)


@FORMATS
def test_two_writers_at_the_same_moment(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have read the table before one commits: the same batch is refused, another query's batch is not."""
    table = table_of(format_, tmp_path)
    table.prepare(MESSAGE, ())
    for transaction, is_new in (("query", False), ("another", True)):
        mine, others = (files_of(table, MESSAGE, [row(number)]) for number in (1, 2))
        meanwhile(table, monkeypatch, lambda others=others: table_of(format_, tmp_path).commit(others, "query", 0))
        assert table.commit(mine, transaction, 0) is is_new
    assert [one["id"] for one in read(format_, tmp_path)] == [1, 2]


def meanwhile(table: LakeTable, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between a commit's look at the table and its write."""
    todo = [act]
    if isinstance(table, Iceberg):
        catalog = table._catalog
        commit_table = type(catalog).commit_table

        def late_commit(*arguments: Any) -> Any:
            if todo:
                todo.pop()()
            return commit_table(*arguments)

        monkeypatch.setattr(type(catalog), "commit_table", late_commit)
    else:
        write = DeltaTable.create_write_transaction

        def late_write(*arguments: Any, **more: Any) -> Any:
            if todo:
                todo.pop()()
            return write(*arguments, **more)

        monkeypatch.setattr(DeltaTable, "create_write_transaction", late_write)


@FORMATS
def test_a_schema_grows_and_never_changes_its_types(format_: str, tmp_path: Path) -> None:
    table = table_of(format_, tmp_path)
    table.prepare(MESSAGE, ())
    table.commit(files_of(table, MESSAGE, [row(1)]), "query", 0)
    grown = StructType(
        [*MESSAGE.fields[:-1], *struct(lines=ArrayType(struct(a=IntegerType(), b=StringType())), new=LongType()).fields]
    )
    table.prepare(grown, ())
    table.prepare(grown, ())  # nothing is left to do
    new = row(2, lines=[{"a": 2, "b": "x"}], new=7)
    table.commit(files_of(table, grown, [new]), "query", 1)
    # A pipeline that still has the old schema, or fewer fields, goes on.
    table.prepare(struct(id=LongType()), ())
    table.commit(files_of(table, struct(id=LongType()), [{"id": 3}]), "query", 2)
    first, second, third = read(format_, tmp_path)
    assert first == row(1, new=None, lines=[{"a": 1, "b": None}])
    assert second == new
    assert (third["id"], third["queue"]) == (3, None)
    with pytest.raises(ConfigError, match=r"column id is bigint, not string: declare it with its type in the table"):
        table.prepare(struct(id=StringType()), ())
    with pytest.raises(ConfigError, match=r"is partitioned by nothing, not by queue: use --partition-by"):
        table.prepare(MESSAGE, ("queue",))


@FORMATS
def test_compaction_merges_small_files_of_a_partition_and_keeps_the_rows(format_: str, tmp_path: Path) -> None:
    table = table_of(format_, tmp_path)
    table.prepare(MESSAGE, ("queue",))
    for number in range(6):
        files = files_of(table, MESSAGE, [row(number, "ab"[number % 2])], ("queue",))
        table.commit(files, "query", number)
    before = read(format_, tmp_path)
    assert table.compact() == 4
    assert table.compact() == 0
    assert read(format_, tmp_path) == before
    assert table.last_batch("query") == 5
    assert not table.commit(files, "query", 5)


def test_compaction_gives_way_to_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg refuses it; Delta allows it, because added files do not change the merged ones."""
    table = table_of("iceberg", tmp_path)
    table.prepare(MESSAGE, ())
    for number in range(3):
        table.commit(files_of(table, MESSAGE, [row(number)]), "query", number)
    new = files_of(table, MESSAGE, [row(3)])
    meanwhile(table, monkeypatch, lambda: table_of("iceberg", tmp_path).commit(new, "query", 3))
    assert table.compact() == 0
    assert [one["id"] for one in read("iceberg", tmp_path)] == [0, 1, 2, 3]
    assert table.compact() == 3
    assert [one["id"] for one in read("iceberg", tmp_path)] == [0, 1, 2, 3]


@pytest.mark.parametrize("format_", ["delta", "iceberg", "parquet"])
def test_a_snapshot_has_the_same_rows_whatever_happens_to_the_table(format_: str, tmp_path: Path) -> None:
    table = table_of("delta" if format_ == "parquet" else format_, tmp_path)
    by = ("queue",) if format_ != "parquet" else ()  # a Delta table without partitions is a folder of Parquet files
    table.prepare(MESSAGE, by)
    for number in range(3):
        table.commit(files_of(table, MESSAGE, [row(number * 10 + n) for n in range(4)], by), "query", number)
    place = f"{tmp_path}/ware house/shop.orders" if format_ == "iceberg" else table.name
    first = snapshot_of(format_, place, None, None)
    assert first.rows == 12

    def ids(snapshot: Snapshot, start: int, end: int) -> list[int]:
        parts = pickle.loads(cloudpickle.dumps(snapshot.parts(start, end)))  # noqa: S301  as Spark sends them
        return [one["id"] for part in parts for batch in rows_of(part) for one in batch.to_pylist()]

    assert sorted(ids(first, 0, 12)) == [number * 10 + n for number in range(3) for n in range(4)]
    assert ids(first, 3, 9) == ids(first, 0, 12)[3:9]
    assert ids(first, 5, 6) == ids(first, 0, 12)[5:6]
    before = ids(first, 0, 12)
    table.commit(files_of(table, MESSAGE, [row(99)], by), "query", 3)
    if format_ == "parquet":
        with pytest.raises(ConfigError, match=r"does not have version .* any more"):
            snapshot_of(format_, place, None, first.version)
        return
    table.compact()
    assert ids(snapshot_of(format_, place, None, first.version), 0, 12) == before
    assert snapshot_of(format_, place, None, None).rows == 13
    with pytest.raises(ConfigError, match="does not have version 77 any more, with which the replay started"):
        snapshot_of(format_, place, None, "77")


def test_a_task_closes_full_files_and_counts_refused_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "GROUP_BYTES", 100)
    monkeypatch.setattr(data_files, "FILE_BYTES", 100)
    schema = arrow_schema(struct(id=LongType(), reason=StringType()))
    rows = [{"id": number, "reason": "bad" if number % 2 else None} for number in range(100)]
    batches = [pa.RecordBatch.from_pylist(rows[at : at + 50], schema=schema) for at in (0, 50)]
    [written] = writer_of(data_files.Layout(f"file://{tmp_path}/x"), schema)(iter(batches))
    assert [(file["path"] is None, file["rows"]) for file in written.to_pylist()] == [
        (False, 25),
        (False, 25),
        (True, 50),
    ]
    assert list(writer_of(data_files.Layout(str(tmp_path)), schema)(iter([]))) == []
    assert list(runs([[1, 1, None], ["a", "b", "b"]], 3)) == [((1, "a"), 1), ((1, "b"), 1), ((None, "b"), 1)]


def test_tables_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"without --catalog, an Iceberg table is FOLDER/NAMESPACE.NAME"):
        lake_table("iceberg", "orders", None)
    with pytest.raises(ConfigError, match=r"--catalog nowhere: .*PYICEBERG_CATALOG__NOWHERE__URI"):
        lake_table("iceberg", "shop.orders", "nowhere")
    with pytest.raises(ConfigError, match="column n is smallint, which Iceberg does not have: declare INT"):
        table_of("iceberg", tmp_path).prepare(struct(n=ShortType()), ())
    with pytest.raises(ConfigError, match="--partition-by x: there is no such column; choose among id"):
        check_partition_columns(MESSAGE, ("x",))
    with pytest.raises(ConfigError, match="--partition-by at: timestamp is not possible"):
        check_partition_columns(MESSAGE, ("at",))
    with pytest.raises(ConfigError, match="names every column"):
        check_partition_columns(struct(id=LongType()), ("id",))
    old = struct(headers=MapType(StringType(), LongType()), lines=ArrayType(NESTED))
    with pytest.raises(ConfigError, match=r"column headers\.value is bigint, not string"):
        has_additions("t", old, MESSAGE)
    with pytest.raises(ConfigError, match=r"column lines\.element\.a is int, not string"):
        has_additions("t", old, struct(lines=ArrayType(struct(a=StringType()))))


def test_a_batch_of_an_old_checkpoint_is_refused(tmp_path: Path) -> None:
    """Its rows may be others than those that were committed under its number."""
    table = table_of("delta", tmp_path)
    table.prepare(MESSAGE, ())
    table.commit(files_of(table, MESSAGE, [row(1)]), "query", 5)
    writer = LakeWriter(table, LakeOptions(queue="q", table=table.name))
    unread = cast("DataFrame", None)
    with pytest.raises(OldCheckpoint, match=r"batch 4 was not written: table .* has batches of this query up to 5"):
        writer.write(unread, "query", 4)
    assert writer.write(unread, "query", 5) == Counts()


def test_names_that_differ_in_case_only_are_refused() -> None:
    """Files are read by the exact name of a column: the values would be null."""
    for old, new, place in (
        (struct(id=LongType()), struct(ID=LongType()), "ID"),
        (struct(lines=ArrayType(NESTED)), struct(lines=ArrayType(struct(A=IntegerType()))), r"lines\.element\.A"),
    ):
        with pytest.raises(ConfigError, match=rf"column {place} has the name of column .*, except for upper case"):
            has_additions("t", old, new)
