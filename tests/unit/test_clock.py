"""Message time goes forward only, and only where it was told to."""

from __future__ import annotations

from leveret.clock import Clock, FrozenClock


def test_a_clock_runs_with_the_machine() -> None:
    clock = Clock()
    assert clock.runs
    first = clock.now()
    assert clock.now() >= first


def test_moving_a_clock_moves_both_its_readings() -> None:
    clock = Clock()
    now, wall = clock.now(), clock.wall()
    clock.move_to(now + 3600)
    assert clock.now() >= now + 3600
    assert wall + 3599 < clock.wall() < wall + 3700


def test_no_clock_goes_back() -> None:
    for clock in (Clock(), FrozenClock()):
        now = clock.now()
        clock.move_to(now - 100)
        assert clock.now() >= now


def test_a_frozen_clock_stands_still_until_it_is_moved() -> None:
    clock = FrozenClock(wall=5_000.0)
    assert not clock.runs
    now = clock.now()
    assert (clock.now(), clock.wall()) == (now, 5_000.0)
    clock.move_to(now + 2.5)
    assert (clock.now(), clock.wall()) == (now + 2.5, 5_002.5)
