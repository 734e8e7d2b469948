"""Deliveries that wait for their answer, by tag (S4-29)."""

from __future__ import annotations

from leveret.delivery.consumer import Holder
from leveret.delivery.unacked import COMPACT_FROM, Portion, Unacked
from leveret.message import Message
from leveret.wire.content import body_of
from tests.support.spies import message, messages


class Nowhere:
    """A queue that nobody asks anything."""

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None: ...

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int) -> None: ...

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None: ...

    def touch(self) -> None: ...


A = Holder(Nowhere(), 0)
B = Holder(Nowhere(), 0)


def give(unacked: Unacked, holder: Holder, sequence: int, *bodies: bytes, lane: int = 0, count: int = 0) -> None:
    unacked.items.extend(messages(*bodies))
    unacked.opened(holder, lane, sequence, len(bodies), count)


def told(portions: list[Portion]) -> list[tuple[Holder, int, list[bytes]]]:
    return [(each.holder, each.sequence, [body_of(item[0]) for item in each.messages]) for each in portions]


def test_tags_count_from_one_and_settle_one_by_one() -> None:
    unacked = Unacked()
    give(unacked, A, 7, b"a", b"b", b"c")
    assert len(unacked) == 3
    first = unacked.take_one(1)
    assert first is not None
    assert (first.holder, first.lane, first.sequence, first.tries) == (A, 0, 7, 0)
    assert len(unacked) == 2


def test_an_unknown_tag_is_not_held() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b")
    assert not unacked.holds(0)
    assert not unacked.holds(3)
    assert unacked.take_one(0) is None
    assert unacked.take_one(3) is None


def test_a_tag_settles_only_once() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b", b"c")
    assert unacked.take_one(2) is not None
    assert unacked.take_one(2) is None
    assert not unacked.holds(2)
    assert unacked.take_one(1) is not None
    assert unacked.take_one(1) is None


def test_multiple_settles_everything_up_to_its_tag() -> None:
    unacked = Unacked()
    give(unacked, A, 10, b"a", b"b", b"c", b"d")
    assert told(unacked.take_through(3)) == [(A, 10, [b"a", b"b", b"c"])]
    assert told(unacked.take_all()) == [(A, 13, [b"d"])]
    assert len(unacked) == 0


def test_taking_all_of_nothing_gives_nothing() -> None:
    unacked = Unacked()
    assert unacked.take_all() == []
    unacked.skip(3)
    assert unacked.take_all() == []
    assert unacked.next_tag == 4


def test_consecutive_places_of_one_holder_are_one_span() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b")
    give(unacked, A, 3, b"c")
    assert len(unacked.spans) == 1
    assert told(unacked.take_all()) == [(A, 1, [b"a", b"b", b"c"])]


def test_another_holder_lane_count_or_place_begins_a_span() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a")
    give(unacked, B, 2, b"b")
    give(unacked, B, 3, b"c", lane=1)
    give(unacked, B, 4, b"d", lane=1, count=2)
    give(unacked, B, 9, b"e", lane=1, count=2)
    portions = unacked.take_all()
    assert [(each.lane, each.sequence, each.tries) for each in portions] == [
        *((0, 1, 0), (0, 2, 0), (1, 3, 0), (1, 4, 2), (1, 9, 2)),
    ]


def test_a_multiple_that_ends_inside_a_span_leaves_its_rest() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b")
    give(unacked, B, 50, b"c", b"d", b"e")
    assert told(unacked.take_through(4)) == [(A, 1, [b"a", b"b"]), (B, 50, [b"c", b"d"])]
    rest = unacked.take_one(5)
    assert rest is not None
    assert rest.sequence == 52


def test_portions_are_cut_at_holes() -> None:
    """A portion names consecutive places only: a log settles it as one range."""
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b", b"c", b"d", b"e", b"f")
    for tag in (2, 4, 5):
        assert unacked.take_one(tag) is not None
    assert len(unacked) == 3
    assert told(unacked.take_all()) == [(A, 1, [b"a"]), (A, 3, [b"c"]), (A, 6, [b"f"])]


def test_a_span_that_ends_in_holes_gives_what_stood_before_them() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b", b"c")
    give(unacked, B, 9, b"d")
    unacked.take_one(3)
    unacked.take_one(2)
    assert told(unacked.take_through(4)) == [(A, 1, [b"a"]), (B, 9, [b"d"])]


def test_holes_that_come_to_the_front_are_forgotten() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a", b"b", b"c", b"d")
    unacked.take_one(2)
    unacked.take_one(3)
    unacked.take_one(1)
    assert (unacked.base, unacked.holes, len(unacked)) == (4, 0, 1)
    assert unacked.holds(4)


def test_tags_that_need_no_ack_pass_by() -> None:
    unacked = Unacked()
    unacked.skip(2)
    give(unacked, A, 1, b"a")
    unacked.skip(2)
    give(unacked, A, 2, b"b")
    assert len(unacked) == 2
    assert [unacked.holds(tag) for tag in range(1, 7)] == [False, False, True, False, False, True]
    assert told(unacked.take_through(6)) == [(A, 1, [b"a"]), (A, 2, [b"b"])]
    assert unacked.next_tag == 7


