"""Batches pass through the replicated log unchanged, in parts of any size, and any other bytes are refused."""

from __future__ import annotations

from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.errors import ClusterError
from leveret.replication.batches import FIRST_OFFSET, KINDS, SegmentEnd, decode_batch, encode_batches
from leveret.replication.claims import Position
from leveret.replication.log_reader import Completed, LogReader
from leveret.replication.records import CLAIM, Head, cell_id, encode_record, read_head, split
from leveret.store.batch import Batch
from leveret.store.definitions import KEYS, Drop, Put, Row

CELL = cell_id("cell")
VALUES = {str: st.text(max_size=8), int: st.integers(0, 2**63 - 1), bool: st.booleans(), bytes: st.binary(max_size=8)}


def values(hint: object) -> st.SearchStrategy[object]:
    return VALUES[hint] if hint in VALUES else st.none() | VALUES[int if hint == int | None else str]


def rows(kind: type[Row]) -> st.SearchStrategy[Row]:
    return st.builds(kind, *(values(hint) for hint in get_type_hints(kind).values()))


def drops(kind: type[Row]) -> st.SearchStrategy[Drop]:
    hints = get_type_hints(kind)
    return st.builds(Drop, st.just(kind), st.tuples(*(values(hints[name]) for name in KEYS[kind])))


CHANGES = st.one_of([st.builds(Put, rows(kind)) for kind in KINDS.values()] + [drops(kind) for kind in KINDS.values()])
WRITES = st.lists(st.tuples(st.integers(0, 2), st.lists(st.binary(max_size=20), max_size=3)), max_size=5)


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Batches of one run of a journal, whose segments only go up."""
    made, segment = [], 1
    for _ in range(draw(st.integers(1, 4))):
        batch = Batch(0)
        batch.changes = draw(st.lists(CHANGES, max_size=4))
        for more, buffers in draw(WRITES):
            segment += more
            batch.write(segment, list(buffers))
        batch.removals = draw(st.lists(st.integers(1, 9), max_size=3))
        made.append(batch)
    return made


def files_of(made: list[Batch]) -> dict[int, bytes]:
    files: dict[int, bytes] = {}
    for batch in made:
        for segment, buffers in batch.writes:
            files[segment] = files.get(segment, b"") + b"".join(buffers)
    return files


@given(batches(), st.integers(1, 40))
def test_a_member_gets_the_same_changes_bytes_and_removals(made: list[Batch], part_size: int) -> None:
    end, reader = SegmentEnd(), LogReader(CELL, Position())
    reader.read(1, encode_record(Head(CLAIM, 0, CELL, 1, 1, 0), b"\x93\xa1a\xa1b\xc2"))
    sequence, got, files = 1, [], {}
    for number, batch in enumerate(made, 1):
        for _, payload in split(CELL, 1, number, encode_batches([batch], end), part_size):
            sequence += 1
            event = reader.read(sequence, payload)
            if isinstance(event, Completed):
                got.append(decode_batch(event.body))
    assert [contents.changes for contents in got] == [batch.changes for batch in made]
    assert [contents.removals for contents in got] == [batch.removals for batch in made]
    for contents in got:
        for segment, offset, data in contents.writes:
            file = files.setdefault(segment, b"")
            assert offset == FIRST_OFFSET + len(file)
            files[segment] = file + bytes(data)
    assert files == files_of(made)


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    try:
        contents = decode_batch(data)
    except ClusterError:
        return
    assert sum(len(write.data) for write in contents.writes) <= len(data)


@pytest.mark.fuzz
@given(batches(), st.data())
def test_a_damaged_record_is_never_read_as_another(made: list[Batch], data: st.DataObject) -> None:
    head = Head(2, 1, CELL, 3, 4, 0)
    payload = bytearray(encode_record(head, encode_batches([made[0]], SegmentEnd())))
    payload[data.draw(st.integers(4, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ClusterError, match="record 9 of the replicated log is damaged"):
        read_head(bytes(payload), CELL, 9)


@pytest.mark.fuzz
@given(st.binary(max_size=80), st.booleans())
def test_any_record_is_foreign_or_refused(data: bytes, has_mark: bool) -> None:
    payload = b"LVRR" + data if has_mark else data
    try:
        assert read_head(payload, CELL, 1) is None
        assert payload[:4] != b"LVRR"
    except ClusterError:
        assert payload[:4] == b"LVRR"
