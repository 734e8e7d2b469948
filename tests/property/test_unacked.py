"""Unacked deliveries behave as a plain dictionary of tags would (S4-29)."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.delivery import unacked as module
from leveret.delivery.consumer import Holder
from leveret.delivery.unacked import Portion, Unacked
from leveret.message import Message
from tests.support.spies import message

module_compaction = module.COMPACT_FROM


class Known(NamedTuple):
    """What the slow and obvious version keeps for every tag."""

    holder: Holder
    lane: int
    sequence: int
    tries: int
    message: Message


class UnackedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        module.COMPACT_FROM = 8  # so that cutting the list happens in short runs too
        self.unacked = Unacked()
        self.known: dict[int, Known] = {}
        self.next_tag = 1
        self.holders = [Holder(None, 0) for _ in range(3)]  # type: ignore[arg-type]
        self.sequences: dict[tuple[int, int], int] = {}

    def teardown(self) -> None:
        module.COMPACT_FROM = module_compaction

    @rule(
        who=st.integers(0, 2),
        lane=st.integers(0, 1),
        number=st.integers(1, 12),
        gap=st.sampled_from([0, 0, 0, 3]),
        tries=st.sampled_from([0, 0, 0, 2]),
    )
    def deliver(self, who: int, lane: int, number: int, gap: int, tries: int) -> None:
        holder = self.holders[who]
        first = self.sequences.get((who, lane), 1) + gap
        self.sequences[who, lane] = first + number
        for place in range(first, first + number):
            given = message(b"%d" % self.next_tag)
            self.unacked.items.append(given)
            self.known[self.next_tag] = Known(holder, lane, place, tries, given)
            self.next_tag += 1
        self.unacked.opened(holder, lane, first, number, tries)

    @rule(number=st.integers(1, 12))
    def skip(self, number: int) -> None:
        self.unacked.skip(number)
        self.next_tag += number

    @rule(back=st.integers(0, 40))
    def settle_one(self, back: int) -> None:
        tag = self.next_tag - back
        portion = self.unacked.take_one(tag)
        if tag in self.known:
            assert portion is not None
            self._check([tag], [portion])
        else:
            assert portion is None

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def settle_the_first(self, data: st.DataObject) -> None:
        tag = min(self.known)
        portion = self.unacked.take_one(tag)
        assert portion is not None
        self._check([tag], [portion])

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def settle_through(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.known)))
        self._check([each for each in self.known if each <= tag], self.unacked.take_through(tag))

    @rule()
    def settle_all(self) -> None:
        self._check(list(self.known), self.unacked.take_all())

    def _check(self, tags: list[int], portions: list[Portion]) -> None:
        """The portions hold exactly these tags, in order, and each is one unbroken stretch of its lane."""
        flat = [
            Known(portion.holder, portion.lane, portion.sequence + index, portion.tries, each)
            for portion in portions
            for index, each in enumerate(portion.messages)
        ]
        assert all(portion.messages for portion in portions)
        assert flat == [self.known.pop(tag) for tag in sorted(tags)]

    @invariant()
    def agrees(self) -> None:
        unacked = self.unacked
        assert len(unacked) == len(self.known)
        assert unacked.next_tag == self.next_tag
        for tag in range(max(0, self.next_tag - 50), self.next_tag + 2):
            assert unacked.holds(tag) == (tag in self.known)
        if not self.known and not unacked.holes:
            assert unacked.items == []


UnackedMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestUnacked = UnackedMachine.TestCase
