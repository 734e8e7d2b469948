"""One line of waiting messages: order, returns and holes."""

from __future__ import annotations

from collections import deque

from leveret.backlog.lane import HOLE, Lane
from leveret.message import NEVER
from leveret.wire.content import body_of
from tests.support.spies import messages


def lane_of(*bodies: bytes) -> Lane:
    lane = Lane()
    lane.ready.extend(messages(*bodies))
    return lane


def waiting(lane: Lane) -> list[tuple[int, int, bytes]]:
    return [(sequence, count, body_of(message[0])) for sequence, count, message in lane]


def take(lane: Lane) -> tuple[int, int, bytes] | None:
    popped = lane.pop()
    return None if popped is None else (popped[0], popped[1], body_of(popped[2][0]))


def test_messages_go_out_in_the_order_they_came() -> None:
    lane = lane_of(b"a", b"b")
    assert (take(lane), take(lane), take(lane)) == ((1, 0, b"a"), (2, 0, b"b"), None)


def test_the_next_message_gets_the_sequence_of_the_tail() -> None:
    lane = lane_of(b"a", b"b")
    assert lane.tail == 3
    lane.pop()
    assert (lane.head, lane.tail) == (2, 3)


def test_a_returned_message_goes_out_before_all_others_in_its_place() -> None:
    lane = lane_of(b"a", b"b", b"c", b"d")
    taken = [lane.pop(), lane.pop(), lane.pop()]
    for index in (2, 0):
        sequence, _, message = taken[index]  # type: ignore[misc]
        lane.put_back(sequence, 1, message)
    assert len(lane) == 3
    assert waiting(lane) == [(1, 1, b"a"), (3, 1, b"c"), (4, 0, b"d")]
    assert [take(lane), take(lane), take(lane)] == [(1, 1, b"a"), (3, 1, b"c"), (4, 0, b"d")]


def test_the_first_is_what_pop_would_give() -> None:
    lane = lane_of(b"a", b"b")
    assert lane.first() == (1, 0, lane.ready[0])
    first = lane.pop()
    assert first is not None
    lane.put_back(1, 1, first[2])
    assert lane.first() == (1, 1, first[2])
    assert Lane().first() is None


def test_cutting_out_the_middle_leaves_a_hole_that_does_not_count() -> None:
    lane = lane_of(b"a", b"b", b"c")
    cut = lane.cut_out(2)
    assert cut is not None
    assert body_of(cut[2][0]) == b"b"
    assert (len(lane), lane.holes) == (2, 1)
    assert waiting(lane) == [(1, 0, b"a"), (3, 0, b"c")]
    assert lane.cut_out(2) is None
    assert [take(lane), take(lane)] == [(1, 0, b"a"), (3, 0, b"c")]
    assert lane.holes == 0


def test_cutting_out_the_front_takes_the_holes_behind_it_along() -> None:
    lane = lane_of(b"a", b"b", b"c")
    lane.cut_out(2)
    lane.cut_out(1)
    assert (lane.head, lane.holes, list(lane.ready)) == (3, 0, messages(b"c"))


def test_a_returned_message_can_be_cut_out_too() -> None:
    lane = lane_of(b"a", b"b", b"c", b"d")
    taken = [lane.pop() for _ in range(3)]
    for each in taken:
        lane.put_back(each[0], 1, each[2])  # type: ignore[index]
    cut = lane.cut_out(3)
    assert cut is not None
    assert cut[0] == 3
    assert waiting(lane) == [(1, 1, b"a"), (2, 1, b"b"), (4, 0, b"d")]


def test_what_is_not_waiting_cannot_be_cut_out() -> None:
    lane = lane_of(b"a", b"b")
    lane.pop()
    assert lane.cut_out(1) is None
    assert lane.cut_out(99) is None


def test_a_stretch_ends_at_the_next_hole() -> None:
    lane = lane_of(b"a", b"b", b"c", b"d")
    assert (lane.stretch(3), lane.stretch(9)) == (3, 4)
    lane.cut_out(3)
    assert lane.stretch(9) == 2
    assert lane.stretch(1) == 1
    assert lane.ready[2] is HOLE


def test_a_lane_of_holes_alone_has_no_stretch_and_nothing_to_pop() -> None:
    lane = lane_of(b"a", b"b")
    lane.cut_out(2)
    lane.pop()
    assert (len(lane), len(lane.ready)) == (0, 1)
    assert lane.stretch(5) == 0
    assert lane.pop() is None


def test_clearing_gives_everything_and_sequences_go_on() -> None:
    lane = lane_of(b"a", b"b", b"c", b"d")
    first = lane.pop()
    assert first is not None
    lane.put_back(1, 1, first[2])
    lane.cut_out(3)
    cleared = lane.clear()
    assert sorted(cleared.stretches()) == [(1, 1), (2, 1), (4, 1)]
    assert (len(lane), lane.holes, lane.tail) == (0, 0, 5)
    assert (lane.ready, lane.incoming is lane.ready) == (deque(), True)
    size = sum(len(message[0]) for message in (*cleared.ready, first[2]))
    assert [cleared.pop_some(3), cleared.pop_some(3)] == [(3, size - len(first[2][0])), (1, len(first[2][0]))]


def test_what_was_cleared_without_holes_is_one_stretch() -> None:
    assert list(lane_of(b"a", b"b", b"c").clear().stretches()) == [(1, 3)]
    assert list(lane_of().clear().stretches()) == []
    assert HOLE[2].deadline == NEVER
