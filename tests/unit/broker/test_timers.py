"""What is due when, in message time."""

from __future__ import annotations

import pytest

from leveret.broker.timers import SWEEP_FROM, Timers
from leveret.clock import FrozenClock
from tests.support.spies import SpyLoop


class Fixture:
    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.start = self.clock.now()
        self.timers = Timers(self.clock)
        self.fired: list[tuple[str, float]] = []

    def at(self, seconds: float, name: str):  # type: ignore[no-untyped-def]
        return self.timers.at(self.start + seconds, lambda: self.fired.append((name, self.clock.now() - self.start)))

    def advance(self, seconds: float) -> None:
        self.timers.advance(seconds, lambda: None)


@pytest.fixture
def time() -> Fixture:
    return Fixture()


def test_due_calls_fire_in_order_each_at_its_own_moment(time: Fixture) -> None:
    for seconds, name in ((3, "c"), (1, "a"), (2, "b"), (20, "later")):
        time.at(seconds, name)
    time.advance(10)
    assert time.fired == [("a", 1), ("b", 2), ("c", 3)]
    assert time.clock.now() == time.start + 10


def test_calls_for_the_same_moment_fire_in_the_order_they_were_made(time: Fixture) -> None:
    for name in "xyz":
        time.at(1, name)
    time.advance(1)
    assert [name for name, _ in time.fired] == ["x", "y", "z"]


def test_a_cancelled_call_never_fires(time: Fixture) -> None:
    timer = time.at(1, "a")
    time.at(2, "b")
    timer.cancel()
    timer.cancel()
    assert time.timers.next_due() == time.start + 2
    time.advance(5)
    assert time.fired == [("b", 2)]
    timer.cancel()


def test_a_call_may_set_another_that_is_due_within_the_same_travel(time: Fixture) -> None:
    time.timers.at(time.start + 1, lambda: time.at(2, "child"))
    time.advance(3)
    assert time.fired == [("child", 2)]


def test_a_call_may_cancel_one_that_is_due_at_the_same_moment(time: Fixture) -> None:
    time.timers.at(time.start + 1, lambda: second.cancel())
    second = time.at(1, "second")
    time.advance(1)
    assert time.fired == []


def test_the_broker_gets_a_turn_after_each_moment_and_at_the_end(time: Fixture) -> None:
    time.at(1, "a")
    time.at(2, "b")
    turns: list[float] = []
    time.timers.advance(3, lambda: turns.append(time.clock.now() - time.start))
    assert turns == [1, 2, 3]


def test_everything_that_is_due_fires_when_the_server_comes_late(time: Fixture) -> None:
    for seconds, name in ((2, "b"), (1, "a"), (9, "later")):
        time.at(seconds, name)
    time.clock.move_to(time.start + 5)
    time.timers.run_due()
    assert [name for name, _ in time.fired] == ["a", "b"]


def test_nothing_is_due_when_nothing_was_asked_for(time: Fixture) -> None:
    assert time.timers.next_due() == float("inf")
    time.timers.run_due()


def test_whoever_keeps_the_real_timer_hears_of_an_earlier_moment_only(time: Fixture) -> None:
    rearmed: list[float] = []
    time.timers.attach(SpyLoop(lambda: rearmed.append(time.timers.next_due() - time.start)))
    for seconds in (5, 9, 2):
        time.at(seconds, "x")
    assert rearmed == [5, 2]


def test_cancelled_calls_are_swept_out_when_they_are_many(time: Fixture) -> None:
    time.at(1, "kept")
    timers = [time.at(1_000, "gone") for _ in range(SWEEP_FROM + 1)]
    for timer in timers:
        timer.cancel()
    assert len(time.timers._heap) == 1
    time.advance(1)
    assert time.fired == [("kept", 1)]
