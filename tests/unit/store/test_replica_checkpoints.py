"""Checkpoints of the leader in a data directory that follows its journal."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path

import pytest

from leveret.message import PERSISTENT, Address, Message
from leveret.store.checkpoint import CheckpointWriter, Snapshot, checkpoint_path, checkpoints_on, load_newest
from leveret.store.data_dir import read_lineage
from leveret.store.files import Files
from leveret.store.lane_log import LaneLog
from leveret.store.log import Placement
from leveret.store.records import END_OF_GROUP, PUBLISH, SEGMENT_HEAD, publish_body, sealed, segment_head
from leveret.store.recovery import recover
from leveret.store.replica import Replica, ReplicaWrite
from leveret.store.replica_checkpoints import NEW, cell_lineage
from leveret.store.segments import Segment
from tests.support.virtual_disk import VirtualDisk

HEAD = SEGMENT_HEAD.size


def checkpoint_of(following: int, cell: str = "c") -> bytes:
    """As its writer makes it; without lanes."""
    disk = VirtualDisk()
    CheckpointWriter(disk, cell_lineage(cell)).write(Snapshot(following, 1, 0, is_clean=False))
    return disk.read(checkpoint_path(following), 0, 1 << 20)


def replica_of(path: Path) -> Replica:
    """With the batches up to segment 4, in leader epoch 2."""
    replica = Replica(path, "c")
    replica.open()
    apply(replica, (3, HEAD, b"three"), (4, HEAD, b"four"))
    replica.claimed(2)
    replica.keep(1, 2, 1)
    return replica


def apply(replica: Replica, *writes: ReplicaWrite) -> None:
    replica.apply([], writes, [], [])


def found(path: Path) -> list[int]:
    return checkpoints_on(Files(path))


def test_a_checkpoint_of_the_leader_is_installed(tmp_path: Path) -> None:
    replica = replica_of(tmp_path / "data")
    assert replica.install_checkpoint(2, 4, checkpoint_of(4))
    assert found(tmp_path / "data") == [4]
    file = tmp_path / "fetched"
    file.write_bytes(checkpoint_of(5))
    apply(replica, (5, HEAD, b""))
    assert replica.install_checkpoint(2, 5, file)
    assert found(tmp_path / "data") == [5]
    assert (tmp_path / "data" / checkpoint_path(5)).read_bytes() == file.read_bytes()
    replica.close()


def test_it_is_used_when_the_log_has_what_it_covers(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    assert replica.install_checkpoint(2, 6, checkpoint_of(6))
    apply(replica, (5, HEAD, b"five"))
    assert found(tmp_path) == []
    apply(replica, (6, HEAD, b""))
    assert found(tmp_path) == [6]
    replica.close()


def test_a_newer_one_takes_the_place_of_one_that_waits(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    assert replica.install_checkpoint(2, 5, checkpoint_of(5))
    assert replica.install_checkpoint(2, 6, checkpoint_of(6))
    assert not replica.install_checkpoint(2, 5, checkpoint_of(5))
    apply(replica, (5, HEAD, b""), (6, HEAD, b""))
    assert found(tmp_path) == [6]
    assert not replica.install_checkpoint(2, 6, checkpoint_of(6))
    replica.close()


def test_one_of_another_epoch_is_refused(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    for epoch in (1, 3):
        assert not replica.install_checkpoint(epoch, 4, checkpoint_of(4))
    assert found(tmp_path) == []
    replica.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        checkpoint_of(4)[:-1],
        checkpoint_of(4) + b"x",
        b"x" + checkpoint_of(4)[1:],
        checkpoint_of(5),
        checkpoint_of(4, "another cell"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, data: bytes) -> None:
    replica = replica_of(tmp_path)
    assert not replica.install_checkpoint(2, 4, data)
    assert sorted(path.name for path in (tmp_path / "journal").iterdir()) == ["0000000003.seg", "0000000004.seg"]
    assert replica.install_checkpoint(2, 4, checkpoint_of(4))
    replica.close()


def test_all_are_removed_when_another_node_leads(tmp_path: Path) -> None:
    """The new leader may have started without them, and may use another copy of a message."""
    replica = replica_of(tmp_path)
    replica.install_checkpoint(2, 4, checkpoint_of(4))
    replica.install_checkpoint(2, 5, checkpoint_of(5))
    replica.claimed(3)
    apply(replica, (5, HEAD, b""))
    assert found(tmp_path) == []
    assert not (tmp_path / NEW).exists()
    assert replica.install_checkpoint(3, 5, checkpoint_of(5))
    replica.close()


def test_they_stay_over_a_restart_in_one_epoch(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    replica.install_checkpoint(2, 4, checkpoint_of(4))
    replica.install_checkpoint(2, 5, checkpoint_of(5))
    replica.close()
    again = Replica(tmp_path, "c")
    again.open()
    assert found(tmp_path) == [4]
    assert not (tmp_path / NEW).exists()  # it is fetched again
    assert again.install_checkpoint(2, 5, checkpoint_of(5))
    again.cut()
    again.close()
    assert found(tmp_path) == [4]
    assert not (tmp_path / NEW).exists()


def test_those_from_before_the_cell_are_removed(tmp_path: Path) -> None:
    """Or from a version of Leveret that does not know checkpoints: it does not keep the lineage."""
    replica_of(tmp_path).close()
    (tmp_path / checkpoint_path(4)).write_bytes(checkpoint_of(4))
    (tmp_path / "lock").write_bytes(b"123\n")
    replica_of_again = Replica(tmp_path, "c")
    replica_of_again.open()
    replica_of_again.close()
    assert found(tmp_path) == []
    assert read_lineage(tmp_path) == cell_lineage("c")


def test_a_former_leader_removes_what_covers_more_than_the_log_has(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    for following in (4, 5, 6):
        (tmp_path / checkpoint_path(following)).write_bytes(checkpoint_of(following))
    replica.cut()
    replica.close()
    assert found(tmp_path) == [5, 4]  # the recovery compares segment 4


def test_a_full_disk_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = replica_of(tmp_path)
    replica.install_checkpoint(2, 4, checkpoint_of(4))
    apply(replica, (5, HEAD, b""))

    def full(self: Files, handle: int, buffers: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Files, "append", full)
    assert not replica.install_checkpoint(2, 5, checkpoint_of(5))
    monkeypatch.undo()
    assert found(tmp_path) == [4]
    assert not (tmp_path / NEW).exists()
    assert replica.install_checkpoint(2, 5, checkpoint_of(5))
    replica.close()


QUEUE = 7


def record_of(segment: int, number: int) -> bytes:
    """The same message, wherever."""
    messages: list[Message] = [(b"message", Address("", "q", 1, 131072), PERSISTENT)]
    body = publish_body(messages, [Placement(QUEUE, 0, 1, 1)], 0.0, 0.0)
    return b"".join(sealed(PUBLISH, END_OF_GROUP, 0, number, body, segment, HEAD))


def copied_on() -> bytes:
    """The checkpoint of a leader that has copied the message from segment 1 to segment 2, and not removed 1 yet."""
    disk = VirtualDisk()
    disk.put("journal/0000000002.seg", segment_head(2) + record_of(2, 2))
    found = recover(disk, {QUEUE}, 1 << 20, repair=False)
    disk.put("journal/0000000001.seg", segment_head(1) + record_of(1, 1))
    snapshot = Snapshot(3, 3, QUEUE, is_clean=False)
    snapshot.segments = [Segment(1), found.segments[2]]
    for key, lane in found.lanes.items():
        log = LaneLog()
        log.index, log.tail = lane.index, lane.tail
        log.freeze(1)
        assert log.frozen is not None
        snapshot.lanes.append((key, log.frozen))
    CheckpointWriter(disk, cell_lineage("c")).write(snapshot)
    return disk.content(checkpoint_path(3))


@pytest.mark.parametrize("is_claimed", [True, False])
def test_the_checkpoint_of_a_former_leader_would_lose_a_message(tmp_path: Path, is_claimed: bool) -> None:
    """The next leader reads the whole journal, uses the older copy, and removes the newer one."""
    replica = Replica(tmp_path, "c")
    replica.open()
    apply(replica, (1, HEAD, record_of(1, 1)), (2, HEAD, record_of(2, 2)), (3, HEAD, b""))
    assert replica.install_checkpoint(0, 3, copied_on())
    if is_claimed:
        replica.claimed(1)
    replica.apply([], [(4, HEAD, b"")], [2], [])
    replica.close()
    recovered = recover(Files(tmp_path), {QUEUE}, 1 << 20, repair=False, lineage=cell_lineage("c"))
    assert (recovered.checkpoint is None) == is_claimed
    assert [lane.number() for lane in recovered.lanes.values()] == [1 if is_claimed else 0]


def test_the_newest_one_stays_in_memory_until_another_node_leads(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    assert replica.loaded is None
    replica.install_checkpoint(2, 4, checkpoint_of(4))
    assert replica.loaded is not None
    assert replica.loaded.following == 4
    replica.install_checkpoint(2, 5, checkpoint_of(5))  # not before the log has its segments
    assert replica.loaded.following == 4
    apply(replica, (5, HEAD, b""))
    assert replica.loaded.following == 5
    replica.claimed(3)
    assert replica.loaded is None
    replica.close()


def test_a_store_uses_the_checkpoint_in_memory_and_not_another(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    replica.install_checkpoint(2, 4, checkpoint_of(4))
    loaded = replica.loaded
    replica.close()
    disk = Files(tmp_path)
    lineage = read_lineage(tmp_path)
    assert load_newest(disk, (), lineage, loaded) is loaded
    newer = VirtualDisk()
    newer.put(checkpoint_path(5), checkpoint_of(5))
    found = load_newest(newer, (), lineage, loaded)
    assert found is not None
    assert found.following == 5
