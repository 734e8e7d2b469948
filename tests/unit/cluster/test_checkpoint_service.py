"""Checkpoints that are sent or copied while the leader changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leveret.cluster import checkpoint_copy
from leveret.cluster.checkpoint_copy import CheckpointCopy, CheckpointService
from leveret.cluster.leader_watch import Beat
from leveret.cluster.lease import LeaseHolder
from leveret.cluster.link import Frame, Peer
from leveret.replication.claims import Position


class FakeStore:
    def __init__(self, path: Path) -> None:
        self.path = path

    def newest_checkpoint(self) -> tuple[int, Path]:
        return 7, self.path


class FakeLink:
    def __init__(self) -> None:
        self.frames: list[Frame] = []

    async def send(self, frame: Frame) -> None:
        self.frames.append(frame)

    async def send_bytes(self, data: bytes) -> None:
        pass


def test_a_checkpoint_has_the_epoch_of_its_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members use it in that epoch only. While the file is opened, this node may follow another leader already."""
    path, epochs, link = tmp_path / "checkpoint", [5], FakeLink()
    path.write_bytes(b"index")
    opened = checkpoint_copy._open

    def open_slowly(path: Path) -> Any:
        epochs[0] = 6
        return opened(path)

    monkeypatch.setattr(checkpoint_copy, "_open", open_slowly)
    service = CheckpointService(lambda: FakeStore(path), lambda: epochs[0])  # type: ignore[arg-type,return-value]
    asyncio.run(service.serve(link, {}))  # type: ignore[arg-type]
    assert link.frames == [{}, {"epoch": 5, "following": 7, "size": 5}]


class RecordingCopy(CheckpointCopy):
    copies = 0

    async def _copy(self, standby: object, address: tuple[str, int]) -> tuple[int, int]:
        self.copies += 1
        return 5, 7


def test_a_checkpoint_is_copied_when_the_claim_of_its_leader_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that it would not be taken, and the leader might not write another one for a long time."""

    async def run() -> None:
        standby = SimpleNamespace(position=Position(99, 4, 89))
        watch = SimpleNamespace(beat=Beat(Position(110, 5, 99), checkpoint=7))
        copy = RecordingCopy(Peer("orders", "a", b""), watch, tmp_path)  # type: ignore[arg-type]
        copying = asyncio.create_task(copy.run(standby, lambda: LeaseHolder("b", "life of b", 5)))  # type: ignore[arg-type]
        await turns(20)
        assert copy.copies == 0
        standby.position = Position(100, 5, 89)
        await turns(20)
        assert copy.copies == 1
        copying.cancel()

    monkeypatch.setattr(checkpoint_copy, "LOOK", 0)
    asyncio.run(run())


async def turns(number: int) -> None:
    """Of the event loop."""
    for _ in range(number):
        await asyncio.sleep(0)
