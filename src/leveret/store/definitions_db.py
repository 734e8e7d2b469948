"""The definitions in an SQLite file, ``meta.db``: one table per kind of row, made from the kinds themselves.

Rules of this file:

- All changes of one ``apply`` are one transaction, on disk when it returns. A crash leaves all of them or none.
- A row that is put again keeps its place: tables are read in the order of their hidden row number, which an update does
  not change. Queues are read by id, which only grows.
- The highest id that any queue ever had outlives the queue: SQLite keeps it for an AUTOINCREMENT key.
- A kind of row that came later has no table in an older file, and gets one when that is opened. The schema keeps its
  number: an older Leveret can use the file; it reads its own tables and leaves the others alone.
- SQLite's errors leave here as StoreError (the file cannot be used) or OSError (the disk cannot), never as its own.

Calls may come from different threads, but never two at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import apsw

from leveret.errors import StoreError
from leveret.store.definitions import (
    KEYS,
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
from leveret.store.disk import NO_FILES

SCHEMA_VERSION = 1
BUSY_MILLISECONDS = 250  # only a tool that looks into the file can make us wait
TABLES: dict[type[Row], str] = {  # as the fields of Definitions
    VhostRow: "vhosts",
    UserRow: "users",
    PermissionRow: "permissions",
    TopicPermissionRow: "topic_permissions",
    ExchangeRow: "exchanges",
    QueueRow: "queues",
    BindingRow: "bindings",
    ParameterRow: "parameters",
}
CAME_LATER: tuple[type[Row], ...] = (ParameterRow,)
SQL_TYPES = {str: "TEXT", int: "INTEGER", bool: "INTEGER", bytes: "BLOB"}
# Dropping a row of the first kind drops every row whose field of that name has its key.
OWNED_BY = {VhostRow: "vhost", UserRow: "user"}
# Errors of the disk or the file system; any other error of SQLite is a bug in Leveret.
ERRNOS: dict[type[apsw.Error], int] = {
    apsw.FullError: errno.ENOSPC,
    apsw.IOError: errno.EIO,
    apsw.CorruptError: errno.EIO,
    apsw.NotADBError: errno.EIO,
    apsw.CantOpenError: errno.EIO,
    apsw.ReadOnlyError: errno.EROFS,
    apsw.BusyError: errno.EBUSY,
    apsw.LockedError: errno.EBUSY,
}
RESTORE = "restore a backup, or set data_dir to another directory"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _create(kind: type[Row]) -> str:
    columns = []
    for name, hint in get_type_hints(kind).items():
        types = get_args(hint) or (hint,)
        columns.append(f'"{name}" {SQL_TYPES[types[0]]}{"" if NoneType in types else " NOT NULL"}')
    if kind is QueueRow:
        columns[0] = '"id" INTEGER PRIMARY KEY AUTOINCREMENT'
        columns.append('UNIQUE ("vhost", "name")')
    else:
        columns.append(f"PRIMARY KEY ({_list(KEYS[kind])})")
    return f'CREATE TABLE "{TABLES[kind]}" ({", ".join(columns)}) STRICT'


def _put(kind: type[Row]) -> str:
    marks = ", ".join("?" * len(kind._fields))
    into = f'INTO "{TABLES[kind]}" ({_list(kind._fields)}) VALUES ({marks})'
    if kind is QueueRow:
        # In place of the row with its id, and of any that still has its name: a name has one queue, the latest.
        return f"INSERT OR REPLACE {into}"
    rest = [f'"{name}" = excluded."{name}"' for name in kind._fields if name not in KEYS[kind]]
    action = f"UPDATE SET {', '.join(rest)}" if rest else "NOTHING"
    return f"INSERT {into} ON CONFLICT ({_list(KEYS[kind])}) DO {action}"


def _drops(kind: type[Row]) -> list[str]:
    """Statements that all take the key."""
    where = " AND ".join(f'"{name}" = ?' for name in KEYS[kind])
    owner = OWNED_BY.get(kind)
    owned = [other for other in TABLES if owner in other._fields]
    return [
        f'DELETE FROM "{TABLES[kind]}" WHERE {where}',
        *(f'DELETE FROM "{TABLES[other]}" WHERE "{owner}" = ?' for other in owned),
    ]


PUTS = {kind: _put(kind) for kind in TABLES}
DROPS = {kind: _drops(kind) for kind in TABLES}
# The fields to make bools of again, as SQLite has only numbers.
BOOLS = {kind: [at for at, hint in enumerate(get_type_hints(kind).values()) if hint is bool] for kind in TABLES}


def _sync_log(path: Path) -> None:
    """The log that a killed broker left may be in the system's cache only: sync it before it is used."""
    try:
        handle = os.open(f"{path}-wal", os.O_RDWR | getattr(os, "O_BINARY", 0))
    except OSError:
        return  # there is none
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _connect(path: Path) -> apsw.Connection:
    path.touch(0o600)  # it has the hashes of passwords; what SQLite puts beside it gets the same mode
    _sync_log(path)
    return apsw.Connection(str(path))


