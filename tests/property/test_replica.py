"""A replica has the leader's journal byte by byte, its definitions and its streams, whatever the leader did and however
often the replica's process was killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from leveret.replication.batches import SegmentEnd, decode_batch, encode_batches
from leveret.store.batch import Batch
from leveret.store.definitions import QueueRow
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.replica import Replica
from tests.support import replicated_streams
from tests.support.broker_harness import BrokerHarness
from tests.support.replicated_streams import StreamLeader, firsts_of, leader_on, leave, messages_of
from tests.support.store_workloads import (
    SMALL,
    Workload,
    deletions,
    fan_out,
    priorities,
    reclaiming,
    restless,
    transactions,
)


class LeaderHarness(BrokerHarness):
    """Keeps what would be in the replicated log."""

    def __init__(self, *, full_size: int) -> None:
        self.bodies: list[bytes] = []
        self._end = SegmentEnd()
        super().__init__(full_size=full_size)

    def submit(self, batch: Batch) -> None:
        super().submit(batch)
        self.bodies.append(encode_batches([batch], self._end))

    def journal_files(self) -> dict[str, bytes]:
        names = [name for name in self.disk.names("journal") if name.endswith(".seg")]
        return {name: self.disk.read(f"journal/{name}", 0, 1 << 30) for name in names}


def follow(path: Path, bodies: list[bytes], chance: Random) -> None:
    """Apply everything, with notes and kills at random places."""
    replica = Replica(path, "c")
    note = replica.open()
    at = note.batch
    while at < len(bodies):
        at += 1
        replica.apply(*decode_batch(bodies[at - 1]))
        what = chance.random()
        if what < 0.2:
            replica.keep(at, 1, at)
        elif what < 0.3:
            replica.close()
            replica = Replica(path, "c")
            at = replica.open().batch
    replica.cut()
    replica.close()


def run_restless(harness: BrokerHarness) -> None:
    restless(harness, seed=5)


@pytest.mark.parametrize("workload", [fan_out, priorities, transactions, deletions, reclaiming, run_restless])
@pytest.mark.parametrize("seed", range(3))
def test_a_replica_has_the_files_and_definitions_of_the_leader(workload: Workload, seed: int, tmp_path: Path) -> None:
    harness = LeaderHarness(full_size=SMALL)
    harness.begin()
    workload(harness)
    harness.rest()
    follow(tmp_path, harness.bodies, Random(seed))
    found = {path.name: path.read_bytes() for path in (tmp_path / "journal").iterdir()}
    assert found == harness.journal_files()
    db = DefinitionsDb(tmp_path / "meta.db")
    rows = db.load()
    db.close()
    assert sorted(rows.queues) == sorted(row for row in harness.disk.rows.values() if isinstance(row, QueueRow))


@pytest.mark.parametrize("seed", range(12))
def test_a_replica_has_the_streams_of_the_leader(seed: int, tmp_path: Path) -> None:
    """Every message with its offset, address and time. Segments that retention removes are removed here too, as soon as
    they are wholly below the leader's first offset."""
    chance = Random(seed)
    leader = StreamLeader(segment_size=8 << 10)
    leader.is_slow = True
    for _ in range(chance.choice((20, 150, 400))):
        leader.act(chance)
    leader.finish()
    replicated_streams.follow(tmp_path, leader.store.bodies, chance)
    theirs, ours = leader.streams(), replicated_streams.replica_streams(tmp_path)
    wanted, found = messages_of(theirs), messages_of(ours)
    assert found.keys() == wanted.keys()
    for id_, messages in wanted.items():
        assert found[id_][-len(messages) :] == messages
        assert [seen.offset for seen in found[id_]] == list(range(ours[id_].first, ours[id_].next))
        assert all(first > theirs[id_].first for first in firsts_of(tmp_path, id_)[1:])


@pytest.mark.parametrize("seed", range(6))
def test_streams_go_on_whichever_member_leads(seed: int, tmp_path: Path) -> None:
    """Leaders are killed with any part of their streams unwritten. No message is lost, and none has another offset."""
    chance = Random(seed)
    paths, bodies = [tmp_path / name for name in "xyz"], []
    for _ in range(6):
        path = chance.choice(paths)
        note = replicated_streams.follow(path, bodies, chance)
        leader = leader_on(path, note.segment)
        leader.is_slow = True
        for _ in range(chance.choice((5, 60))):
            leader.act(chance)
        leave(leader, path)
        bodies += leader.store.bodies
    replicated_streams.follow(tmp_path / "reference", bodies, Random(0))
    wanted = messages_of(replicated_streams.replica_streams(tmp_path / "reference"))
    assert wanted
    for path in paths:
        replicated_streams.follow(path, bodies, chance)
        found = messages_of(replicated_streams.replica_streams(path))
        assert found.keys() == wanted.keys()
        for id_, messages in wanted.items():
            assert [seen.offset for seen in messages] == list(range(messages[0].offset, messages[-1].offset + 1))
            common = min(len(messages), len(found[id_]))
            assert found[id_][-common:] == messages[-common:]