def test_skipped_tags_at_the_end_go_with_taking_all() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a")
    unacked.skip(3)
    assert told(unacked.take_all()) == [(A, 1, [b"a"])]
    give(unacked, A, 2, b"b")
    assert unacked.holds(5)


def test_a_tag_deep_in_many_spans_finds_its_holder() -> None:
    unacked = Unacked()
    for turn in range(50):
        give(unacked, A, turn, b"a")
        give(unacked, B, turn, b"b")
    for tag in (100, 51, 2, 1):
        taken = unacked.take_one(tag)
        assert taken is not None
        assert taken.holder is (A if tag % 2 else B)
        assert taken.sequence == (tag - 1) // 2


def test_the_list_is_cut_when_much_of_it_is_settled() -> None:
    unacked = Unacked()
    bodies = [b"%d" % number for number in range(2 * COMPACT_FROM)]
    give(unacked, A, 1, *bodies)
    unacked.take_through(COMPACT_FROM)
    assert len(unacked.items) == 2 * COMPACT_FROM
    unacked.take_through(COMPACT_FROM + 2)
    assert len(unacked.items) == COMPACT_FROM - 2
    taken = unacked.take_one(COMPACT_FROM + 3)
    assert taken is not None
    assert body_of(taken.messages[0][0]) == bodies[COMPACT_FROM + 2]


def test_a_settled_message_is_let_go_before_the_list_is_cut() -> None:
    unacked = Unacked()
    kept = message(b"large")
    unacked.items.append(kept)
    unacked.opened(A, 0, 1, 1)
    give(unacked, A, 2, b"small")
    unacked.take_one(1)
    assert kept not in unacked.items


def test_settling_the_last_one_leaves_no_trace() -> None:
    unacked = Unacked()
    give(unacked, A, 1, b"a")
    give(unacked, B, 1, b"b")
    unacked.take_one(1)
    assert len(unacked.spans) == 1
    unacked.take_one(2)
    assert (unacked.items, list(unacked.spans), unacked.start, unacked.base) == ([], [], 0, 3)


def test_one_old_delivery_does_not_make_the_list_grow_behind_it() -> None:
    """A message that is never settled, and a million that are: their slots must not stay."""
    unacked, holder = Unacked(), Holder(None, 0)  # type: ignore[arg-type]
    total = 100_000
    for sequence in range(1, total + 1):
        unacked.items.append(message())
        unacked.opened(holder, 0, sequence, 1)
        if sequence > 1:
            assert unacked.take_one(sequence) is not None
    assert len(unacked) == 1
    assert unacked.holds(1)
    assert len(unacked.items) < 5_000
    unacked.skip(total)
    assert len(unacked.items) < 5_000
    portions = unacked.take_all()
    assert [(portion.sequence, len(portion.messages)) for portion in portions] == [(1, 1)]
    assert len(unacked) == 0
    assert unacked.next_tag == 2 * total + 1


def test_a_multiple_settles_stragglers_too() -> None:
    unacked, holder = Unacked(), Holder(None, 0)  # type: ignore[arg-type]
    for sequence in range(1, 10_001):
        unacked.items.append(message())
        unacked.opened(holder, 0, sequence, 1)
        if sequence not in (1, 2, 10_000):
            unacked.take_one(sequence)
    assert list(unacked.stragglers) == [1, 2]
    assert unacked.tags(2) == [1, 2]
    assert unacked.tags(20_000) == [1, 2, 10_000]
    settled = unacked.take_through(10_000)
    assert [portion.sequence for portion in settled] == [1, 2, 10_000]
    assert not unacked.stragglers


def test_the_deliveries_of_one_queue_are_found_among_those_of_others() -> None:
    unacked = Unacked()
    for tag in range(COMPACT_FROM * 2):
        give(unacked, A if tag % 2 else B, tag, b"%d" % tag)
    for tag in range(2, COMPACT_FROM * 2 - 3):
        unacked.take_one(tag)
    assert unacked.stragglers  # the first delivery is stored individually by now
    last = COMPACT_FROM * 2
    expected = {A: [last - 2, last], B: [1, last - 3, last - 1]}
    for holder, tags in expected.items():
        found = list(unacked.held_of(holder.queue, 10_000))
        assert [tag for tag, _ in found] == tags
        assert unacked.number_of(holder.queue, 10_000) == len(tags)
        assert [body_of(portion.messages[0][0]) for _, portion in found] == [b"%d" % (tag - 1) for tag in tags]
        assert [portion.sequence for _, portion in found] == [tag - 1 for tag in tags]
    assert [tag for tag, _ in unacked.held_of(B.queue, 0)] == [1]  # no span is read
    assert len(unacked) == 5  # nothing was taken


def test_the_place_of_a_delivery_is_known() -> None:
    unacked = Unacked()
    give(unacked, A, 7, b"a", b"b", lane=3)
    for sequence in range(COMPACT_FROM * 2):
        give(unacked, B, sequence, b"x", lane=4)
    last = unacked.next_tag - 1
    for tag in range(2, last):
        unacked.take_one(tag)
    assert list(unacked.stragglers) == [1]
    assert (unacked.place_of(1), unacked.place_of(last)) == ((3, 7), (4, COMPACT_FROM * 2 - 1))
