"""The memory mark: when publishers must wait."""

from __future__ import annotations

from leveret.broker.alarms import MemoryAlarm
from leveret.queues.surroundings import MemoryGauge


def alarm_at(mark: int, resident: int | None = None) -> tuple[MemoryGauge, MemoryAlarm, list[int]]:
    gauge, asked = MemoryGauge(), []

    def reading() -> int | None:
        asked.append(1)
        return resident

    return gauge, MemoryAlarm(gauge, mark, reading), asked


def test_it_is_raised_above_the_mark_and_says_so_once() -> None:
    gauge, alarm, _ = alarm_at(100)
    gauge.used = 100
    assert not alarm.check()
    gauge.used = 101
    assert alarm.check()
    assert alarm.raised
    assert not alarm.check()


def test_it_calms_down_only_well_below_the_mark() -> None:
    gauge, alarm, _ = alarm_at(100)
    gauge.used = 150
    alarm.check()
    gauge.used = 95
    assert not alarm.check()
    assert alarm.raised
    gauge.used = 90
    assert alarm.check()
    assert not alarm.raised


def test_the_smaller_of_gauge_and_process_decides() -> None:
    gauge, alarm, _ = alarm_at(100, resident=80)
    gauge.used = 1_000
    assert alarm.used() == 80
    assert not alarm.check()
    gauge, alarm, _ = alarm_at(100, resident=500)
    gauge.used = 200
    assert alarm.used() == 200
    assert alarm.check()


def test_the_system_is_not_asked_as_long_as_there_is_nothing_to_decide() -> None:
    gauge, alarm, asked = alarm_at(100, resident=500)
    gauge.used = 90
    assert not alarm.check()
    assert asked == []
