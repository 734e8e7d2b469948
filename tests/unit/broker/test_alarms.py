"""The memory high watermark: when publishers must wait."""

from __future__ import annotations

from leveret.backlog.context import MemoryGauge
from leveret.broker.alarms import PATIENCE, MemoryAlarm


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


MIB = 1 << 20


def watched(mark: int = 200 * MIB, baseline: int = 60 * MIB) -> tuple[MemoryGauge, MemoryAlarm]:
    gauge = MemoryGauge()
    return gauge, MemoryAlarm(gauge, mark, lambda: None, baseline)


def after(alarm: MemoryAlarm, resident: int, looks: int = 1) -> bool:
    for _ in range(looks):
        alarm.look(resident)
        alarm.check()
    return alarm.raised


def test_the_resident_size_alone_raises_it_above_a_fifth_more_than_the_mark() -> None:
    _, alarm = watched()
    assert not after(alarm, 240 * MIB)
    assert after(alarm, 241 * MIB)
    assert alarm.reason == "memory high watermark exceeded by the resident size of the process"
    assert after(alarm, 235 * MIB), "it does not flap"
    assert not after(alarm, 228 * MIB)


def test_a_process_that_is_more_than_the_broker_is_not_measured() -> None:
    alarm = MemoryAlarm(MemoryGauge(), 200 * MIB, lambda: None)
    assert not after(alarm, 9_000 * MIB)


def test_a_mark_below_what_the_process_needs_anyway_does_not_raise_it() -> None:
    _, alarm = watched(mark=1 * MIB)
    assert not after(alarm, 120 * MIB)
    assert after(alarm, 125 * MIB)


def test_free_memory_that_is_still_resident_is_asked_back_before_the_alarm() -> None:
    gauge, alarm = watched()
    alarm.look(215 * MIB)
    assert not alarm.wants_trim
    alarm.look(220 * MIB)
    assert alarm.wants_trim
    gauge.used = 150 * MIB
    alarm.look(220 * MIB)
    assert not alarm.wants_trim, "it is in use"


def test_what_stays_resident_for_no_use_does_not_block_publishers_for_ever() -> None:
    _, alarm = watched()
    assert after(alarm, 300 * MIB, PATIENCE)
    assert not after(alarm, 300 * MIB)
    assert not after(alarm, 360 * MIB)
    assert after(alarm, 365 * MIB), "it grows again"
    assert not after(alarm, 100 * MIB)
    assert after(alarm, 241 * MIB)


def test_what_grows_or_is_in_use_is_not_waited_out() -> None:
    gauge, alarm = watched()
    for size in range(250, 250 + 10 * PATIENCE, 10):
        assert after(alarm, size * MIB)
    gauge, alarm = watched()
    gauge.used = 190 * MIB
    assert after(alarm, 300 * MIB, 2 * PATIENCE)
