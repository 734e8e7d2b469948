"""A run index returns the position of every live message, as a plain dictionary of messages would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leveret.store import run_index as module
from leveret.store.run_block import Run
from leveret.store.run_index import RunIndex

LIMITS = {"BLOCK_RUNS": 8, "FEW_RUNS": 3, "LOOK_EVERY": 1}  # so that short histories split, shift and join blocks
USUAL = {name: getattr(module, name) for name in LIMITS}


class Place(NamedTuple):
    """What the slow and obvious version keeps for every message."""

    segment: int
    offset: int
    index: int  # within the record


class RunIndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for name, value in LIMITS.items():
            setattr(module, name, value)
        self.index = RunIndex()
        self.known: dict[int, Place] = {}
        self.size = 0
        self.next = 0
        self.records = 0

    def teardown(self) -> None:
        for name, value in USUAL.items():
            setattr(module, name, value)

    def places(self, runs: list[Run]) -> dict[int, Place]:
        """The runs, message by message; each in order, with a size, and not empty."""
        found: dict[int, Place] = {}
        for run in runs:
            assert run.number > 0
            assert run.size >= 0
            for n in range(run.number):
                assert not found or run.sequence + n > max(found)
                found[run.sequence + n] = Place(run.segment, run.offset, run.skip + n)
        return found

    def within(self, sequence: int, number: int) -> dict[int, Place]:
        return {key: self.known[key] for key in sorted(self.known) if sequence <= key < sequence + number}

    def add(self, number: int, place: Place, size: int) -> None:
        self.index.append(self.next, number, place.segment, place.offset, place.index, size)
        for n in range(number):
            self.known[self.next + n] = Place(place.segment, place.offset, place.index + n)
        self.next += number
        self.size += size

    @rule(number=st.integers(1, 12), gap=st.sampled_from([0, 0, 1, 7]), skip=st.integers(0, 3), size=st.integers(0, 99))
    def append(self, number: int, gap: int, skip: int, size: int) -> None:
        self.next += gap
        self.records += 1
        self.add(number, Place(self.records // 4, self.records % 4 << 24, skip), size)

    @rule(times=st.integers(5, 20))
    def append_single_messages(self, times: int) -> None:
        for size in range(times):
            self.append(1, 0, 0, size)

    @precondition(lambda self: self.known)
    @rule(number=st.integers(1, 5), size=st.integers(0, 99), off=st.sampled_from([0, 0, 0, 1]))
    def append_more_of_the_last_record(self, number: int, size: int, off: int) -> None:
        last = self.known[max(self.known)]
        self.add(number, last._replace(index=last.index + 1 + off), size)

    @precondition(lambda self: self.known)
    @rule(below=st.integers(1, 3), number=st.integers(-1, 0))
    def append_what_does_not_fit(self, below: int, number: int) -> None:
        end = max(self.known) + 1
        with pytest.raises(ValueError):
            self.index.append(max(end - below, 0), 1, 99, 0, 0, 1)
        with pytest.raises(ValueError):
            self.index.append(end, number, 99, 0, 0, 1)

    @rule(back=st.integers(0, 80), number=st.sampled_from([-1, 0, 1, 1, 1, 2, 3, 8, 20, 60]))
    def take(self, back: int, number: int) -> None:
        self.check_take(max(self.next - back, 0), number)

    @rule(number=st.sampled_from([1, 1, 2, 5, 30]), times=st.integers(1, 12))
    def take_front(self, number: int, times: int) -> None:
        for _ in range(times):
            self.check_take(min(self.known, default=0), number)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def take_runs(self, data: st.DataObject) -> None:
        runs = data.draw(st.lists(st.sampled_from(list(self.index)), min_size=1, max_size=20, unique=True))
        for run in runs:
            self.check_take(run.sequence, run.number)

    def check_take(self, sequence: int, number: int) -> None:
        before = self.index.live(sequence, number)
        assert self.index.live_stop(sequence, number) == (before[-1].sequence + before[-1].number if before else 0)
        taken = self.index.take(sequence, number)
        assert taken == before
        assert self.places(taken) == self.within(sequence, number)
        for key in self.within(sequence, number):
            del self.known[key]
        self.size -= sum(run.size for run in taken)

    @rule(back=st.integers(0, 80), messages=st.integers(0, 30), size=st.integers(0, 400))
    def read(self, back: int, messages: int, size: int) -> None:
        sequence = max(self.next - back, 0)
        runs = self.index.read(sequence, messages, size)
        found = self.places(runs)
        later = self.within(sequence, self.next)
        assert list(found.items()) == list(later.items())[: len(found)]
        assert bool(found) == bool(later)
        if len(found) > 1:
            assert len(found) <= messages
            assert sum(run.size for run in runs) <= size
        if 1 <= len(found) < min(messages, len(later)):  # the bytes were the reason, so one more is too much
            more = self.index.live(sequence, list(later)[len(found)] + 1 - sequence)
            assert sum(run.size for run in more) > size
        for run in runs:
            assert self.index.live(run.sequence, run.number) == [run]

    @precondition(lambda self: self.known)
    @rule(data=st.data(), left=st.integers(0, 4), right=st.integers(0, 4), skip=st.integers(0, 3))
    def move(self, data: st.DataObject, left: int, right: int, skip: int) -> None:
        run = data.draw(st.sampled_from(list(self.index)))
        sequence = run.sequence + min(left, run.number - 1)
        number = max(run.sequence + run.number - right - sequence, 1)
        self.records += 1
        self.check_move(sequence, number, Place(1000 + self.records, 7, skip))

    @precondition(lambda self: self.known)
    @rule(back=st.integers(0, 80))
    def move_all_from_here_into_one_record(self, back: int) -> None:
        self.records += 1
        skip = 0
        for run in self.index.live(max(self.next - back, 0), self.next):
            self.check_move(run.sequence, run.number, Place(2000 + self.records, 7, skip))
            skip += run.number

    def check_move(self, sequence: int, number: int, place: Place) -> None:
        self.index.move(sequence, number, *place)
        for n in range(number):
            self.known[sequence + n] = place._replace(index=place.index + n)

    @rule(back=st.integers(0, 80), number=st.integers(0, 20))
    def move_what_is_not_one_run(self, back: int, number: int) -> None:
        sequence = max(self.next - back, 0)
        pieces = self.index.live(sequence, number)
        if len(pieces) != 1 or pieces[0].number != number:
            with pytest.raises(ValueError):
                self.index.move(sequence, number, 9999, 0, 0)

    @rule()
    def clear(self) -> None:
        self.index.clear()
        self.known.clear()
        self.size = 0

    @invariant()
    def same(self) -> None:
        runs = list(self.index)
        assert self.places(runs) == self.within(0, self.next)
        assert len(self.index) == len(self.known)
        assert self.index.bytes == self.size == sum(run.size for run in runs)
        assert self.index.first() == min(self.known, default=None)

    @invariant()
    def blocks_are_in_order(self) -> None:
        blocks = self.index._blocks
        assert len(blocks) == len(self.index._firsts)
        assert len(blocks) <= 1 or all(len(block) > 0 for block in blocks)
        assert all(len(block) <= module.BLOCK_RUNS for block in blocks)
        assert list(self.bounds()) == sorted(self.bounds())

    def bounds(self) -> Iterator[int]:
        for first, block in zip(self.index._firsts, self.index._blocks, strict=True):
            if len(block):
                yield from (first, block.sequences[block.start], block.sequences[-1] + block.numbers[-1] - 1)


RunIndexMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestRunIndex = RunIndexMachine.TestCase
