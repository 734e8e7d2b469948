"""A power cut after every operation of a stream on the disk; then the journal hands again what was not synced.

Each workload is lived through once on a virtual disk. For every prefix of its operations come the disks that a crash
right there may leave. On each of them the stream opens; what was synced is there, nothing is altered or out of order,
no offset is missing; and with what the journal hands again, all is there. By default a part of the images, chosen by a
fixed seed; LEVERET_CRASH_ALL=1 takes all.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from leveret.store import stream_segments
from leveret.store.stream_files import StreamRun
from leveret.store.stream_segments import segment_path
from tests.support.streams import STREAM, Seen, all_of, opened, random_runs, run, seen_in
from tests.support.virtual_disk import VirtualDisk

ALL = bool(os.environ.get("LEVERET_CRASH_ALL"))
MOST = 1 << 30 if ALL else 8  # images of one crash, beside the extremes
SEEDS = range(40 if ALL else 3)

pytestmark = [pytest.mark.timeout(3600)] if ALL else []


@pytest.fixture(autouse=True)
def many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an index: one for every chunk or two, or the small segments here would have a single one."""
    monkeypatch.setattr(stream_segments, "STRETCH", 150)


class LivedStream:
    """A stream on a virtual disk, with the dates (numbers of operations) at which things were true."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.files = opened(self.disk)
        self.runs: list[StreamRun] = []
        self.handed = [(0, 0)]  # since when the journal has so many runs
        self.synced = [(0, 0)]  # since when the files are safe below this offset
        self.firsts = [(0, 0)]  # since when retention must have removed everything below this offset

    @property
    def now(self) -> int:
        return len(self.disk.operations)

    def append(self, runs: list[StreamRun]) -> None:
        self.runs += runs
        self.handed.append((self.now, len(self.runs)))
        self.files.append(runs)

    def sync(self) -> None:
        safe = self.files.sync()
        self.synced.append((self.now, safe))

    def trim(self, keep: int) -> None:
        begun = self.now
        self.firsts.append((begun, self.files.trim(max_bytes=keep, before=None, keep_from=None)))

    def reopen(self, cleanly: bool) -> None:
        if cleanly:
            self.files.close()
            self.synced.append((self.now, self.files.next))
        self.files = opened(self.disk)
        self.synced.append((self.now, self.files.next))


def at(dates: list[tuple[int, int]], crash: int) -> int:
    return max(value for date, value in dates if date <= crash)


def steady(lived: LivedStream, random: Random) -> None:
    for place in range(9):
        lived.append(random_runs(random, lived.files.next, 3))
        if place % 3 == 2:
            lived.sync()


def large(lived: LivedStream, random: Random) -> None:
    """Chunks of several pages, several of them in one write."""
    for _ in range(2):
        first = lived.files.next
        lived.append(
            [run(first, random.randbytes(9000), random.randbytes(700)), run(first + 3, random.randbytes(5000))]
        )
        lived.append(random_runs(random, lived.files.next, 4))
        lived.sync()


def forgetful(lived: LivedStream, random: Random) -> None:
    """Retention takes several segments at once."""
    for _ in range(2):
        for _ in range(12):
            lived.append(random_runs(random, lived.files.next, 1))
        lived.trim(700)
        lived.append(random_runs(random, lived.files.next, 2))


def restless(lived: LivedStream, random: Random) -> None:
    for _ in range(18):
        what = random.choice(("append", "append", "append", "sync", "trim", "kill", "close"))
        if what == "append":
            lived.append(random_runs(random, lived.files.next, random.randint(1, 6)))
        elif what == "sync":
            lived.sync()
        elif what == "trim":
            lived.trim(random.choice((500, 1000, 2000)))
        else:
            lived.reopen(what == "close")


def judge(lived: LivedStream, image: VirtualDisk, crash: int) -> None:
    truth = seen_in(lived.runs[: at(lived.handed, crash)])
    synced = at(lived.synced, crash)
    files = opened(image)
    found = all_of(files)
    assert is_part(found, truth), "altered, out of order, or with a hole"
    assert files.first <= at(lived.firsts, crash), "more is gone than retention took"
    assert files.next >= synced, "what was synced is missing"
    again = opened(image.copy())
    assert (again.first, again.next, all_of(again)) == (files.first, files.next, found), "opening twice differs"
    left = [each for each in lived.runs[: at(lived.handed, crash)] if each.first + len(each.messages) > synced]
    files.append(left)
    wanted = [seen for seen in truth if seen.offset >= files.first]
    assert all_of(files) == wanted, "what the journal hands again does not make it whole"
    files.close()
    assert all_of(opened(image)) == wanted


def is_part(found: list[Seen], truth: list[Seen]) -> bool:
    """Without a hole in it, other than the truth has."""
    if not found:
        return True
    begin = truth.index(found[0]) if found[0] in truth else 0
    return found == truth[begin : begin + len(found)]


WORKLOADS = [
    pytest.param(steady, 0, id="steady"),
    pytest.param(large, 0, id="large"),
    pytest.param(forgetful, 0, id="forgetful"),
    *(pytest.param(restless, seed, id=f"restless-{seed}") for seed in SEEDS),
]


@pytest.mark.parametrize(("workload", "seed"), WORKLOADS)
def test_a_power_cut_after_any_operation_costs_nothing(workload: object, seed: int) -> None:
    lived = LivedStream()
    workload(lived, Random(seed))  # type: ignore[operator]
    state, random, images = VirtualDisk(), Random(seed), 0
    for crash in range(lived.now + 1):
        for name, image in state.images(random, MOST):
            images += 1
            try:
                judge(lived, image, crash)
            except AssertionError as problem:
                raise AssertionError(f"after {crash} operations, {name}: {problem}") from problem
        judge(lived, state.fork(), crash)  # killed, not cut off
        if crash < lived.now:
            state.redo(lived.disk.operations[crash])
    assert images > 100


def test_lost_pages_between_what_was_synced_and_the_end_are_no_damage() -> None:
    """A later chunk that reached the disk before an earlier one is not believed: the journal hands both again."""
    lived = LivedStream()
    path = segment_path(STREAM, 0)
    lived.append([run(0, b"a" * 20)])
    lived.sync()
    synced = lived.disk.size(path)
    lived.append([run(1, b"b" * 20)])
    middle = lived.disk.size(path)
    lived.append([run(2, b"c" * 20)])
    image = lived.disk.copy()
    data = image.content(path)
    image.put(path, data[:synced] + bytes(middle - synced) + data[middle:])
    files = opened(image.copy())
    assert files.next == 1
    assert image.names("quarantine") == []
    judge(lived, image, lived.now)


def test_a_crash_may_come_while_the_stream_opens() -> None:
    """What was cut or written by an opening that did not end is no harm."""
    lived = LivedStream()
    lived.append([run(0, *[bytes(100)] * 8), run(8, b"a")])
    lived.sync()
    lived.append([run(9, b"b", b"c")])
    lived.append([run(11, b"d")])
    last = segment_path(STREAM, 9)
    torn = lived.disk.copy()
    torn.put(last, lived.disk.content(last)[:-20])
    opening = torn.fork()
    opened(opening)
    assert opening.operations
    state, random = torn.fork(), Random(2)
    for operation in opening.operations:
        for _, image in state.images(random, MOST):
            judge(lived, image, lived.now)
        state.redo(operation)
