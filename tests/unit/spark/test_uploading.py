"""Rows leave a task in pieces that can be sent again."""

from __future__ import annotations

import pyarrow as pa

from leveret.spark.upload import pieces_of


def batches(*sizes: int) -> list[pa.RecordBatch]:
    start, made = 0, []
    for size in sizes:
        made.append(pa.RecordBatch.from_pydict({"body": pa.array([str(n) for n in range(start, start + size)])}))
        start += size
    return made


def rows_of(piece: memoryview) -> list[str]:
    with pa.ipc.open_stream(piece) as stream:
        return [row["body"] for row in stream.read_all().to_pylist()]


def test_small_batches_share_a_piece() -> None:
    [piece] = pieces_of(iter(batches(3, 0, 2)))
    assert rows_of(piece) == ["0", "1", "2", "3", "4"]


def test_a_full_piece_is_closed_and_each_is_a_whole_stream() -> None:
    pieces = list(pieces_of(iter(batches(2, 2, 1)), most_bytes=1))
    assert [rows_of(piece) for piece in pieces] == [["0", "1"], ["2", "3"], ["4"]]


def test_a_task_without_rows_sends_nothing() -> None:
    assert list(pieces_of(iter(batches(0, 0)))) == []
    assert list(pieces_of(iter([]))) == []


def test_large_types_are_sent_as_plain_ones() -> None:
    large = pa.RecordBatch.from_pydict({"body": pa.array([b"x"], pa.large_binary()), "n": pa.array([1])})
    [piece] = pieces_of(iter([large]))
    with pa.ipc.open_stream(piece) as stream:
        assert stream.schema.types == [pa.binary(), pa.int64()]
