"""The body of a batch: places in segments, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from leveret.errors import ClusterError
from leveret.replication.batches import FIRST_OFFSET, KINDS, SIZE, SegmentEnd, Write, decode_batch, encode_batches
from leveret.store.batch import Batch
from leveret.store.definitions import KEYS, Drop, Put, QueueRow, VhostRow


def batch_of(*writes: tuple[int, list[bytes]]) -> Batch:
    batch = Batch(0)
    for segment, buffers in writes:
        batch.write(segment, buffers)
    return batch


def body_of(table: object, data: bytes = b"") -> bytes:
    packed = msgspec.msgpack.encode(table)
    return SIZE.pack(len(packed)) + packed + data


def test_writes_have_offsets_that_follow_each_other() -> None:
    end = SegmentEnd()
    first = decode_batch(encode_batches([batch_of((4, [b"ab", b"c"]))], end))
    second = decode_batch(encode_batches([batch_of((4, [b"de"]), (5, []), (6, [b"f"]))], end))
    assert first.writes == [Write(4, FIRST_OFFSET, b"abc")]
    assert second.writes == [
        Write(4, FIRST_OFFSET + 3, b"de"),
        Write(5, FIRST_OFFSET, b""),
        Write(6, FIRST_OFFSET, b"f"),
    ]


def test_a_journal_that_returns_to_an_older_segment_is_a_bug() -> None:
    end = SegmentEnd()
    encode_batches([batch_of((4, [b"a"]))], end)
    with pytest.raises(ClusterError, match="segment 3 after segment 4"):
        encode_batches([batch_of((3, [b"a"]))], end)


def test_changes_and_removals_are_kept_in_order() -> None:
    batch = Batch(0)
    batch.changes = [Put(VhostRow("v", None, 5)), Drop(QueueRow, (7,)), Put(QueueRow(8, "v", "q", True, b"\xff"))]
    batch.removals = [3, 1]
    contents = decode_batch(encode_batches([batch], SegmentEnd()))
    assert contents.changes == batch.changes
    assert [type(change.row) for change in contents.changes if isinstance(change, Put)] == [VhostRow, QueueRow]
    assert contents.removals == [3, 1]
    assert contents.trims == []


def test_trims_are_pairs_of_stream_and_offset() -> None:
    contents = decode_batch(encode_batches([batch_of((4, [b"a"]))], SegmentEnd(), {7: 100, 9: 3}.items()))
    assert contents.trims == [(7, 100), (9, 3)]


def test_every_kind_of_definition_has_a_name_in_the_log() -> None:
    assert set(KINDS.values()) == set(KEYS)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        SIZE.pack(100) + b"\x93",
        body_of(([], [], [], [])) + b"rest",
        body_of(([], [(1, FIRST_OFFSET, 5)], [], []), b"four"),
        body_of(([], [(0, FIRST_OFFSET, 0)], [], [])),
        body_of(([], [(1 << 32, FIRST_OFFSET, 0)], [], [])),
        body_of(([], [(1, FIRST_OFFSET - 1, 0)], [], [])),
        body_of(([], [(1, FIRST_OFFSET, 3), (1, FIRST_OFFSET, -3)], [], [])),
        body_of(([(2, "queue", [1])], [], [], [])),
        body_of(([(0, "thing", [1])], [], [], [])),
        body_of(([(0, "queue", [1])], [], [], [])),
        body_of(([(0, "queue", ["1", "/", "q", False, b""])], [], [], [])),
        body_of(([(1, "queue", ["q"])], [], [], [])),
        body_of(([(1, "permission", ["ann"])], [], [], [])),
        body_of(([], [], ["1"], [])),
        body_of(([], [], [])),
        body_of(([], [], [], [(1,)])),
        body_of(([], [], [], [(1, "2")])),
    ],
)
def test_a_body_is_refused_if(body: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        decode_batch(body)
