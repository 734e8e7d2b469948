"""The files of streams in a data directory that follows another node's journal."""

from __future__ import annotations

from collections.abc import Sequence
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from leveret.errors import StoreError
from leveret.message import PERSISTENT, Address, Message
from leveret.store.definitions import Drop, Put, QueueRow
from leveret.store.files import Files
from leveret.store.log import Placement
from leveret.store.records import END_OF_GROUP, PUBLISH, SEGMENT_HEAD, STOP, publish_body, sealed
from leveret.store.replica import Replica, ReplicaWrite
from leveret.store.stream_files import StreamFiles
from leveret.wire.fields import encode_table
from tests.support.streams import Seen, all_of

HEAD = SEGMENT_HEAD.size
ADDRESS = Address("ex", "key", 1, 131072)
NO_ARGUMENTS = encode_table({})
TIME = 1_700_000_000.000_001


class Leader:
    """Makes the writes of a journal with one segment."""

    def __init__(self) -> None:
        self.offset = HEAD
        self._number = 0

    def write(self, *records: tuple[int, int, int, list[bytes]]) -> ReplicaWrite:
        """Records by kind, flags, place in the group and body."""
        data, begun = b"", self.offset
        for kind, flags, place, body in records:
            self._number += 1
            data += b"".join(sealed(kind, flags, place, self._number, body, 1, begun + len(data)))
        self.offset += len(data)
        return 1, begun, data

    def publish(self, *places: tuple[int, int], contents: Sequence[bytes], time: float = TIME) -> ReplicaWrite:
        """Places are queue and sequence."""
        return self.write((PUBLISH, END_OF_GROUP, 0, body_of(*places, contents=contents, time=time)))


def body_of(*places: tuple[int, int], contents: Sequence[bytes], time: float = TIME) -> list[bytes]:
    messages: list[Message] = [(content, ADDRESS, PERSISTENT) for content in contents]
    placed = [Placement(queue, 0, sequence, len(contents)) for queue, sequence in places]
    return publish_body(messages, placed, time, 0.0)


def stream_row(id_: int, **arguments: object) -> QueueRow:
    return QueueRow(id_, "/", f"s{id_}", False, encode_table({"x-queue-type": "stream", **arguments}))


def replica_with(path: Path, *rows: QueueRow) -> Replica:
    replica = Replica(path, "c")
    replica.open()
    replica.apply([Put(row) for row in rows], [], [], [])
    return replica


def apply(replica: Replica, *writes: ReplicaWrite, trims: Sequence[tuple[int, int]] = ()) -> None:
    replica.apply([], writes, [], trims)


def files_of(path: Path, id_: int) -> StreamFiles:
    files = StreamFiles(Files(path), id_, 1 << 20)
    files.open()
    return files


def contents_of(path: Path, id_: int) -> list[tuple[int, bytes]]:
    return [(seen.offset, seen.content) for seen in all_of(files_of(path, id_))]


def seen(offset: int, content: bytes, time: int) -> Seen:
    return Seen(offset, content, "ex", "key", time)


def test_messages_are_written_with_their_offsets_addresses_and_times(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7))
    apply(replica, leader.publish((7, 1), contents=[b"a", b"b"]))
    apply(replica, leader.publish((7, 3), contents=[b"c"], time=1_700_000_005.25))
    replica.close()
    first = 1_700_000_000_000_001
    assert all_of(files_of(tmp_path, 7)) == [
        seen(0, b"a", first),
        seen(1, b"b", first),
        seen(2, b"c", 1_700_000_005_250_000),
    ]


def test_messages_of_other_queues_are_not_written(tmp_path: Path) -> None:
    named_stream = QueueRow(9, "/", "not one", False, encode_table({"x-dead-letter-exchange": "stream"}))
    leader = Leader()
    replica = replica_with(
        tmp_path, stream_row(7), stream_row(8), QueueRow(6, "/", "q", False, NO_ARGUMENTS), named_stream
    )
    apply(replica, leader.publish((6, 1), (7, 1), (8, 1), contents=[b"fan", b"out"]))
    apply(replica, leader.publish((6, 3), (9, 1), contents=[b"classic"]))
    replica.close()
    assert contents_of(tmp_path, 7) == contents_of(tmp_path, 8) == [(0, b"fan"), (1, b"out")]
    assert sorted(path.name for path in (tmp_path / "streams").iterdir()) == ["7", "8"]


def test_a_group_counts_as_a_whole(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7), stream_row(8))
    one, two = body_of((7, 1), contents=[b"one"]), body_of((8, 1), contents=[b"two"])
    apply(replica, leader.write((PUBLISH, 0, 0, one), (PUBLISH, END_OF_GROUP, 1, two), (STOP, END_OF_GROUP, 0, [b""])))
    replica.close()
    assert (contents_of(tmp_path, 7), contents_of(tmp_path, 8)) == ([(0, b"one")], [(0, b"two")])


@pytest.mark.parametrize(
    ("flags", "place", "damage", "reason"),
    [
        (0, 0, b"", "a group without its end"),
        (END_OF_GROUP, 1, b"", "a group of which a part is missing"),
        (END_OF_GROUP, 0, b"\0", "not the head of a record"),
    ],
)
def test_a_batch_that_is_not_whole_is_refused(
    tmp_path: Path, flags: int, place: int, damage: bytes, reason: str
) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7))
    segment, offset, data = leader.write((PUBLISH, flags, place, body_of((7, 1), contents=[b"a"])))
    with pytest.raises(StoreError, match=rf"at {HEAD} of segment 1 \({reason}"):
        apply(replica, (segment, offset, damage + bytes(data)[len(damage) :]))
    replica.close()
    assert contents_of(tmp_path, 7) == []


