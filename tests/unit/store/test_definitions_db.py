"""Definitions in their database: what is put comes back, in order, also after a crash; other files are refused."""

from __future__ import annotations

import errno
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from leveret.errors import StoreError
from leveret.store.definitions import (
    BindingRow,
    Change,
    Definitions,
    Drop,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    Put,
    QueueRow,
    Row,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from leveret.store.definitions_db import SCHEMA_VERSION, TABLES, DefinitionsDb
from leveret.wire.fields import decode_table, encode_table
from tests.support.descriptors import no_descriptors

NESTED = encode_table({"a": [1, "two", {"three": [b"\x00\xff", None, True, 1.5]}], "b": {"c": {"d": []}}})
ROWS: list[Row] = [
    VhostRow("/", None, 100),
    VhostRow("other", 5, None),
    UserRow("guest", "$argon2id$...", False, "administrator,monitoring", None, 7),
    UserRow("änne\x00", None, True, "", 3, None),
    PermissionRow("guest", "/", ".*", "", "^a"),
    TopicPermissionRow("guest", "/", "amq.topic", "a", "b"),
    ExchangeRow("/", "e", "topic", True, False, NESTED),
    ExchangeRow("/", "f", "x-custom", False, True, b""),
    QueueRow(7, "/", "q", True, NESTED),
    QueueRow(9, "other", "q", False, b""),
    BindingRow("/", "e", "queue", "q", "key", b""),
    BindingRow("/", "e", "queue", "q", "key", NESTED),
    BindingRow("/", "e", "exchange", "f", "", b""),
    ParameterRow("/", "policy", "p", b'{"priority": 1}'),
    ParameterRow("/", "other", "p", b"[]"),
]


def puts(*rows: Row) -> list[Change]:
    return [Put(row) for row in rows]


def all_rows(found: Definitions) -> list[Row]:
    return [row for rows in found[:-1] for row in rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@pytest.fixture
def db(path: Path) -> Iterator[DefinitionsDb]:
    opened = DefinitionsDb(path, synced=False)
    yield opened
    opened.close()


def reopened(path: Path) -> Definitions:
    db = DefinitionsDb(path, synced=False)
    try:
        assert not db.is_new
        return db.load()
    finally:
        db.close()


@pytest.mark.feature("S4-13")
def test_every_kind_of_row_comes_back_from_the_database(db: DefinitionsDb) -> None:
    assert db.is_new
    assert all_rows(db.load()) == []
    assert db.load().highest_queue == 0
    db.apply(puts(*ROWS))
    found = db.load()
    assert all_rows(found) == ROWS
    assert found.highest_queue == 9
    assert [type(value) for row in all_rows(found) for value in row] == [type(value) for row in ROWS for value in row]


def test_there_is_one_table_for_each_list_of_definitions() -> None:
    assert (*TABLES.values(), "highest_queue") == Definitions._fields


@pytest.mark.feature("S4-15")
def test_declared_things_are_there_after_a_restart(path: Path) -> None:
    for synced in (True, False):
        db = DefinitionsDb(path, synced=synced)
        db.apply(puts(*ROWS))
        db.close()
        db.close()
        found = reopened(path)
        assert all_rows(found) == ROWS
        assert decode_table(found.queues[0].arguments, 0, len(NESTED)) == decode_table(NESTED, 0, len(NESTED))


@pytest.mark.feature("S4-15")
def test_killed_process_loses_no_committed_row(db: DefinitionsDb, path: Path, tmp_path: Path) -> None:
    """The files are copied away as a kill would leave them: nothing was closed, nothing moved out of the WAL."""
    for row in ROWS:
        db.apply(puts(row))
    left = tmp_path / "left"
    left.mkdir()
    for file in (path, path.with_name("meta.db-wal")):
        shutil.copy(file, left)
    assert (left / "meta.db-wal").stat().st_size > 0
    assert all_rows(reopened(left / path.name)) == ROWS


def test_database_is_synced_with_every_commit_unless_told_otherwise(path: Path) -> None:
    for synced, level in ((True, 2), (False, 0)):
        db = DefinitionsDb(path, synced=synced)
        assert db._db.pragma("synchronous") == level
        assert db._db.pragma("journal_mode") == "wal"
        db.close()


def test_rows_come_back_in_the_order_in_which_they_were_first_put(db: DefinitionsDb) -> None:
    db.apply(puts(VhostRow("c", None, None), VhostRow("a", None, None), VhostRow("b", None, None)))
    db.apply(puts(VhostRow("c", 1, 2), VhostRow("0", None, None)))
    db.apply([Drop(VhostRow, ("a",)), Put(VhostRow("a", None, None))])
    assert [row.name for row in db.load().vhosts] == ["c", "b", "0", "a"]
    assert db.load().vhosts[0] == VhostRow("c", 1, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (UserRow("u", "h", False, "a", 1, 2), UserRow("u", None, True, "", None, None)),
        (PermissionRow("u", "/", "a", "b", "c"), PermissionRow("u", "/", "d", "e", "f")),
        (TopicPermissionRow("u", "/", "x", "a", "b"), TopicPermissionRow("u", "/", "x", "c", "d")),
        (ExchangeRow("/", "e", "topic", False, False, b""), ExchangeRow("/", "e", "fanout", True, True, b"x")),
        (QueueRow(3, "/", "q", False, b""), QueueRow(3, "/", "renamed", True, b"x")),
        (BindingRow("/", "e", "queue", "q", "k", b"x"), BindingRow("/", "e", "queue", "q", "k", b"x")),
    ],
)
def test_row_takes_the_place_of_one_with_its_key(db: DefinitionsDb, old: Row, new: Row) -> None:
    db.apply(puts(old))
    db.apply(puts(new))
    assert all_rows(db.load()) == [new]


def test_queue_takes_the_place_of_an_older_one_with_its_name(db: DefinitionsDb) -> None:
    other = QueueRow(2, "other", "q", False, b"")
    db.apply(puts(QueueRow(1, "/", "q", False, b""), other))
    db.apply(puts(QueueRow(5, "/", "q", True, b"x")))
    assert db.load().queues == [other, QueueRow(5, "/", "q", True, b"x")]


def test_highest_queue_is_remembered_when_the_queue_is_gone(path: Path) -> None:
    db = DefinitionsDb(path, synced=False)
    db.apply(puts(QueueRow(4, "/", "a", False, b""), QueueRow(17, "/", "b", False, b"")))
    db.apply([Drop(QueueRow, (17,)), Drop(QueueRow, (4,))])
    db.close()
    assert (reopened(path).queues, reopened(path).highest_queue) == ([], 17)


@pytest.mark.parametrize(
    "change",
    [
        Drop(PermissionRow, ("guest", "/")),
        Drop(TopicPermissionRow, ("guest", "/", "amq.topic")),
        Drop(ExchangeRow, ("/", "f")),
        Drop(QueueRow, (7,)),
        Drop(BindingRow, ("/", "e", "queue", "q", "key", NESTED)),
        Drop(ParameterRow, ("/", "policy", "p")),
    ],
)
def test_drop_removes_the_row_with_that_key_and_no_other(db: DefinitionsDb, change: Drop) -> None:
    db.apply(puts(*ROWS))
    db.apply([change])
    gone = [row for row in ROWS if row not in all_rows(db.load())]
    assert [type(row) for row in gone] == [change.kind]
    db.apply([change])
    assert len(all_rows(db.load())) == len(ROWS) - 1


def test_dropped_vhost_takes_everything_in_it_along(db: DefinitionsDb) -> None:
    elsewhere = ParameterRow("other", "policy", "p", b"{}")
    db.apply(puts(*ROWS, PermissionRow("guest", "other", "", "", ""), elsewhere))
    db.apply([Drop(VhostRow, ("/",))])
    found = db.load()
    assert found.vhosts == [ROWS[1]]
    assert [row.name for row in found.users] == ["guest", "änne\x00"]
    assert found.queues == [QueueRow(9, "other", "q", False, b"")]
    assert found.permissions == [PermissionRow("guest", "other", "", "", "")]
    assert found.topic_permissions == found.exchanges == found.bindings == []
    assert found.parameters == [elsewhere]


def test_dropped_user_takes_the_permissions_along(db: DefinitionsDb) -> None:
    other = PermissionRow("other", "/", "", "", "")
    db.apply(puts(*ROWS, other))
    db.apply([Drop(UserRow, ("guest",))])
    found = db.load()
    assert (found.permissions, found.topic_permissions) == ([other], [])
    assert len(found.exchanges) == 2


def test_changes_are_applied_together_or_not_at_all(db: DefinitionsDb) -> None:
    db.apply(puts(*ROWS))
    for arguments in (None, "text"):
        bad = ExchangeRow("/", "bad", "topic", False, False, arguments)  # type: ignore[arg-type]
        with pytest.raises(apsw.ConstraintError):
            db.apply([Drop(VhostRow, ("/",)), Put(bad)])
        assert all_rows(db.load()) == ROWS
    db.apply([])
    db.apply([Drop(VhostRow, ("/",))])


def test_many_changes_in_one_go(db: DefinitionsDb) -> None:
    rows = [QueueRow(n, "/", f"q{n}", False, b"") for n in range(1, 3001)]
    db.apply(puts(*rows))
    assert db.load().queues == rows


def test_full_database_raises_no_space_left_and_keeps_what_it_had(db: DefinitionsDb) -> None:
    db.apply(puts(*ROWS))
    usual = db._db.pragma("max_page_count")
    db._db.pragma("max_page_count", db._db.pragma("page_count"))
    with pytest.raises(OSError, match="full") as caught:
        db.apply(puts(QueueRow(50, "/", "large", False, bytes(100_000))))
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(db.path)
    db._db.pragma("max_page_count", usual)
    assert all_rows(db.load()) == ROWS
    db.apply(puts(QueueRow(50, "/", "large", False, bytes(100_000))))
    assert db.load().highest_queue == 50


@contextmanager
def files_cannot_grow(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_disk_that_fails_raises_an_io_error_and_nothing_is_changed(db: DefinitionsDb, path: Path) -> None:
    db.apply(puts(*ROWS))
    large = QueueRow(50, "/", "large", False, bytes(100_000))
    with files_cannot_grow(path.with_name("meta.db-wal").stat().st_size + 10_000):
        with pytest.raises(OSError, match="I/O error") as caught:
            db.apply([Drop(VhostRow, ("/",)), Put(large)])
    assert caught.value.errno == errno.EIO
    assert all_rows(db.load()) == ROWS
    db.apply(puts(large))
    assert large in db.load().queues


def test_database_that_another_holds_raises_busy(db: DefinitionsDb, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    db._db.set_busy_timeout(1)
    with pytest.raises(OSError, match="locked") as caught:
        db.apply(puts(*ROWS))
    assert caught.value.errno == errno.EBUSY
    other.close()
    db.apply(puts(*ROWS))


def test_database_may_be_opened_in_one_thread_and_used_in_another(db: DefinitionsDb) -> None:
    writer = threading.Thread(target=db.apply, args=(puts(*ROWS),))
    writer.start()
    writer.join()
    assert all_rows(db.load()) == ROWS


def test_copy_is_a_database_of_its_own(db: DefinitionsDb, tmp_path: Path) -> None:
    db.apply(puts(*ROWS))
    copy = tmp_path / "copy.db"
    db.copy_to(copy)
    db.apply([Drop(VhostRow, ("/",))])
    assert not list(tmp_path.glob("copy.db-*"))
    assert all_rows(reopened(copy)) == ROWS
    db.copy_to(copy)
    assert all_rows(reopened(copy)) == all_rows(db.load())
    with pytest.raises(OSError, match="nowhere"):
        db.copy_to(tmp_path / "nowhere" / "copy.db")


def test_only_the_owner_may_read_the_files(db: DefinitionsDb, tmp_path: Path) -> None:
    db.apply(puts(*ROWS))
    db.copy_to(tmp_path / "copy.db")
    names = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert names == dict.fromkeys(["meta.db", "meta.db-wal", "meta.db-shm", "copy.db"], 0o600)


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        DefinitionsDb(path)
    return str(caught.value)


def test_database_of_a_newer_leveret_is_refused_and_stays_as_it_is(path: Path) -> None:
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", SCHEMA_VERSION + 1)
    newer.execute("CREATE TABLE surprise (x)")
    newer.close()
    before = path.read_bytes()
    assert refusal(path) == (
        f"{path} was written by a newer Leveret (schema 2, this one reads up to 1): "
        "upgrade Leveret, or restore a backup made by this version"
    )
    assert path.read_bytes() == before


def test_database_of_another_program_is_refused(path: Path) -> None:
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE songs (x)")
    foreign.close()
    assert refusal(path).startswith(f"{path} is the database of another program (schema 0): restore a backup")


@pytest.mark.parametrize("garbage", [b"hello", b"not a database at all" * 1000])
def test_file_that_is_no_database_is_refused(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    remedy = "restore a backup, or set data_dir to another directory"
    assert refusal(path) == f"cannot use {path} (file is not a database): {remedy}"
    assert path.read_bytes() == garbage


def test_damaged_database_is_refused_when_it_is_read(path: Path) -> None:
    db = DefinitionsDb(path)
    db.apply(puts(*(QueueRow(n, "/", f"q{n}", False, bytes(100)) for n in range(1, 500))))
    db.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    db = DefinitionsDb(path)
    with pytest.raises(StoreError, match=r"meta\.db .*malformed.*: restore a backup"):
        db.load()
    db.close()


def test_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    assert "nowhere/meta.db" in refusal(tmp_path / "nowhere" / "meta.db")


def test_file_left_empty_by_a_crash_is_new(path: Path) -> None:
    path.touch()
    db = DefinitionsDb(path)
    assert db.is_new
    db.close()


def test_a_lack_of_file_descriptors_is_told_from_a_failing_disk(db: DefinitionsDb, tmp_path: Path) -> None:
    db.apply(puts(*ROWS))
    with no_descriptors(), pytest.raises(OSError, match="unable to open") as caught, db._disk_errors():
        db._db.execute("ATTACH ? AS other", (str(tmp_path / "other"),))
    assert caught.value.errno == errno.EMFILE
    assert all_rows(db.load()) == ROWS
