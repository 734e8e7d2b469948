"""Records of the replicated log: bounds, and what a reader is told about a record it cannot use."""

from __future__ import annotations

import pytest

from leveret.errors import ClusterError
from leveret.replication import records
from leveret.replication.records import (
    BATCH,
    CHECKSUM,
    CLAIM,
    HEAD,
    HEAD_SIZE,
    LAST_PART,
    MAGIC,
    PART_SIZE,
    Head,
    body_of,
    cell_id,
    encode_record,
    read_head,
    split,
)

CELL = cell_id("cell")


def test_a_record_has_its_head_and_body() -> None:
    head = Head(BATCH, LAST_PART, CELL, 7, 9, 2)
    payload = encode_record(head, b"body")
    assert read_head(payload, CELL, 1) == head
    assert bytes(body_of(payload)) == b"body"
    assert len(payload) == HEAD_SIZE + 4


def test_the_format_does_not_change() -> None:
    assert encode_record(Head(CLAIM, 0, 1, 2, 3, 4), b"x").hex() == (
        "4c565252" "01" "01" "0000" "0000000000000001" "0000000000000002" "0000000000000003" "00000004"
        "618299feeac8978e" "78"
    )  # fmt: skip


def test_a_large_batch_is_several_records_of_which_the_last_is_marked() -> None:
    body = bytes(PART_SIZE * 2 + 1)
    parts = list(split(CELL, 1, 5, body))
    assert [(head.batch, head.part, head.is_last) for head, _ in parts] == [(5, 0, False), (5, 1, False), (5, 2, True)]
    assert b"".join(body_of(payload) for _, payload in parts) == body
    assert max(len(payload) for _, payload in parts) == PART_SIZE + HEAD_SIZE


def test_an_empty_batch_is_one_record() -> None:
    assert [head.is_last for head, _ in split(CELL, 1, 1, b"")] == [True]


def test_a_batch_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_PARTS", 2)
    assert len(list(split(CELL, 1, 1, bytes(20), part_size=10))) == 2
    with pytest.raises(ClusterError, match=r"21 bytes does not fit .* publish smaller messages"):
        list(split(CELL, 1, 1, bytes(21), part_size=10))


def test_a_message_of_another_program_is_no_record() -> None:
    assert read_head(b"", CELL, 1) is None
    assert read_head(b"hello", CELL, 1) is None


def test_a_record_of_another_cell_is_refused() -> None:
    payload = encode_record(Head(BATCH, 0, cell_id("other"), 1, 1, 0), b"")
    with pytest.raises(ClusterError, match="another cell"):
        read_head(payload, CELL, 1)


@pytest.mark.parametrize(("version", "kind"), [(2, BATCH), (1, 3)])
def test_a_record_of_a_newer_version_is_refused(version: int, kind: int) -> None:
    packed = HEAD.pack(MAGIC, version, kind, 0, CELL, 1, 1, 0)
    payload = packed + CHECKSUM.pack(records.xxh3_64_intdigest(packed))
    with pytest.raises(ClusterError, match="upgrade this node"):
        read_head(payload, CELL, 1)


def test_a_cut_record_is_damaged() -> None:
    with pytest.raises(ClusterError, match="damaged"):
        read_head(encode_record(Head(BATCH, 0, CELL, 1, 1, 0), b"body")[:-1], CELL, 1)
    with pytest.raises(ClusterError, match="damaged"):
        read_head(MAGIC, CELL, 1)