def test_applying_again_has_no_effect(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7))
    writes = [leader.publish((7, n), contents=[b"%d" % n]) for n in range(1, 6)]
    apply(replica, writes[0])
    replica.keep(1, 1, 1)
    apply(replica, *writes[1:4])
    replica.close()
    again = replica_with(tmp_path)
    apply(again, *writes[1:])
    again.close()
    assert contents_of(tmp_path, 7) == [(n - 1, b"%d" % n) for n in range(1, 6)]


def test_a_copy_by_reclaim_has_no_effect(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7))
    apply(replica, leader.publish((7, 1), contents=[b"a", b"b", b"c"]))
    apply(replica, leader.publish((7, 2), contents=[b"b"]), leader.publish((7, 4), contents=[b"d"]))
    replica.close()
    assert contents_of(tmp_path, 7) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_files_are_synced_before_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7))
    apply(replica, leader.publish((7, 1), contents=[b"a"]))
    note = replica.keep(1, 1, 1)
    apply(replica, leader.publish((7, 2), contents=[b"b"]))
    monkeypatch.setattr(StreamFiles, "sync", fail)
    with pytest.raises(OSError, match="sync failed"):
        replica.keep(2, 1, 2)
    monkeypatch.undo()
    replica.close()
    again = Replica(tmp_path, "c")
    assert again.open() == note
    again.close()


def fail(files: StreamFiles) -> None:
    raise OSError(EIO, "sync failed")


def test_a_closed_directory_is_opened_without_reading_the_messages(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7))
    apply(replica, leader.publish((7, 1), contents=[b"a"]))
    replica.close()
    assert (tmp_path / "streams" / "7" / f"{0:020d}.idx").exists()


def test_segments_have_the_size_that_the_stream_has_declared(tmp_path: Path) -> None:
    leader = Leader()
    small = {"x-stream-max-segment-size-bytes": 4096}
    replica = replica_with(tmp_path, stream_row(7, **small), stream_row(8))
    for n in range(10):
        apply(replica, leader.publish((7, n + 1), (8, n + 1), contents=[bytes(1000)]))
    replica.close()
    assert (files_of(tmp_path, 7).segments, files_of(tmp_path, 8).segments) == (3, 1)


def test_retention_removes_segments_that_are_wholly_below_the_offset(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7, **{"x-stream-max-segment-size-bytes": 4096}))
    for n in range(12):
        apply(replica, leader.publish((7, n + 1), contents=[bytes(1000)]), trims=[(7, n)] if n in (3, 9) else [])
        if n == 3:
            assert files_of(tmp_path, 7).first == 0  # the segment has message 3
    replica.close()
    files = files_of(tmp_path, 7)
    assert (files.first, files.next) == (8, 12)


def test_retention_after_a_restart(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7, **{"x-stream-max-segment-size-bytes": 4096}))
    for n in range(12):
        apply(replica, leader.publish((7, n + 1), contents=[bytes(1000)]))
    replica.keep(1, 1, 1)
    replica.close()
    again = replica_with(tmp_path)
    apply(again, trims=[(7, 11), (99, 5)])  # stream 99 was deleted
    again.close()
    assert files_of(tmp_path, 7).first == 8


def test_the_files_of_a_deleted_stream_are_removed(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7), stream_row(8), stream_row(9))
    apply(replica, leader.publish((7, 1), (8, 1), (9, 1), contents=[b"a"]))
    replica.apply([Drop(QueueRow, (7,)), Drop(QueueRow, (1,))], [leader.publish((7, 2), contents=[b"b"])], [], [])
    assert sorted(path.name for path in (tmp_path / "streams").iterdir()) == ["8", "9"]
    replica.keep(1, 1, 1)
    replica.close()
    again = replica_with(tmp_path)
    again.apply([Drop(QueueRow, (8,))], [], [], [])  # not opened since the restart
    again.close()
    assert [path.name for path in (tmp_path / "streams").iterdir()] == ["9"]


def test_files_that_a_crash_left_of_a_deleted_stream_are_removed(tmp_path: Path) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7), stream_row(8))
    apply(replica, leader.publish((7, 1), (8, 1), contents=[b"a"]))
    replica.keep(1, 1, 1)
    replica._db.apply([Drop(QueueRow, (7,))])  # and no further
    replica.close()
    replica_with(tmp_path).close()
    assert [path.name for path in (tmp_path / "streams").iterdir()] == ["8"]


def test_a_failed_write_is_reported_and_the_rest_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, replica = Leader(), replica_with(tmp_path, stream_row(7), stream_row(8))
    apply(replica, leader.publish((7, 1), (8, 1), contents=[b"a"]))
    replica.keep(1, 1, 1)
    second = leader.publish((7, 2), (8, 2), contents=[b"b"])

    def full(self: Files, handle: int, buffers: Sequence[bytes]) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Files, "append", full)
    with pytest.raises(OSError, match="No space left"):
        apply(replica, second)
    monkeypatch.undo()
    monkeypatch.setattr(StreamFiles, "close", fail)
    with pytest.raises(OSError, match="sync failed"):
        replica.close()
    monkeypatch.undo()
    again = replica_with(tmp_path)  # the lock was released
    apply(again, second)
    again.close()
    assert contents_of(tmp_path, 7) == contents_of(tmp_path, 8) == [(0, b"a"), (1, b"b")]
