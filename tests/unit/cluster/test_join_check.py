"""What `leveret cluster join` and a node check before they use the engine, and what the command prints."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leveret.cli.cluster_join import describe, serve_command
from leveret.cluster.join_check import JoinFacts, check_leader
from leveret.cluster.members import Member
from leveret.cluster_node import ClusterNode
from leveret.config import Settings
from leveret.errors import ClusterError
from leveret.store.replica_note import ReplicaNote, write_note

MEMBERS = (Member("a", "a.example", 25672, "1", "1.0"), Member("b", "b.example", 25672, "2", "1.0"))


def settings(data_dir: Path | None = None, node_name: str = "c") -> Settings:
    return Settings(cluster=("nats://127.0.0.1:1",), cell="main", node_name=node_name, data_dir=data_dir)


def test_a_node_refuses_the_data_directory_of_another_cell_before_it_uses_the_engine(tmp_path: Path) -> None:
    write_note(tmp_path, ReplicaNote("other"))
    with pytest.raises(ClusterError, match=r"belongs to the cell 'other', not to 'main'.*--data-dir"):
        asyncio.run(ClusterNode(settings(tmp_path), environ={}).start())


def test_members_that_are_not_reachable_are_named() -> None:
    cell = JoinFacts(True, (), "a", MEMBERS, {"b": "no process listens there"})
    lines = describe(settings(), cell)
    assert lines[1] == "cell 'main': 2 node(s), node 'a' leads"
    assert lines[2].endswith("a.example:25672  reachable")
    assert lines[3].endswith("not reachable: no process listens there")
    assert describe(settings(node_name="a"), cell)[2].endswith("is running: choose another --node-name")
    assert describe(settings(node_name="b"), cell)[3].endswith("not running: replaced by this node")
    check_leader(settings(), cell)


def test_a_cell_without_a_reachable_leader_cannot_be_joined() -> None:
    with pytest.raises(ClusterError, match="has no leader"):
        check_leader(settings(), JoinFacts(True, (), "", MEMBERS))
    with pytest.raises(ClusterError, match=r"leader 'a' is not reachable.*firewall"):
        check_leader(settings(), JoinFacts(True, (), "a", MEMBERS, {"a": "no answer"}))
    check_leader(settings(), JoinFacts(exists=False))


def test_the_command_has_the_flags_that_were_given() -> None:
    flags = {"cell": "main", "node_name": None, "data_dir": "/a b"}
    assert serve_command(Path("x.toml"), flags) == "leveret serve --config x.toml --cell main --data-dir '/a b'"
