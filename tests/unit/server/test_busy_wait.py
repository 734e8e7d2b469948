"""When the broker polls for input instead of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from leveret.server.busy_wait import IN_VAIN, LONGEST, MOST_COUNTED, SHORTEST, BusyWait

SHORT, LONG = LONGEST / 2, LONGEST * 2


class Loop:
    """Calls what is scheduled when told to."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.scheduled.append(call)

    def iterate(self) -> None:
        calls, self.scheduled = self.scheduled, []
        for call in calls:
            call()


class Waits:
    def __init__(self) -> None:
        self.loop, self.now = Loop(), 0.0
        self.busy_wait = BusyWait(self.loop)  # type: ignore[arg-type]
        self.busy_wait._clock = lambda: self.now
        self.busy_wait.begin()

    def after(self, waits: Sequence[float]) -> bool:
        """Whether the broker polls after waits of so many seconds, each of which was ended by input."""
        for seconds in waits:
            self.now += seconds
            self.loop.iterate()
            self.busy_wait.ended()
            self.busy_wait.begin()
        return bool(self.loop.scheduled)


@pytest.mark.parametrize(
    ("waits", "polls"),
    [
        ([SHORT], True),
        ([LONG], False),
        ([SHORT, SHORT, LONG], False),  # one wait in vain counts as much as two that were short
        ([SHORT, SHORT, SHORT, LONG], True),
        ([SHORT] * 100 + [LONG] * (MOST_COUNTED // IN_VAIN), False),  # it stops soon, however long it was right
        ([LONG] * 100 + [SHORT] * (MOST_COUNTED + 1), True),
        ([SHORTEST / 2] * 100, False),  # input is always there: no wait to shorten
        ([SHORT, *[SHORTEST / 2] * 100], True),
    ],
)
def test_the_broker_polls_while_most_waits_are_short(waits: Sequence[float], polls: bool) -> None:
    assert Waits().after(waits) is polls


def test_polling_ends_after_a_moment_without_input() -> None:
    waits = Waits()
    assert waits.after([SHORT])
    waits.now += LONGEST * 0.9
    waits.loop.iterate()
    assert len(waits.loop.scheduled) == 1
    waits.now += LONGEST * 0.2
    waits.loop.iterate()
    assert not waits.loop.scheduled
    assert not waits.after([LONG])


def test_a_tick_meanwhile_schedules_no_second_poll() -> None:
    waits = Waits()
    waits.after([SHORT])
    waits.busy_wait.begin()
    assert len(waits.loop.scheduled) == 1


def test_the_event_loop_serves_others_while_the_broker_polls() -> None:
    async def run() -> None:
        busy_wait = BusyWait(asyncio.get_running_loop())
        busy_wait._clock = lambda: 0.0  # polls for ever
        busy_wait._count = MOST_COUNTED
        busy_wait.begin()
        await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(run(), 10))
