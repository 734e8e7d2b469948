"""Which records count, and where a reader stops."""

from __future__ import annotations

import pytest

from leveret.errors import ClusterError
from leveret.replication.claims import Candidate, Claim, ClaimAttempt, Position, StaleProof
from leveret.replication.log_reader import Completed, LogReader
from leveret.replication.records import BATCH, CLAIM, LAST_PART, Head, cell_id, encode_record

CELL = cell_id("cell")
NOTHING = Position()


def claim(epoch: int, batch: int, life: str = "a1") -> bytes:
    return Candidate(CELL, life[0], life).attempt(Position(0, epoch - 1, batch - 1), epoch - 1).payload


def record(epoch: int, batch: int, part: int = 0, last: bool = True, body: bytes = b"body") -> bytes:
    return encode_record(Head(BATCH, LAST_PART if last else 0, CELL, epoch, batch, part), body)


def read(*payloads: bytes, position: Position = NOTHING) -> tuple[LogReader, list[Claim | Completed | None]]:
    reader = LogReader(CELL, position)
    return reader, [reader.read(position.sequence + place, payload) for place, payload in enumerate(payloads, 1)]


def test_a_claim_and_its_batches_count() -> None:
    reader, events = read(claim(1, 1), record(1, 1), record(1, 2, body=b"two"))
    assert events == [
        Claim(1, 1, 1, "a", "a1"),
        Completed(Position(2, 1, 1), b"body"),
        Completed(Position(3, 1, 2), b"two"),
    ]
    assert reader.position == Position(3, 1, 2)
    assert reader.leader == events[0]


def test_parts_make_a_batch() -> None:
    _, events = read(claim(1, 1), record(1, 1, 0, False, b"on"), record(1, 1, 1, True, b"e"))
    assert events[1:] == [None, Completed(Position(3, 1, 1), b"one")]


@pytest.mark.parametrize(
    "payload",
    [record(1, 2), record(2, 3), record(2, 1), record(2, 2, 1), claim(2, 2), claim(1, 2), b"stray"],
    ids=["old epoch", "later batch", "earlier batch", "later part", "same epoch", "older claim", "stray"],
)
def test_void_is(payload: bytes) -> None:
    reader, events = read(claim(1, 1), record(1, 1), claim(2, 2, "b1"), payload, record(2, 2))
    assert events[3:] == [None, Completed(Position(5, 2, 2), b"body")]
    assert reader.voids == 1


def test_a_batch_without_its_end_is_dropped_at_the_next_claim() -> None:
    _, events = read(claim(1, 1), record(1, 1, 0, False), claim(2, 1, "b1"), record(1, 1, 1), record(2, 1, body=b"new"))
    assert events[3:] == [None, Completed(Position(5, 2, 1), b"new")]


def test_a_record_that_was_read_is_ignored() -> None:
    reader, _ = read(claim(1, 1), record(1, 1))
    assert reader.read(2, record(1, 2)) is None
    assert reader.position == Position(2, 1, 1)


def test_a_reader_continues_at_its_position() -> None:
    _, events = read(record(3, 8), position=Position(20, 3, 7))
    assert events == [Completed(Position(21, 3, 8), b"body")]


def test_a_gap_stops_the_reader() -> None:
    reader, _ = read(claim(1, 1))
    with pytest.raises(ClusterError, match=r"records 2 to 4 are not in the replicated log any more.*Stop this node"):
        reader.read(5, record(1, 1))


def test_a_claim_that_continues_another_log_stops_the_reader() -> None:
    reader, _ = read(claim(1, 1), record(1, 1))
    with pytest.raises(ClusterError, match=r"epoch 2 .* begins with batch 5, but this node has batches up to 1"):
        reader.read(3, claim(2, 5))


def test_a_record_of_an_unknown_epoch_stops_the_reader() -> None:
    reader, _ = read(claim(1, 1))
    with pytest.raises(ClusterError, match="epoch 4, whose claim this node has not read"):
        reader.read(2, record(4, 1))


def test_a_damaged_record_stops_the_reader_before_it() -> None:
    reader, _ = read(claim(1, 1))
    with pytest.raises(ClusterError, match="damaged"):
        reader.read(2, record(1, 1)[:-1])
    assert reader.position.sequence == 1


def test_a_claim_that_cannot_be_read_stops_the_reader() -> None:
    reader, _ = read()
    with pytest.raises(ClusterError, match="claim at record 1"):
        reader.read(1, encode_record(Head(CLAIM, 0, CELL, 1, 1, 0), b"x"))


def test_a_claim_is_expected_directly_behind_what_was_read() -> None:
    attempt = Candidate(CELL, "a", "a1").attempt(Position(41, 6, 12), 6)
    assert isinstance(attempt, ClaimAttempt)
    assert (attempt.expected, attempt.epoch) == (41, 7)


def test_a_claim_needs_a_proof_about_the_current_epoch() -> None:
    candidate = Candidate(CELL, "a", "a1")
    candidate.attempt(Position(41, 6, 12), 6)
    with pytest.raises(StaleProof):
        candidate.attempt(Position(43, 7, 12), 6)


def test_only_an_own_attempt_at_its_place_wins() -> None:
    candidate = Candidate(CELL, "a", "a1")
    candidate.attempt(Position(41, 6, 12), 6)
    assert candidate.has_won(Claim(7, 42, 13, "a", "a1"))
    assert not candidate.has_won(Claim(7, 42, 13, "a", "a0"))  # an earlier run of this node
    assert not candidate.has_won(Claim(7, 43, 13, "a", "a1"))
    assert not candidate.has_won(Claim(8, 42, 13, "a", "a1"))


def test_a_node_name_must_fit_into_a_claim() -> None:
    with pytest.raises(ClusterError, match="too long"):
        Candidate(CELL, "n" * 2000, "a1").attempt(Position(), 0)


def test_a_claim_that_was_forgotten_is_not_won() -> None:
    candidate = Candidate(CELL, "a", "a1")
    attempt = candidate.attempt(Position(), 0)
    claim = LogReader(CELL, Position()).read(1, attempt.payload)
    assert isinstance(claim, Claim)
    assert candidate.has_won(claim)
    candidate.forget()
    assert not candidate.has_won(claim)
