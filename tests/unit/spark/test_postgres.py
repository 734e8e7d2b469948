"""Batches in PostgreSQL: rows replace those with their key, a repeated batch changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from leveret.errors import ConfigError
from leveret.spark.errors import OldCheckpoint
from leveret.spark.tables.postgres import DatabaseError, Postgres, Target, checked_conninfo
from tests.support.postgres_server import PASSWORD, PostgresServer

ODD = 'odd "name"; --'  # an identifier that does harm unless it is quoted


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


def written(server: PostgresServer, target: Target) -> Postgres:
    database = Postgres(server.conninfo, PASSWORD, target)
    database.prepare()
    return database


def row(id_: int, text: str | None, offset: int, version: int | None = 0) -> tuple[str | None, ...]:
    return str(id_), text, None if version is None else str(version), "2031-05-01T12:00:00Z", str(offset)


def test_the_newest_row_of_a_key_stays_and_a_repeated_batch_changes_nothing(server: PostgresServer) -> None:
    target = Target("orders", {"id": "bigint", ODD: "text", "version": "integer"}, ("id",))
    database = written(server, target)
    assert database.write([row(1, "a", 0), row(1, "b\t\\N\n", 2), row(2, None, 1)], "query", 0) == (3, 2)
    unread = iter([row(9, "never", 0)])
    assert database.write(unread, "query", 0) == (0, 0)
    assert next(unread)
    assert database.write([row(1, "c", 3)], "query", 4) == (1, 1)
    with pytest.raises(OldCheckpoint, match="batch 3 was not written: table orders has batches of this query up to 4"):
        database.write([row(1, "old", 3)], "query", 3)
    assert database.write([row(3, "other", 0)], "another query", 0) == (1, 1)
    assert server.rows("SELECT * FROM orders ORDER BY id") == [(1, "c", 0), (2, None, 0), (3, "other", 0)]
    assert server.rows("SELECT transaction, batch FROM leveret_batches ORDER BY 1") == [
        ("another query", 0),
        ("query", 4),
    ]
    # A field is added to the schema: the table gets a column, other rows have null there.
    wider = replace(target, columns=target.columns | {"extra": "jsonb"})
    wide = ("3", "x", "1", '{"a": [1]}', "2031-05-01T12:00:00Z", "9")
    assert written(server, wider).write([wide], "query", 5) == (1, 1)
    assert server.rows("SELECT id, extra FROM orders ORDER BY id") == [(1, None), (2, None), (3, {"a": [1]})]


def test_a_version_decides_whatever_the_order_of_arrival(server: PostgresServer) -> None:
    server.rows("CREATE SCHEMA shop")
    target = Target("shop.versions", {"id": "bigint", "text": "text", "version": "integer"}, ("id",), "version")
    database = written(server, target)
    assert database.write([row(1, "v2", 0, 2), row(1, "v1", 1, 1), row(1, "none", 2, None)], "query", 0) == (3, 1)
    assert database.write([row(1, "v1 again", 2, 1), row(2, "v7", 3, 7)], "query", 1) == (2, 1)
    assert database.write([row(1, "v2 again", 4, 2), row(2, "none", 5, None)], "query", 2) == (2, 1)
    assert server.rows("SELECT * FROM shop.versions ORDER BY id") == [(1, "v2 again", 2), (2, "v7", 7)]
    assert server.rows("SELECT batch FROM shop.leveret_batches") == [(2,)]


def test_a_batch_that_fails_leaves_nothing(server: PostgresServer) -> None:
    target = Target("strict", {"id": "bigint", "text": "text", "version": "integer"}, ("id",))
    database = written(server, target)
    with pytest.raises(DatabaseError, match='table strict: invalid input syntax for type bigint: "one"'):
        database.write([row(1, "a", 0), ("one", "b", "0", "2031-05-01T12:00:00Z", "1")], "failing", 0)
    assert server.rows("SELECT * FROM strict") == []
    assert server.rows("SELECT * FROM leveret_batches WHERE transaction = 'failing'") == []
    assert database.write([row(1, "a", 0)], "failing", 0) == (1, 1)


def test_two_drivers_of_one_query_write_a_batch_once(server: PostgresServer) -> None:
    """The second waits for the first, and finds its batch done, or does it if the first rolled back."""
    target = Target("contested", {"id": "bigint", "text": "text", "version": "integer"}, ("id",))
    database = written(server, target)

    def rows() -> Iterator[tuple[str | None, ...]]:
        yield row(1, "first", 0)
        with psycopg.connect(server.conninfo, password=PASSWORD, options="-c lock_timeout=100") as other:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("INSERT INTO leveret_batches AS old VALUES ('two', 0) ON CONFLICT DO NOTHING")

    assert database.write(rows(), "two", 0) == (1, 1)
    assert database.write([row(1, "second", 0)], "two", 0) == (0, 0)
    assert server.rows("SELECT text FROM contested") == [("first",)]


def test_what_would_fail_later_is_refused_at_the_start(server: PostgresServer) -> None:
    server.rows("CREATE TABLE loose (id bigint, text text)")
    with pytest.raises(DatabaseError, match=r"table loose: .*create a unique index on the columns of --key"):
        written(server, Target("loose", {"id": "bigint", "text": "text"}, ("id",)))
    with pytest.raises(DatabaseError, match='schema "nowhere" does not exist'):
        written(server, Target("nowhere.orders", {"id": "bigint"}, ("id",)))
    with pytest.raises(DatabaseError, match="password authentication failed") as refused:
        Postgres(server.conninfo, "wrong word", Target("orders", {"id": "bigint"}, ("id",))).prepare()
    assert "wrong word" not in str(refused.value)


def test_a_password_in_the_address_is_refused_without_being_shown() -> None:
    for address in (
        "jdbc:postgresql://u:hidden@db/shop",
        "host=db password=hidden",
        "postgresql://db/?password=hidden",
    ):
        with pytest.raises(ConfigError, match="--database has a password") as refused:
            checked_conninfo(address)
        assert "hidden" not in str(refused.value)
    assert checked_conninfo("jdbc:postgresql://db:5433/shop?user=u") == "postgresql://db:5433/shop?user=u"
    with pytest.raises(ConfigError, match="--database: write postgresql://host/name"):
        checked_conninfo("mysql://db")
