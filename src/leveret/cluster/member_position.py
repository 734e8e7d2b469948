"""How much of the cell's data a member has: asked over the cluster port when a log is founded again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from leveret.cluster.link import Frame, Link, Peer, open_link
from leveret.cluster.members import Member
from leveret.replication.claims import Position
from leveret.store.replica import journal_end
from leveret.store.replica_note import ReplicaNote, read_note

POSITION = "position"
SECONDS = 5.0


class MemberPosition(msgspec.Struct, frozen=True):
    """``log``: what its data directory belongs to, empty if to none. ``end``: segment and offset of the last byte of
    its journal. ``trouble``: why it cannot follow, if it cannot. ``log_size``: bytes of the log by its settings."""

    member: Member
    log: str = ""
    epoch: int = 0
    batch: int = 0
    end: tuple[int, int] = (0, 0)
    leads: bool = False
    trouble: str = ""
    log_size: int = 0

    @property
    def rank(self) -> tuple[int, tuple[int, int], int]:
        """The highest one has everything that the others have. In one epoch, all journals are beginnings of the
        leader's; its note may be older than its journal, so the journal itself counts first."""
        return self.epoch, self.end, self.batch

    @property
    def is_blank(self) -> bool:
        return not self.log and not self.end[0]


class PositionService:
    def __init__(self, folder: Path, log_size: int, describe: Callable[[], tuple[Member, Position, bool, str]]) -> None:
        """``describe``: this node, how far it has read the log, whether it leads, and why it cannot follow."""
        self._folder = folder
        self._log_size = log_size
        self._describe = describe

    async def serve(self, link: Link, request: Frame) -> None:
        member, position, leads, trouble = self._describe()
        await link.send({})
        note, end = await asyncio.get_running_loop().run_in_executor(None, read_end, self._folder)
        epoch, batch = max(note.epoch, position.epoch), max(note.batch, position.batch)
        found = MemberPosition(member, note.log, epoch, batch, end, leads, trouble, self._log_size)
        await link.send(msgspec.to_builtins(found))


def read_end(folder: Path) -> tuple[ReplicaNote, tuple[int, int]]:
    return read_note(folder) or ReplicaNote(""), journal_end(folder)


async def ask_position(address: tuple[str, int], peer: Peer) -> MemberPosition:
    """Raises ConnectionRefusedError, LinkLost, LinkRefused, TimeoutError, or ValidationError of msgspec."""
    link = await open_link(address, peer, POSITION)
    try:
        async with asyncio.timeout(SECONDS):
            return msgspec.convert(await link.receive(), MemberPosition)
    finally:
        link.close()
