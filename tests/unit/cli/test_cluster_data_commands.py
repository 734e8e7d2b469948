"""The commands about members and data directories of a cell, as far as they need no engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from leveret.cli.cluster_group import app
from leveret.store.definitions import Put, VhostRow
from leveret.store.replica import Replica
from leveret.store.replica_note import read_note

runner = CliRunner()


def member(path: Path) -> None:
    replica = Replica(path, "orders")
    replica.open()
    replica.apply([Put(VhostRow("v", None, 1))], [], [], [])
    replica.follow("log1")
    replica.keep(7, 2, 5)
    replica.close()


def test_a_directory_leaves_its_cell_once(tmp_path: Path) -> None:
    member(tmp_path)
    left = runner.invoke(app, ["leave", str(tmp_path)])
    assert left.exit_code == 0, left.output
    assert "has left the cell 'orders' and is the data directory of a single node" in left.output
    assert read_note(tmp_path) is None
    again = runner.invoke(app, ["leave", str(tmp_path)])
    assert again.exit_code == 1
    assert "belongs to no cell" in again.output


def test_a_directory_that_is_not_complete_stays(tmp_path: Path) -> None:
    member(tmp_path)
    (tmp_path / "snapshot.complete").mkdir()
    refused = runner.invoke(app, ["leave", str(tmp_path)])
    assert refused.exit_code == 1
    assert "is not complete: start the node once more" in refused.output
    assert read_note(tmp_path) is not None


@pytest.mark.parametrize("command", [["refound"], ["remove", "a"]])
def test_the_engine_must_be_named(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEVERET_CLUSTER", raising=False)
    refused = runner.invoke(app, command)
    assert refused.exit_code == 2
    assert "use --cluster or --config" in refused.output


@pytest.mark.parametrize("members", ["host", "host:", ":1", "host:port"])
def test_members_are_named_by_host_and_port(members: str) -> None:
    refused = runner.invoke(app, ["refound", "--cluster", "nats://127.0.0.1:1", "--members", members])
    assert refused.exit_code == 2
    assert "write HOST:PORT" in refused.output
