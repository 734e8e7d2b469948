"""One line of unsettled messages: acks are joined where they can be, and nobody is acked who was not asked for."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.jms.unsettled import Dispatch, Outcome, UnsettledMessages
from leveret.client.messages import Delivery
from leveret.wire.properties import Properties, encode_properties
from tests.support.manual_clock import ManualClock


class Wire:
    """A channel that keeps what was said, and what the broker still holds."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, bool]] = []
        self.held: set[int] = set()

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        assert tag in self.held, "an unknown delivery tag closes the channel"
        self.said.append(("ack", tag, multiple))
        self.held -= {each for each in self.held if each <= tag} if multiple else {tag}

    def reject(self, tag: int, *, requeue: bool = False) -> None:
        assert tag in self.held
        self.said.append(("reject", tag, requeue))
        self.held.discard(tag)


class Line:
    def __init__(self, count: int) -> None:
        self.wire = Wire()
        self.outstanding = UnsettledMessages()
        self.entries = [self._entry(tag) for tag in range(1, count + 1)]

    def _entry(self, tag: int, head: bytes = b"\0\0") -> Dispatch:
        delivery = Delivery(cast(Any, self.wire), "consumer", tag, False, "", "q", head, b"")
        entry = Dispatch(cast(Any, None), delivery, 0.0, None)
        self.wire.held.add(tag)
        self.outstanding.add(entry)
        return entry

    def settle(self, outcome: Outcome, *tags: int) -> None:
        self.outstanding.settle([self.entries[tag - 1] for tag in tags], outcome)


def test_acks_at_the_front_are_one_frame() -> None:
    line = Line(5)
    line.settle(Outcome.ACK, 1, 2, 3)
    assert line.wire.said == [("ack", 3, True)]
    line.settle(Outcome.ACK, 4)
    assert line.wire.said[1:] == [("ack", 4, False)]


def test_acks_out_of_turn_are_single() -> None:
    line = Line(5)
    line.settle(Outcome.ACK, 2, 4)
    assert sorted(line.wire.said) == [("ack", 2, False), ("ack", 4, False)]
    line.settle(Outcome.ACK, 1, 3)
    assert line.wire.said[2:] == [("ack", 3, True)]
    assert line.wire.held == {5}


@pytest.mark.feature("S1-15")
def test_what_is_done_does_not_pile_up_behind_one_that_is_not() -> None:
    """A message that stays unacked for hours does not keep all the later ones in memory."""
    line = Line(0)
    line.entries.append(line._entry(1))
    for tag in range(2, 5_000):
        line.entries.append(line._entry(tag))
        line.settle(Outcome.ACK, tag)
    assert len(line.outstanding._line) < 500
    line.settle(Outcome.ACK, 1)
    assert line.wire.held == set()


def test_each_is_settled_once() -> None:
    line = Line(2)
    line.settle(Outcome.REJECT, 1)
    line.settle(Outcome.ACK, 1, 2)
    line.settle(Outcome.GIVE_BACK, 2)
    assert line.wire.said == [("reject", 1, False), ("ack", 2, False)]
    assert len(line.outstanding) == 0


def test_giving_back_is_a_reject_that_requeues() -> None:
    line = Line(1)
    line.settle(Outcome.GIVE_BACK, 1)
    assert line.wire.said == [("reject", 1, True)]


@given(st.lists(st.tuples(st.sampled_from(Outcome), st.sets(st.integers(1, 12), min_size=1)), max_size=12))
def test_the_broker_is_left_with_what_nobody_settled(steps: list[tuple[Outcome, set[int]]]) -> None:
    line, left = Line(12), set(range(1, 13))
    for outcome, tags in steps:
        line.settle(outcome, *tags)
        left -= tags
        assert line.wire.held == left
        assert len(line.outstanding) == len(left)


@pytest.mark.parametrize(("life", "is_dead"), [(None, False), ("9000", True), ("11000", False), ("soon", False)])
@pytest.mark.feature("S1-17")
def test_a_message_is_dead_when_its_whole_life_has_passed_since_it_came(life: str | None, is_dead: bool) -> None:
    line = Line(0)
    entry = line._entry(1, encode_properties(Properties(expiration=life)))
    clock = ManualClock()
    entry.arrived = clock.now() - 10
    assert entry.is_expired(clock) is is_dead
