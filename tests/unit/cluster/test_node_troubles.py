"""A node of a cell that cannot follow its log."""

from __future__ import annotations

import asyncio
import sqlite3
from errno import ENOSPC
from pathlib import Path

import pytest

from leveret import cluster_node
from leveret.cluster_node import ClusterNode
from leveret.config import Settings
from leveret.errors import ClusterError, ConfigError


class FailingMember:
    """Fails once, and runs until it is stopped afterwards."""

    def __init__(self, problem: Exception | None) -> None:
        self.problem = problem
        self.runs, self.is_stopping = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        problem, self.problem = self.problem, None
        if problem is not None:
            raise problem
        self.runs.set()
        await self.is_stopping.wait()


@pytest.mark.parametrize(
    "problem",
    [
        ClusterError("the log is gone"),
        ConfigError("the port is in use"),
        OSError(ENOSPC, "no space"),
        sqlite3.OperationalError("database or disk is full"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_a_node_that_was_ready_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    """Whatever the reason: it would stay without following and without a word otherwise."""
    monkeypatch.setattr(cluster_node, "TRY_AGAIN", 0.01)

    async def story() -> None:
        node, member = ClusterNode(Settings(data_dir=tmp_path, cluster=("nats://s1:4222",))), FailingMember(problem)
        node._was_ready = True
        running = asyncio.create_task(node._run(member))  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            await member.runs.wait()
        node._stopping.set()
        member.is_stopping.set()
        await running

    asyncio.run(story())


class BusyPorts:
    """A relay whose ports are used by another process at first."""

    def __init__(self) -> None:
        self.attempts = 0

    async def listen(self, ports: object) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise ConfigError("the port is in use")


def test_a_node_opens_its_client_ports_as_soon_as_they_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_node, "TRY_AGAIN", 0.01)

    async def story() -> None:
        node, member = ClusterNode(Settings(data_dir=tmp_path, cluster=("nats://s1:4222",))), FailingMember(None)
        node._was_ready = True
        ports = node._relay = BusyPorts()  # type: ignore[assignment]
        running = asyncio.create_task(node._run(member))  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            await member.runs.wait()
        assert ports.attempts == 2  # type: ignore[attr-defined]
        node._stopping.set()
        member.is_stopping.set()
        await running

    asyncio.run(story())


def test_a_node_that_cannot_start_ends(tmp_path: Path) -> None:
    async def story() -> None:
        node = ClusterNode(Settings(data_dir=tmp_path, cluster=("nats://s1:4222",)))
        with pytest.raises(OSError, match="no space"):
            await node._run(FailingMember(OSError(ENOSPC, "no space")))  # type: ignore[arg-type]

    asyncio.run(story())
