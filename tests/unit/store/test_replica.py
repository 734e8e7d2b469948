"""A data directory that follows another node's journal."""

from __future__ import annotations

import os
from errno import ENOSPC
from pathlib import Path

import pytest

from leveret.clock import FrozenClock
from leveret.errors import StoreError
from leveret.store.definitions import Drop, Put, VhostRow
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.records import SEGMENT_HEAD, segment_head
from leveret.store.replica import Replica, ReplicaWrite, journal_end
from leveret.store.replica_note import NAME, ReplicaNote, read_note, write_note
from leveret.store.store import Store

HEAD = SEGMENT_HEAD.size


def replica_of(path: Path) -> Replica:
    replica = Replica(path, "c")
    replica.open()
    return replica


def apply(replica: Replica, *writes: ReplicaWrite, removals: tuple[int, ...] = ()) -> None:
    replica.apply([], writes, removals, [])


def segments(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted((path / "journal").iterdir())}


def test_segments_have_the_same_bytes(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    apply(replica, (3, HEAD, b"one"), (3, HEAD + 3, b"two"))
    apply(replica, (4, HEAD, b""))
    apply(replica, (4, HEAD, b"three"))
    replica.close()
    assert segments(tmp_path) == {
        "0000000003.seg": segment_head(3) + b"onetwo",
        "0000000004.seg": segment_head(4) + b"three",
    }


def test_definitions_change_and_segments_are_removed(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    replica.apply(
        [Put(VhostRow("v", None, 1)), Put(VhostRow("w", None, 2))], [(1, HEAD, b"a"), (2, HEAD, b"b")], [], []
    )
    replica.apply([Drop(VhostRow, ("v",))], [], [1], [])
    replica.close()
    assert segments(tmp_path).keys() == {"0000000002.seg"}
    db = DefinitionsDb(tmp_path / "meta.db")
    assert db.load().vhosts == [VhostRow("w", None, 2)]
    db.close()


@pytest.mark.parametrize("write", [(1, HEAD + 2, b"x"), (1, HEAD, b"x"), (2, HEAD + 1, b"x"), (0, HEAD, b"x")])
def test_a_write_that_does_not_follow_the_last_one_is_refused(tmp_path: Path, write: ReplicaWrite) -> None:
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    with pytest.raises(StoreError, match=rf"ends at {HEAD + 1} of segment 1"):
        apply(replica, write)
    replica.close()


def test_a_note_is_the_position_after_a_restart(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    note = replica.keep(20, 3, 7)
    assert note == ReplicaNote("c", 20, 3, 7, 1, HEAD + 1)
    apply(replica, (1, HEAD + 1, b"b"))
    replica.close()  # or a crash: the directory is ahead of its note
    again = Replica(tmp_path, "c")
    assert again.open() == note
    apply(again, (1, HEAD + 1, b"b"), (2, HEAD, b"c"))
    again.close()
    assert segments(tmp_path) == {"0000000001.seg": segment_head(1) + b"ab", "0000000002.seg": segment_head(2) + b"c"}


def test_what_was_never_granted_is_overwritten_or_cut_off(tmp_path: Path) -> None:
    """A former leader has written more than the log has."""
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    replica.keep(1, 1, 1)
    apply(replica, (1, HEAD + 1, b"never granted"), (2, HEAD, b"nor this"), (3, HEAD, b"nor that"))
    replica.close()
    again = replica_of(tmp_path)
    apply(again, (1, HEAD + 1, b"b"), (2, HEAD, b"c"))
    assert (
        segments(tmp_path)["0000000003.seg"] == segment_head(3) + b"nor that"
    )  # until another claim, or until this node leads
    again.cut()
    again.close()
    assert segments(tmp_path) == {"0000000001.seg": segment_head(1) + b"ab", "0000000002.seg": segment_head(2) + b"c"}


def test_what_was_never_granted_is_removed_when_another_node_leads(tmp_path: Path) -> None:
    """A new log begins with the longest journal. Segments that no log has must not make one longer."""
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    replica.keep(1, 1, 1)
    apply(replica, (1, HEAD + 1, b"never granted"), (2, HEAD, b"nor this"), (3, HEAD, b"nor that"))
    replica.close()
    again = replica_of(tmp_path)
    again.claimed(2)
    assert journal_end(tmp_path) == (1, HEAD + 1)
    apply(again, (2, HEAD, b"c"))
    again.close()
    assert segments(tmp_path) == {"0000000001.seg": segment_head(1) + b"a", "0000000002.seg": segment_head(2) + b"c"}


def test_nothing_is_applied_or_noted_after_a_batch_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tail may have lost its connection meanwhile, and reads on without the error of that batch."""

    def fails(*arguments: object) -> None:
        raise OSError(ENOSPC, "no space")

    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    with monkeypatch.context() as patches:
        patches.setattr(DefinitionsDb, "apply", fails)
        with pytest.raises(OSError, match="no space"):
            replica.apply([Put(VhostRow("v", None, 1))], [], [], [])
    calls = (lambda: apply(replica, (1, HEAD + 1, b"b")), lambda: replica.keep(3, 1, 3), replica.cut)
    for call in (*calls, lambda: replica.claimed(2)):
        with pytest.raises(StoreError, match="could not be applied"):
            call()
    replica.close()
    again = replica_of(tmp_path)
    apply(again, (1, HEAD, b"a"))
    again.close()


def test_cutting_keeps_what_was_applied_before_a_restart(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"abc"))
    replica.keep(1, 1, 1)
    replica.close()
    again = replica_of(tmp_path)
    again.cut()
    again.close()
    assert segments(tmp_path) == {"0000000001.seg": segment_head(1) + b"abc"}


def test_a_segment_that_is_gone_can_be_applied_again(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    replica.keep(1, 1, 1)
    later: list[ReplicaWrite] = [(1, HEAD + 1, b"b"), (2, HEAD, b"c")]
    apply(replica, *later, removals=(1,))
    replica.close()
    again = replica_of(tmp_path)
    apply(again, *later, removals=(1,))
    again.cut()
    again.close()
    assert segments(tmp_path) == {"0000000002.seg": segment_head(2) + b"c"}


def test_a_directory_of_another_cell_is_refused(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    replica.keep(1, 1, 1)
    replica.close()
    with pytest.raises(StoreError, match="belongs to the cell 'c', not to 'd'"):
        Replica(tmp_path, "d").open()
    replica_of(tmp_path).close()  # the lock was released


def test_a_directory_that_was_in_no_cell_is_refused(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    apply(replica, (1, HEAD, b"a"))
    replica.close()
    (tmp_path / NAME).unlink()
    with pytest.raises(StoreError, match="of a node that was in no cell"):
        Replica(tmp_path, "c").open()


def test_a_member_that_is_killed_before_its_first_note_begins_again(tmp_path: Path) -> None:
    replica_of(tmp_path).close()
    replica = replica_of(tmp_path)
    replica.apply([Put(VhostRow("v", None, 1))], [(1, HEAD, b"a")], [], [])
    replica.close()
    again = Replica(tmp_path, "c")
    assert again.open() == ReplicaNote("c")
    again.apply([Put(VhostRow("v", None, 1))], [(1, HEAD, b"a")], [], [])
    again.close()
    assert segments(tmp_path) == {"0000000001.seg": segment_head(1) + b"a"}


def test_a_directory_is_used_by_one_process(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    with pytest.raises(StoreError, match="in use"):
        Replica(tmp_path, "c").open()
    replica.close()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version": 1}', b'{"version": 1, "cell": 5}', b"[]"])
def test_a_note_that_cannot_be_read_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(StoreError, match="replica cannot be read"):
        read_note(tmp_path)


def test_a_note_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"version": 2, "cell": "c", "place": 1}')
    with pytest.raises(StoreError, match="upgrade Leveret"):
        read_note(tmp_path)


def test_a_note_replaces_the_one_before(tmp_path: Path) -> None:
    assert read_note(tmp_path) is None
    for number in (1, 2):
        note = ReplicaNote("c", number, 2, 3, 4, 5)
        write_note(tmp_path, note)
        assert read_note(tmp_path) == note
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_a_note_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system call may write a part, such as when the disk is nearly full."""
    write, left = os.write, [1 << 20]

    def write_a_part(handle: int, data: bytes | memoryview) -> int:
        if left[0] <= 0:
            raise OSError(ENOSPC, "no space")
        left[0] -= 10
        return write(handle, data[:10])

    monkeypatch.setattr(os, "write", write_a_part)
    first = ReplicaNote("c", 1, 2, 3, 4, 5)
    write_note(tmp_path, first)
    assert read_note(tmp_path) == first
    left[0] = 40
    with pytest.raises(OSError, match="no space"):
        write_note(tmp_path, ReplicaNote("c", 2, 2, 3, 4, 5))
    assert read_note(tmp_path) == first


def test_a_broker_outside_of_the_cell_does_not_use_the_directory(tmp_path: Path) -> None:
    replica = replica_of(tmp_path)
    replica.keep(1, 1, 1)
    replica.close()
    store = Store(tmp_path, segment_size=1 << 20, synced=False, clock=FrozenClock())
    with pytest.raises(StoreError, match="belongs to a cell"):
        store.open()
    replica_of(tmp_path).close()  # the lock was released


class NoLog:
    """A replicator that is never started."""

    accepts_damage = False


def test_a_leader_does_not_begin_a_segment_that_the_log_has_had(tmp_path: Path) -> None:
    """The newest one may be gone: the first batch of a leader may remove it, before one that begins another."""
    replica = replica_of(tmp_path)
    apply(replica, (3, HEAD, b""), (4, HEAD, b""), removals=(4,))
    replica.cut()
    replica.keep(1, 1, 1)
    replica.close()
    store = Store(tmp_path, segment_size=1 << 20, synced=False, clock=FrozenClock())
    store.replicator = NoLog()  # type: ignore[assignment]
    assert store.open().recovered.next_segment == 5
    store.close()
