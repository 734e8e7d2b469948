"""A member that follows: checkpoints of the leader are of one epoch, and are used by the member that takes over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from leveret.cluster.cell_stream import read_log
from leveret.cluster.engine import Engine, end
from leveret.cluster.log_append import append_claim
from leveret.cluster.standby import Standby
from leveret.replication.batches import SegmentEnd, encode_batches
from leveret.replication.claims import Candidate
from leveret.store.batch import Batch
from leveret.store.checkpoint import CheckpointWriter, Snapshot, checkpoint_path, checkpoints_on
from leveret.store.files import Files
from leveret.store.replica_checkpoints import cell_lineage
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog, until
from tests.support.nats_servers import NatsServers
from tests.support.virtual_disk import VirtualDisk


def checkpoint_of(following: int, cell: str) -> bytes:
    disk = VirtualDisk()
    CheckpointWriter(disk, cell_lineage(cell)).write(Snapshot(following, 1, 0, is_clean=False))
    return disk.read(checkpoint_path(following), 0, 1 << 20)


def body_of(end: SegmentEnd, segment: int) -> bytes:
    """A batch that begins this segment."""
    batch = Batch(0)
    batch.write(segment, [b""])
    return encode_batches([batch], end)


def test_checkpoints_are_of_one_epoch_and_stay_with_the_member_that_takes_over(
    servers: NatsServers, play: Play, tmp_path: Path
) -> None:
    async def story(cell: CellLog) -> None:
        name, segments = cell.stream.cell, SegmentEnd()
        candidate = Candidate(cell.stream.id, "c", "life of c")
        log = await read_log(await cell.connect(), cell.stream)
        standby = Standby(Engine(cell.options, "c"), log, tmp_path, candidate)
        await standby.open()
        running = asyncio.create_task(standby.run())
        first = await cell.lead("a")
        first.append(body_of(segments, 3), body_of(segments, 4))
        await until(lambda: standby.position.batch == 2)
        assert await standby.install_checkpoint(1, 4, checkpoint_of(4, name))
        assert checkpoints_on(Files(tmp_path)) == [4]

        second = await cell.lead("b")
        second.append(body_of(segments, 5))
        await until(lambda: standby.position.batch == 3)
        assert checkpoints_on(Files(tmp_path)) == []
        assert not await standby.install_checkpoint(1, 5, checkpoint_of(5, name))  # it was on its way
        assert await standby.install_checkpoint(2, 5, checkpoint_of(5, name))

        attempt = candidate.attempt(standby.position, standby.position.epoch)
        assert await append_claim(await cell.connect(), cell.stream, attempt)
        claim = await asyncio.wait_for(standby.won, 30)
        assert not await standby.install_checkpoint(2, 6, checkpoint_of(6, name))
        await end(running)
        await standby.close(claim)
        assert checkpoints_on(Files(tmp_path)) == [5]

    play(servers, story)
