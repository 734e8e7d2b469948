"""Parameters in the definitions: files made before there were any, and what the tools show of them."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from leveret.cli.dump import definition_lines
from leveret.errors import StoreError
from leveret.store.definitions import Definitions, ParameterRow, Put, QueueRow, Row, VhostRow
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.inspection import inspect, read_definitions
from tests.support.synchronous_store import SynchronousStore

POLICY = ParameterRow("/", "policy", "limits", b'{"pattern": "^a", "definition": {"max-length": 5}}')
OLDER_ROWS: list[Row] = [VhostRow("/", None, None), QueueRow(3, "/", "q", False, b"")]


def make_older(path: Path) -> None:
    """As the version before parameters left it: the same file without their table."""
    db = apsw.Connection(str(path))
    db.execute('DROP TABLE "parameters"')
    db.close()


def apply(path: Path, *rows: Row) -> Definitions:
    db = DefinitionsDb(path)
    try:
        db.apply([Put(row) for row in rows])
        return db.load()
    finally:
        db.close()


def test_file_of_the_version_before_keeps_everything_and_takes_parameters(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    apply(path, *OLDER_ROWS)
    make_older(path)
    found = apply(path, POLICY)
    assert (found.vhosts, found.queues) == ([OLDER_ROWS[0]], [OLDER_ROWS[1]])
    assert found.highest_queue == 3
    assert apply(path) == found
    assert found.parameters == [POLICY]


def test_file_with_parameters_still_has_the_number_that_the_version_before_reads(tmp_path: Path) -> None:
    """That version refuses only a higher number; it reads its own tables by name."""
    path = tmp_path / "meta.db"
    apply(path, *OLDER_ROWS, POLICY)
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == 1
    assert list(db.execute('SELECT "name" FROM "queues"')) == [("q",)]
    db.close()


def test_table_that_was_always_there_is_not_made_again_when_it_is_missing(tmp_path: Path) -> None:
    """An empty one in its place would hide that the file is damaged."""
    path = tmp_path / "meta.db"
    apply(path, *OLDER_ROWS)
    db = apsw.Connection(str(path))
    db.execute('DROP TABLE "queues"')
    db.close()
    with pytest.raises(StoreError, match="no such table: queues"):
        apply(path)


def test_check_counts_parameters_and_reads_older_directories_without_changing_them(tmp_path: Path) -> None:
    with SynchronousStore(tmp_path / "data") as kept:
        kept.declare((1, "q"))
    meta = tmp_path / "data" / "meta.db"
    make_older(meta)
    before = meta.read_bytes()
    assert inspect(tmp_path / "data").definitions["parameters"] == 0
    assert meta.read_bytes() == before
    apply(meta, POLICY)
    assert inspect(tmp_path / "data").definitions["parameters"] == 1
    assert read_definitions(tmp_path / "data")[0].parameters == [POLICY]


def lines(*rows: ParameterRow, vhost: str | None = None, queue: str | None = None) -> list[dict[str, object]]:
    found = Definitions([], [], [], [], [], [], [], list(rows), 0)
    return [json.loads(line) for line in definition_lines(found, queue, vhost)]


def test_dump_shows_parameters_with_their_values() -> None:
    value = {"pattern": "^a", "definition": {"max-length": 5}}
    shown = {"kind": "parameter", "vhost": "/", "component": "policy", "name": "limits", "value": value}
    assert lines(POLICY) == [shown]
    assert lines(POLICY, vhost="/") == [shown]
    assert lines(POLICY, vhost="other") == []
    assert lines(POLICY, queue="q") == []


def test_dump_shows_a_value_that_is_no_json_as_bytes() -> None:
    assert lines(ParameterRow("/", "policy", "p", b"{torn"))[0]["value"] == {"base64": "e3Rvcm4="}
