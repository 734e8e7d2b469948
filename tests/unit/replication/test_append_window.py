"""The leader's window: predictions, grants in order, and what is at a sequence that is not known."""

from __future__ import annotations

from leveret.replication.append_window import WORTHWHILE, AppendWindow, Read, Send
from leveret.replication.claims import Candidate, Claim, Position
from leveret.replication.records import BATCH, Head, cell_id, encode_record

CELL = cell_id("cell")
CLAIM_AT_9 = Claim(3, 9, 5, "a", "a1")


def window_of(*bodies: bytes, size: int = 4, part_size: int = 100) -> tuple[AppendWindow[bytes], list[Send]]:
    window = AppendWindow[bytes](CELL, CLAIM_AT_9, size, part_size)
    for body in bodies:
        window.append(body, body)
    return window, sent(window)


def sent(window: AppendWindow[bytes]) -> list[Send]:
    return [work for work in window.take_work() if isinstance(work, Send)]


def acknowledge(window: AppendWindow[bytes], send: Send) -> list[bytes]:
    return window.acknowledge(send.message_id, send.sequence)


def test_predictions_begin_behind_the_own_claim() -> None:
    window, sends = window_of(b"one", b"two")
    assert [(send.message_id, send.sequence) for send in sends] == [("3/5/0/10", 10), ("3/6/0/11", 11)]
    assert window.next_batch == 7


def test_batches_are_granted_in_order() -> None:
    window, (one, two) = window_of(b"one", b"two")
    assert acknowledge(window, two) == []
    assert acknowledge(window, one) == [b"one", b"two"]
    assert window.is_idle
    assert acknowledge(window, one) == []  # answered twice


def test_a_batch_is_granted_with_its_last_part() -> None:
    window, sends = window_of(b"0123456789", part_size=4)
    assert [acknowledge(window, send) for send in sends] == [[], [], [b"0123456789"]]


def test_what_does_not_fit_into_the_window_waits() -> None:
    window, sends = window_of(b"one", b"two", b"three", size=2)
    assert [send.sequence for send in sends] == [10, 11]
    assert not window.has_room(WORTHWHILE)
    acknowledge(window, sends[0])
    assert [send.sequence for send in sent(window)] == [12]


def test_small_records_are_not_pipelined() -> None:
    window, (one, two) = window_of(b"one", b"two", size=3)
    assert not window.has_room(WORTHWHILE - 1)
    assert window.has_room(WORTHWHILE)
    acknowledge(window, one)
    assert not window.has_room(WORTHWHILE - 1)
    acknowledge(window, two)
    assert window.has_room(1)


def test_another_sequence_than_predicted_deposes() -> None:
    window, (one, two) = window_of(b"one", b"two")
    assert window.acknowledge(one.message_id, 12) == []
    assert window.deposed == "batch 5 was stored at 12 instead of 10"
    assert acknowledge(window, two) == []
    assert not window.has_room(WORTHWHILE)


def test_what_is_not_in_the_log_is_sent_again_with_the_same_id() -> None:
    window, sends = window_of(b"one", b"two")
    window.look()
    assert window.take_work() == [Read(10)]
    assert window.found(10, None) == []
    assert sent(window) == sends


def test_a_lost_acknowledgement_is_found_in_the_log() -> None:
    window, (one, two) = window_of(b"one", b"two")
    acknowledge(window, two)
    window.look()
    assert window.found(10, one.payload) == [b"one", b"two"]
    assert window.has_room(WORTHWHILE)


def test_reading_continues_until_nothing_is_found() -> None:
    window, (one, two) = window_of(b"one", b"two")
    window.look()
    window.take_work()
    assert window.found(10, one.payload) == [b"one"]
    assert window.take_work() == [Read(11)]
    window.found(11, None)
    assert sent(window) == [two]


def test_a_void_record_is_passed_over_and_what_is_under_way_moves_up() -> None:
    window, (one, two) = window_of(b"one", b"two")
    acknowledge(window, two)  # stored at 11, but its predecessor is not at 10
    window.look()
    window.take_work()
    assert window.found(10, encode_record(Head(BATCH, 1, CELL, 2, 5, 0), b"old")) == []
    assert window.take_work() == [Read(11)]
    assert window.found(11, two.payload) == []  # void as well
    assert window.take_work() == [Read(12)]
    window.found(12, None)
    again = sent(window)
    assert [(send.message_id, send.sequence) for send in again] == [("3/5/0/12", 12), ("3/6/0/13", 13)]
    assert acknowledge(window, one) == acknowledge(window, two) == []  # answers to former predictions
    assert acknowledge(window, again[0]) == [b"one"]


def test_a_claim_of_another_node_deposes() -> None:
    window, (one, _) = window_of(b"one", b"two")
    window.look()
    claim = Candidate(CELL, "b", "b1").attempt(Position(9, 3, 4), 3)
    assert window.found(10, claim.payload) == []
    assert window.deposed == "epoch 4 was claimed by another node at record 10"
    assert acknowledge(window, one) == []
    window.append(b"three", b"three")
    assert window.take_work() == []


def test_a_record_in_our_place_that_is_not_ours_deposes() -> None:
    window, _ = window_of(b"one")
    window.look()
    window.found(10, encode_record(Head(BATCH, 1, CELL, 3, 5, 0), b"other"))
    assert window.deposed is not None


def test_a_damaged_record_deposes() -> None:
    window, (one,) = window_of(b"one")
    window.look()
    window.found(10, one.payload[:-1])
    assert window.deposed is not None
    assert "damaged" in window.deposed


def test_nothing_is_sent_while_the_log_is_read() -> None:
    window, (one,) = window_of(b"one")
    window.look()
    window.take_work()
    window.append(b"two", b"two")
    assert not window.has_room(WORTHWHILE)
    assert window.take_work() == []
    window.found(10, None)
    assert [send.sequence for send in sent(window)] == [10, 11]
    assert acknowledge(window, one) == [b"one"]


def test_an_idle_window_has_nothing_to_look_for() -> None:
    window, _ = window_of()
    window.look()
    assert window.take_work() == []


def test_an_answer_to_a_former_read_is_ignored() -> None:
    window, (one, _two) = window_of(b"one", b"two")
    window.look()
    window.take_work()
    acknowledge(window, one)
    assert window.take_work() == [Read(11)]
    assert window.found(10, b"stray") == []
    window.found(11, None)
    assert [send.sequence for send in sent(window)] == [11]
