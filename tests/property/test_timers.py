"""Timers fire as a sorted list would say."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.broker import timers as module
from leveret.broker.timers import Timer, Timers
from leveret.clock import FrozenClock
from leveret.message import NEVER
from tests.support.spies import SpyLoop

SWEEP_FROM = module.SWEEP_FROM


class TimersMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        module.SWEEP_FROM = 3
        self.clock = FrozenClock()
        self.timers = Timers(self.clock)
        self.made: list[Timer] = []
        self.expected: list[tuple[float, int]] = []  # (moment, number of the timer), in the order made
        self.fired: list[tuple[float, int]] = []
        self.earliest_told = NEVER
        self.timers.attach(SpyLoop(self._told))

    def teardown(self) -> None:
        module.SWEEP_FROM = SWEEP_FROM

    def _told(self) -> None:
        self.earliest_told = self.timers.next_due()

    @rule(delay=st.integers(0, 20))
    def set(self, delay: int) -> None:
        number = len(self.made)
        when = self.clock.now() + delay
        self.made.append(self.timers.at(when, lambda: self.fired.append((self.clock.now(), number))))
        self.expected.append((when, number))

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.made) - 1))
        self.made[number].cancel()
        self.expected = [entry for entry in self.expected if entry[1] != number]

    @rule(seconds=st.integers(0, 15))
    def advance(self, seconds: int) -> None:
        target = self.clock.now() + seconds
        self.fired.clear()
        self.timers.advance(seconds, lambda: None)
        due = sorted(entry for entry in self.expected if entry[0] <= target)
        assert self.fired == due
        self.expected = [entry for entry in self.expected if entry not in due]
        assert self.clock.now() == target
        self.earliest_told = self.timers.next_due()  # the server asks again after every firing

    @invariant()
    def knows_what_is_next(self) -> None:
        soonest = min((when for when, _ in self.expected), default=NEVER)
        assert self.timers.next_due() == soonest
        assert self.earliest_told <= soonest, "a real timer would fire too late"


TimersMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestTimers = TimersMachine.TestCase