class DefinitionsDb:
    def __init__(self, path: Path, *, synced: bool = True) -> None:
        """Open or create the file. Without ``synced`` nothing survives a power cut for sure."""
        self.path = path
        self.is_new = False
        with self._refusals():
            self._db = _connect(path)
        try:
            with self._refusals():
                self._prepare(synced)
        except StoreError:
            self._db.close()
            raise

    def _prepare(self, synced: bool) -> None:
        db = self._db
        db.set_busy_timeout(BUSY_MILLISECONDS)
        self._check_version()  # before anything is written: a newer file stays as it is
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'OFF'}")
        db.execute("PRAGMA foreign_keys = OFF")
        missing = TABLES if self.is_new else [kind for kind in CAME_LATER if not self._has(TABLES[kind])]
        if not missing:
            return
        with self._transaction():
            for kind in missing:
                db.execute(_create(kind))
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _has(self, table: str) -> bool:
        return bool(self._db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).get)

    def _check_version(self) -> None:
        version = self._db.pragma("user_version")
        has_tables = self._db.execute("SELECT count(*) FROM sqlite_schema").get
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} was written by a newer Leveret (schema {version}, this one reads up to "
                f"{SCHEMA_VERSION}): upgrade Leveret, or restore a backup made by this version"
            )
        if version < SCHEMA_VERSION and (version or has_tables):
            raise StoreError(f"{self.path} is the database of another program (schema {version}): {RESTORE}")
        self.is_new = version == 0

    def load(self) -> Definitions:
        rows: dict[str, list[Any]] = {}
        with self._refusals():
            for kind, table in TABLES.items():
                rows[table] = list(self._rows(kind, table))
            highest = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").get
        return Definitions(**rows, highest_queue=highest or 0)

    def _rows(self, kind: type[Row], table: str) -> Iterator[Row]:
        bools = BOOLS[kind]
        for values in self._db.execute(f'SELECT {_list(kind._fields)} FROM "{table}" ORDER BY rowid'):
            fields: list[Any] = list(values)
            for at in bools:
                fields[at] = bool(fields[at])
            yield kind(*fields)

    def apply(self, changes: Sequence[Change]) -> None:
        """All of them in this order and on disk, or none and OSError."""
        if not changes:
            return
        with self._disk_errors(), self._transaction():
            for change in changes:
                if isinstance(change, Put):
                    self._db.execute(PUTS[type(change.row)], change.row)
                else:
                    self._drop(change)

    def _drop(self, change: Drop) -> None:
        for statement in DROPS[change.kind]:
            self._db.execute(statement, change.key)

    def copy_to(self, path: Path) -> None:
        """A copy as of now, while this one stays in use. What was at ``path`` is replaced."""
        with self._disk_errors():
            copy = _connect(path)
            try:
                with copy.backup("main", self._db, "main") as backup:
                    backup.step()
            finally:
                copy.close()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:  # SQLite itself rolls back after some errors
                self._db.execute("ROLLBACK")

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except tuple(ERRNOS) as problem:
            code = ERRNOS[type(problem)]
            if isinstance(problem, apsw.CantOpenError) and self._db.system_errno in NO_FILES:
                code = self._db.system_errno
            raise OSError(code, str(problem), str(self.path)) from problem

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (apsw.Error, OSError) as problem:
            raise StoreError(f"cannot use {self.path} ({problem}): {RESTORE}") from problem
