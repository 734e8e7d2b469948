"""The newest messages of a stream, in memory."""

from __future__ import annotations

import pytest

from leveret.queues import stream_readers
from leveret.queues.stream_readers import Recent
from leveret.store.stream_files import StreamRun
from tests.support.spies import messages, size_of


def run(first: int, *bodies: bytes) -> StreamRun:
    return StreamRun(first, 0, tuple(messages(*bodies)))


def add(recent: Recent, *runs: StreamRun) -> None:
    recent.add(runs, sum(size_of(each.messages) for each in runs))


def firsts(runs: list[StreamRun]) -> list[int]:
    return [each.first for each in runs]


def test_runs_are_found_by_an_offset_within_them() -> None:
    recent = Recent()
    assert not recent.covers(0)
    add(recent, run(10, b"a", b"b"), run(12, b"c"))
    add(recent, run(13, b"d", b"e", b"f"))
    assert [recent.covers(offset) for offset in (9, 10, 12, 15)] == [False, True, True, True]
    assert firsts(recent.since(10, 100)) == [10, 12, 13]
    assert firsts(recent.since(11, 100)) == [10, 12, 13]
    assert firsts(recent.since(12, 100)) == [12, 13]
    assert firsts(recent.since(14, 100)) == [13]


def test_about_as_many_as_asked_for_and_at_least_one() -> None:
    recent = Recent()
    add(recent, *(run(number, b"m") for number in range(100)))
    assert firsts(recent.since(40, 3)) == [40, 41, 42]
    add(recent, run(100, *[b"m"] * 50))
    assert firsts(recent.since(149, 1)) == [100], "the run that it lies in, however far"


def test_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "MOST_BYTES", 5000)
    recent = Recent()
    for number in range(3000):
        add(recent, run(2 * number, b"x" * 400, b"y" * 400))
        assert recent.bytes <= 5000
    assert recent.number == 10
    assert recent.covers(5990)
    assert not recent.covers(5989)
    assert firsts(recent.since(5991, 100)) == [5990, 5992, 5994, 5996, 5998]
    assert len(recent._runs) < 2 * stream_readers.SWEEP_FROM
    recent.clear()
    assert (recent.bytes, recent.number, recent.covers(6000)) == (0, 0, False)


def test_what_is_larger_than_all_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "MOST_BYTES", 100)
    recent = Recent()
    add(recent, run(0, b"x" * 1000))
    assert (recent.bytes, recent.number, recent.covers(0)) == (0, 0, False)
