"""Which log a data directory belongs to, and whether it may follow the one that the engine has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leveret.cluster.cell_stream import LOG, CellStream, Founding, LogFacts, facts_of
from leveret.cluster.engine import Engine, EngineOptions
from leveret.cluster.log_faults import OtherLog, SnapshotNeeded
from leveret.cluster.log_tail import check_log
from leveret.cluster.standby import Standby
from leveret.errors import StoreError
from leveret.replication.claims import Candidate, Claim
from leveret.store.records import SEGMENT_HEAD
from leveret.store.replica import Replica
from leveret.store.replica_note import ReplicaNote, read_note, write_note

STREAM = CellStream("c", "log2")
EMPTY = LogFacts(STREAM, 1, 0, Founding())
USED = LogFacts(STREAM, 1, 20, Founding())
FOUNDED_AGAIN = Founding(("log0", "log1"), "a", 7)


def open_standby(folder: Path, log: LogFacts, node: str = "a", *claims: Claim) -> tuple[ReplicaNote | None, bool]:
    """The note of the directory, and whether the log begins with it."""

    async def run() -> tuple[ReplicaNote | None, bool]:
        standby = Standby(Engine(EngineOptions(("nats://127.0.0.1:1",)), node), log, folder, Candidate(1, node, "life"))
        try:
            await standby.open()
            for claim in claims:
                await standby.claimed(claim)
            return read_note(folder), standby.has_base
        finally:
            await standby.close(None)

    return asyncio.run(run())


def member_of(folder: Path, log: str, sequence: int = 10) -> None:
    """A data directory that has followed a log."""
    replica = Replica(folder, "c")
    replica.open()
    replica.apply([], [(1, SEGMENT_HEAD.size, b"one")], [], [])
    replica.follow(log)
    replica.keep(sequence, 3, 5)
    replica.close()


def single_node(folder: Path) -> None:
    """A data directory with a journal, that belongs to no cell."""
    member_of(folder, "")
    (folder / "replica").unlink()


def test_each_configuration_has_a_log_id_and_a_subject_of_its_own() -> None:
    one, two = (CellStream.of("c").configuration(3, 64 << 20) for _ in range(2))
    assert one["metadata"][LOG] != two["metadata"][LOG]
    assert one["subjects"] == [CellStream("c", one["metadata"][LOG]).subject] != two["subjects"]


def test_the_founding_is_read_from_the_metadata() -> None:
    configuration = CellStream.of("c").configuration(3, 64 << 20, FOUNDED_AGAIN)
    found = facts_of("c", {"config": configuration, "state": {"first_seq": 3, "last_seq": 9}})
    assert found == LogFacts(CellStream("c", configuration["metadata"][LOG]), 3, 9, FOUNDED_AGAIN)
    assert found.continues("log0")
    assert not found.continues("log2")


def test_a_stream_of_an_earlier_version_has_no_id() -> None:
    found = facts_of("c", {"config": {}, "state": {"first_seq": 1, "last_seq": 0}})
    assert found == LogFacts(CellStream("c"), 1, 0, Founding())
    assert found.is_empty


def test_a_directory_follows_its_log(tmp_path: Path) -> None:
    member_of(tmp_path, "log2")
    note, has_base = open_standby(tmp_path, USED)
    assert note == ReplicaNote("c", 10, 3, 5, 1, SEGMENT_HEAD.size + 3, "log2")
    assert not has_base


def test_notes_without_an_id_are_accepted_and_get_one(tmp_path: Path) -> None:
    member_of(tmp_path, "")
    note, _ = open_standby(tmp_path, USED, "a", Claim(4, 11, 6, "b", "b1"))
    assert note is not None
    assert note.log == "log2"


def test_another_log_is_not_followed(tmp_path: Path) -> None:
    member_of(tmp_path, "log1")
    with pytest.raises(OtherLog, match="belongs to log1"):
        open_standby(tmp_path, EMPTY)
    with pytest.raises(OtherLog, match="leveret cluster refound"):
        open_standby(tmp_path, USED)
    assert read_note(tmp_path) == ReplicaNote("c", 10, 3, 5, 1, SEGMENT_HEAD.size + 3, "log1")


def test_a_log_that_lacks_records_is_not_followed(tmp_path: Path) -> None:
    member_of(tmp_path, "log2", 21)
    with pytest.raises(OtherLog, match="ends at record 20"):
        open_standby(tmp_path, USED)
    with pytest.raises(OtherLog, match="follows log1"):
        check_log(USED, CellStream("c", "log1"), 5)


def test_a_directory_behind_the_ring_needs_a_snapshot(tmp_path: Path) -> None:
    member_of(tmp_path, "log2")
    with pytest.raises(SnapshotNeeded, match="records 11 to 11"):
        open_standby(tmp_path, USED._replace(first=12))
    open_standby(tmp_path, USED._replace(first=11))


def test_an_empty_directory_needs_a_snapshot_if_the_log_has_a_base(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNeeded, match="data of node b"):
        open_standby(tmp_path, USED, "a", Claim(1, 1, 1, "b", "b1", has_base=True))
    with pytest.raises(SnapshotNeeded):
        open_standby(tmp_path, USED._replace(first=2))
    open_standby(tmp_path, USED, "a", Claim(1, 1, 1, "b", "b1"))


def test_a_single_node_founds_an_empty_log_with_its_data(tmp_path: Path) -> None:
    single_node(tmp_path)
    note, has_base = open_standby(tmp_path, EMPTY)
    assert note == ReplicaNote("c", 0, 0, 0, 1, SEGMENT_HEAD.size + 3, "log2", is_base=True)
    assert has_base
    assert open_standby(tmp_path, EMPTY) == (note, True)  # ended before its claim
    _, has_base = open_standby(tmp_path, USED, "a", Claim(1, 1, 1, "a", "a0", has_base=True))  # or after it
    assert not has_base


def test_of_two_nodes_with_data_the_second_is_refused(tmp_path: Path) -> None:
    single_node(tmp_path)
    with pytest.raises(StoreError, match="node b has founded the cell"):
        open_standby(tmp_path, EMPTY, "a", Claim(1, 1, 1, "b", "b1", has_base=True))
    assert read_note(tmp_path) is None  # a single node may use it again
    with pytest.raises(StoreError, match="the cell has begun already"):
        open_standby(tmp_path, USED)


def test_the_founder_of_a_log_that_continues_keeps_all_of_its_journal(tmp_path: Path) -> None:
    member_of(tmp_path, "log1")
    with (tmp_path / "journal" / "0000000001.seg").open("ab") as segment:
        segment.write(b"written as the leader and not noted")
    size = (tmp_path / "journal" / "0000000001.seg").stat().st_size
    note, has_base = open_standby(tmp_path, EMPTY._replace(founding=FOUNDED_AGAIN))
    assert note == ReplicaNote("c", 0, 7, 0, 1, size, "log2", is_base=True)
    assert has_base


def test_other_members_of_the_former_log_need_a_snapshot(tmp_path: Path) -> None:
    member_of(tmp_path, "log0")
    with pytest.raises(SnapshotNeeded, match="founded again, its log is log2"):
        open_standby(tmp_path, EMPTY._replace(founding=FOUNDED_AGAIN), "b")


def test_an_empty_node_waits_for_the_founder(tmp_path: Path) -> None:
    async def may_claim(log: LogFacts) -> bool:
        standby = Standby(Engine(EngineOptions(("nats://127.0.0.1:1",)), "b"), log, tmp_path, Candidate(1, "b", "b1"))
        await standby.open()
        assert standby._tail is not None
        standby._tail.behind = 0
        await standby.close(None)
        return standby.may_claim

    assert asyncio.run(may_claim(EMPTY))
    assert not asyncio.run(may_claim(EMPTY._replace(founding=FOUNDED_AGAIN)))


def test_a_note_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    write_note(tmp_path, ReplicaNote("c", 1, 2, 3, 4, 5))
    text = (tmp_path / "replica").read_text()
    (tmp_path / "replica").write_text(text.replace(',"log":"","is_base":false', ""))
    assert read_note(tmp_path) == ReplicaNote("c", 1, 2, 3, 4, 5)
