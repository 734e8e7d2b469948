"""A stream against a list: whatever is appended, handed again, synced, trimmed, read and reopened, they agree."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from leveret.store import stream_segments
from leveret.store.memory_disk import MemoryDisk
from leveret.store.stream_files import StreamFiles, StreamRun
from tests.support.streams import START, STREAM, Seen, all_of, run, seen_in, seen_in_chunk

CONTENTS = st.lists(st.binary(max_size=80), min_size=1, max_size=6)
KEYS = st.sampled_from(["", "a", "b", "ä" * 100])
TIMES = st.integers(-30, 30)
STRETCH = stream_segments.STRETCH


class StreamModel(RuleBasedStateMachine):
    """``truth`` is all that was ever appended and not trimmed; ``handed`` the runs, as the journal would hand them."""

    @initialize(
        segment_bytes=st.sampled_from([1, 150, 400, 2000, 5000]),
        first=st.sampled_from([0, 1, 1 << 40]),
        stretch=st.sampled_from([1, 300, STRETCH]),
    )
    def begin(self, segment_bytes: int, first: int, stretch: int) -> None:
        stream_segments.STRETCH = stretch
        self.disk = MemoryDisk()
        self.segment_bytes = segment_bytes
        self.files = self.opened()
        self.truth: list[Seen] = []
        self.handed: list[StreamRun] = []
        self.next = first
        self.now = START

    def opened(self) -> StreamFiles:
        files = StreamFiles(self.disk, STREAM, self.segment_bytes)
        files.open()
        return files

    @rule(runs=st.lists(st.tuples(CONTENTS, KEYS, TIMES), min_size=1, max_size=5), again=st.integers(0, 4))
    def append(self, runs: list[tuple[list[bytes], str, int]], again: int) -> None:
        made: list[StreamRun] = []
        for contents, key, later in runs:
            self.now += later
            made.append(run(self.next, *contents, key=key, time=self.now))
            self.next += len(contents)
        self.files.append([*self.handed[len(self.handed) - again :], *made] if self.handed else made)
        self.handed += made
        self.truth += seen_in(made)

    @rule(skip=st.integers(1, 6))
    def miss_some(self, skip: int) -> None:
        if self.truth:
            self.next += skip

    @rule(data=st.data())
    def hand_again(self, data: st.DataObject) -> None:
        if self.handed:
            first, time, messages = data.draw(st.sampled_from(self.handed))
            cut = data.draw(st.integers(0, len(messages)))
            self.files.append([StreamRun(first, time, messages[:cut]), StreamRun(first + cut, time, messages[cut:])])

    @rule()
    def sync(self) -> None:
        assert self.files.sync() == self.files.next

    @rule(cleanly=st.booleans())
    def reopen(self, cleanly: bool) -> None:
        before = (self.files.first, self.files.next, self.files.bytes)
        if cleanly:
            self.files.close()
        self.files = self.opened()
        assert (self.files.first, self.files.next, self.files.bytes) == before

    @rule(
        max_bytes=st.none() | st.integers(0, 2000),
        age=st.none() | st.integers(-20, 100),
        kept=st.none() | st.floats(0, 1),
    )
    def trim(self, max_bytes: int | None, age: int | None, kept: float | None) -> None:
        files = self.files
        before = None if age is None else self.now - age
        keep_from = None if kept is None else int(files.first + kept * (files.next - files.first))
        first = files.trim(max_bytes=max_bytes, before=before, keep_from=keep_from)
        gone = [seen for seen in self.truth if seen.offset < first]
        self.truth = self.truth[len(gone) :]
        assert bool(self.truth) == bool(self.handed)
        if gone:
            assert keep_from is None or first <= keep_from
            is_old = before is not None and gone[0].time < before
            assert is_old or max_bytes is not None

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        files = self.files
        start = data.draw(st.integers(files.first, files.next))
        stop = data.draw(st.integers(start, files.next + 3))
        wanted = [seen for seen in self.truth if start <= seen.offset < stop]
        assert [seen for chunk in files.chunks(start, stop) for seen in seen_in_chunk(chunk)] == wanted
        some = seen_in(files.read(start, stop, data.draw(st.integers(0, 500))))
        assert some == wanted[: len(some)]
        assert some or not wanted

    @rule(before=st.integers(-50, 400))
    def find(self, before: int) -> None:
        time = self.now - before
        found = next((seen.offset for seen in self.truth if seen.time >= time), self.files.next)
        assert self.files.offset_at(time) == found

    def teardown(self) -> None:
        stream_segments.STRETCH = STRETCH

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "files"):
            assert all_of(self.files) == self.truth
            if self.truth:
                assert self.files.first <= self.truth[0].offset
                assert self.files.next == self.truth[-1].offset + 1


TestStreamModel = StreamModel.TestCase
TestStreamModel.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
