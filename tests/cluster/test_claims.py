"""Claims of a node that are stored late: it leads with one of them, and does not depose itself by another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leveret.cluster import cell_member
from leveret.cluster.cell_member import CellMember, Identity
from leveret.cluster.cell_stream import read_log
from leveret.cluster.engine import Engine
from leveret.cluster.log_append import append_claim
from leveret.cluster.standby import Standby
from leveret.replication.claims import Candidate
from leveret.replication.journal_replicator import JournalReplicator
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog, until
from tests.support.nats_servers import NatsServers


class NoBroker:
    """Writes nothing."""

    checkpoint = 0

    def take_checkpoint(self) -> bool:
        return False

    async def start(self, replicator: JournalReplicator) -> None: ...

    async def stop(self) -> None: ...

    def pause(self, reason: str) -> None: ...

    def resume(self, until: float) -> None: ...


def test_a_node_whose_claims_are_read_late_claims_once(
    servers: NatsServers, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_member, "CLAIM_SECONDS", 0.0)  # none is read in time
    monkeypatch.setattr(cell_member, "CLAIM_TRIES", 1)

    async def story(cell: CellLog) -> None:
        member = CellMember(Engine(cell.options, "a"), cell.stream, tmp_path, Identity("a", "life"), NoBroker)
        running = asyncio.create_task(member.run())
        await until(member.leads.is_set)
        reader = cell.member("reader")
        await until(lambda: reader.is_caught_up)
        member.stop()
        await running
        assert reader.tail.reader.position.epoch == 1

    play(servers, story)


def test_a_claim_that_another_one_follows_is_over(servers: NatsServers, play: Play, tmp_path: Path) -> None:
    """The node follows the other leader, and applies its batches."""

    async def story(cell: CellLog) -> None:
        connection, candidate = await cell.connect(), Candidate(cell.stream.id, "a", "life")
        standby = Standby(Engine(cell.options, "a"), await read_log(connection, cell.stream), tmp_path, candidate)
        await standby.open()
        following = asyncio.create_task(standby.run())
        await until(lambda: standby.is_caught_up)
        await append_claim(connection, cell.stream, candidate.attempt(standby.position, 0))
        await until(standby.won.done)
        leader = await cell.lead("b")
        await until(lambda: standby.position.epoch == leader.window.epoch)
        assert not standby.won.done()
        following.cancel()
        await asyncio.wait((following,))
        await standby.close(None)

    play(servers, story)
