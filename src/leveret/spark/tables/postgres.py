"""A PostgreSQL table that is written batch by batch: rows replace those with the same key.

A batch is one transaction. Its rows are copied to a temporary table and merged from there, and the number of the batch
is written to the table ``leveret_batches``. A batch that is repeated finds its number there and changes nothing.

Values are copied as text: PostgreSQL converts them, so no value passes through Python's types and time zones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from leveret.errors import ConfigError, LeveretError
from leveret.spark.written import refuse_old_batch

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise ConfigError("PostgreSQL needs the package psycopg: pip install 'leveret[jdbc]'") from missing

BATCHES = "leveret_batches"
STAGED_NAME = "leveret_batch"
STAGED = sql.Identifier("pg_temp", STAGED_NAME)
ARRIVED, OFFSET = "leveret arrived", "leveret offset"  # with a space: no field of a schema in DDL has one by accident
Value = str | None


class DatabaseError(LeveretError):
    """The database refused a statement or a connection. The text has its message."""


@dataclass(frozen=True)
class Target:
    """The table and its columns with their types; ``newest_by`` decides which of two rows with one key is kept."""

    table: str
    columns: dict[str, str]
    key: tuple[str, ...]
    newest_by: str | None = None

    def identifier(self) -> sql.Identifier:
        return sql.Identifier(*self.table.split("."))

    def batches(self) -> sql.Identifier:
        """In the schema of the table."""
        return sql.Identifier(*self.table.split(".")[:-1], BATCHES)

    def staged_columns(self) -> dict[str, str]:
        return self.columns | {ARRIVED: "timestamptz", OFFSET: "bigint"}


class Postgres:
    """One connection for each call: between two batches there may be hours."""

    def __init__(self, conninfo: str, password: str | None, target: Target) -> None:
        self._conninfo = checked_conninfo(conninfo)
        self._password = password
        self._target = target

    def prepare(self) -> None:
        """Create the table or add missing columns, then merge no rows: this finds a missing index or permission."""
        target = self._target
        with self._connection() as connection:
            known = self._known_columns(connection)
            if not known:
                connection.execute(created(target))
            for name in target.columns if known else ():
                if name not in known:
                    connection.execute(
                        sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}").format(
                            target.identifier(), sql.Identifier(name), type_name(target.columns[name])
                        )
                    )
            if not _exists(connection, target.batches()):
                connection.execute(
                    sql.SQL(
                        "CREATE TABLE IF NOT EXISTS {} (transaction text PRIMARY KEY, batch bigint NOT NULL, "
                        "committed timestamptz NOT NULL DEFAULT now())"
                    ).format(target.batches())
                )
            connection.execute(staged(target))
            connection.execute(merged(target))

    def write(self, rows: Iterable[Sequence[Value]], transaction: str, batch: int) -> tuple[int, int]:
        """Merge the rows of a batch; returns how many were copied, and how many of these were merged.

        The others have the key of a newer row. ``rows`` is not read if the batch was committed before: it is the last
        one of its transaction then. Raises OldCheckpoint if there are later ones.
        """
        target = self._target
        with self._connection() as connection, connection.cursor() as cursor:
            if not self._begin(cursor, transaction, batch):
                refuse_old_batch(batch, self._last_batch(cursor, transaction), f"table {target.table}")
                return 0, 0
            cursor.execute(staged(target))
            copied = 0
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(STAGED)) as copy:
                for row in rows:
                    copy.write_row(row)
                    copied += 1
            cursor.execute(merged(target))
            return copied, cursor.rowcount

    def _begin(self, cursor: psycopg.Cursor[tuple[str]], transaction: str, batch: int) -> bool:
        """Note the batch. The row is locked until the end of the transaction, so two drivers wait for each other."""
        batches = self._target.batches()
        note = sql.SQL("INSERT INTO {} AS old VALUES (%s, %s) ON CONFLICT (transaction) DO UPDATE ").format(batches)
        note += sql.SQL("SET batch = EXCLUDED.batch, committed = now() WHERE old.batch < EXCLUDED.batch")
        cursor.execute(note, [transaction, batch])
        return cursor.rowcount == 1

    def _last_batch(self, cursor: psycopg.Cursor[tuple[str]], transaction: str) -> int:
        cursor.execute(
            sql.SQL("SELECT batch FROM {} WHERE transaction = %s").format(self._target.batches()), [transaction]
        )
        [(last,)] = cursor.fetchall()
        return int(last)

    def _known_columns(self, connection: psycopg.Connection[tuple[str]]) -> set[str]:
        found = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [self._target.identifier().as_string(connection)],
        )
        return {name for (name,) in found.fetchall()}

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[tuple[str]]]:
        """Committed at the end, or rolled back by an error."""
        try:
            with psycopg.connect(self._conninfo, password=self._password) as connection:
                yield connection
        except psycopg.Error as problem:
            raise DatabaseError(f"PostgreSQL, table {self._target.table}: {_text(problem)}") from problem


def checked_conninfo(text: str) -> str:
    """The same without ``jdbc:``. A password is refused: command lines are visible to other users."""
    conninfo = text.removeprefix("jdbc:")
    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise ConfigError(
            "--database: write postgresql://host/name or 'host=... dbname=... user=...', without a password"
        ) from None
    if parts.get("password"):
        raise ConfigError(
            "--database has a password, which other users can see: remove it, and use --database-credentials-file, "
            "PGPASSWORD or PGPASSFILE"
        )
    return conninfo


def created(target: Target) -> sql.Composed:
    columns = [_column(name, kind) for name, kind in target.columns.items()]
    key = sql.SQL("PRIMARY KEY ({})").format(_names(target.key))
    return sql.SQL("CREATE TABLE {} ({})").format(target.identifier(), sql.SQL(", ").join([*columns, key]))


def staged(target: Target) -> sql.Composed:
    columns = [_column(name, kind) for name, kind in target.staged_columns().items()]
    joined = sql.SQL(", ").join(columns)
    return sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(sql.Identifier(STAGED_NAME), joined)


def merged(target: Target) -> sql.Composed:
    """Of the rows with one key the newest is kept: by ``newest_by`` if there is one, then by arrival."""
    newest = [sql.Identifier(name) for name in (target.newest_by, ARRIVED, OFFSET) if name is not None]
    order = [_names(target.key), *(sql.SQL("{} DESC NULLS LAST").format(name) for name in newest)]
    statement = sql.SQL(
        "INSERT INTO {table} AS old ({names}) "
        "SELECT {names} FROM (SELECT DISTINCT ON ({key}) * FROM {staged} ORDER BY {order}) AS newest "
        "ON CONFLICT ({key}) DO {action}"
    )
    return statement.format(
        table=target.identifier(),
        names=_names(target.columns),
        key=_names(target.key),
        staged=STAGED,
        order=sql.SQL(", ").join(order),
        action=_action(target),
    )


def _action(target: Target) -> sql.Composable:
    others = [name for name in target.columns if name not in target.key]
    if not others:
        return sql.SQL("NOTHING")
    changes = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
    action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(changes))
    if target.newest_by is None:
        return action
    newer = sql.SQL(" WHERE old.{0} IS NULL OR EXCLUDED.{0} >= old.{0}")
    return action + newer.format(sql.Identifier(target.newest_by))


def _names(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _column(name: str, kind: str) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(name), type_name(kind))


def type_name(kind: str) -> sql.SQL:
    """``kind`` is one of our own type names, never text of the user."""
    return sql.SQL(kind)


def _exists(connection: psycopg.Connection[tuple[str]], table: sql.Identifier) -> bool:
    [(found,)] = connection.execute("SELECT to_regclass(%s)", [table.as_string(connection)]).fetchall()
    return found is not None


def _text(problem: psycopg.Error) -> str:
    remedy = ""
    if isinstance(problem, psycopg.errors.InvalidColumnReference):
        remedy = ": create a unique index on the columns of --key"
    return " ".join(str(problem).split()) + remedy
