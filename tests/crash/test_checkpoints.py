"""Checkpoints and crashes: whatever happens to one, a start finds what a scan of the whole journal finds.

Every ``look`` recovers both ways and compares them (tests/support/store_harness.py). The workloads are those of
test_every_write.py, with a checkpoint after every few records, taken in the smallest steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import BinaryIO

import pytest

from leveret.message import NEVER
from leveret.store import checkpoints, reclaim
from leveret.store.checkpoint import checkpoint_path, checkpoints_on
from leveret.store.comparison import differences
from leveret.store.recovery import recover
from tests.support.broker_harness import BrokerHarness
from tests.support.broker_process import BrokerProcess
from tests.support.crash_cycles import CrashCycles
from tests.support.ledger import Ledger
from tests.support.store_harness import StoreHarness, look, message
from tests.support.store_workloads import SMALL, WORKLOADS, Restless, Workload, restless
from tests.support.virtual_disk import VirtualDisk

ALL = bool(os.environ.get("LEVERET_CRASH_ALL"))
MORE = ALL or bool(os.environ.get("LEVERET_CRASH_MORE"))
SEED = int(os.environ.get("LEVERET_CRASH_SEED", "23"))
MOST = 1 << 30 if ALL else 8 if MORE else 2  # images of one crash, beside the extremes
LIVES = 1000 if ALL else 100 if MORE else 40  # times eight
DAMAGES = 2000 if MORE else 100
SLICES = 512
CYCLES = int(os.environ.get("LEVERET_CRASH_CYCLES", "10"))

EVERY = [pytest.param(workload, id=workload.__name__) for workload in WORKLOADS]
EVERY += [pytest.param(partial(restless, seed=seed), id=f"restless-{seed}") for seed in range(3)]

pytestmark = [pytest.mark.timeout(3600)] if ALL else []


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    before = checkpoints.STEP, reclaim.SLICE
    checkpoints.STEP, reclaim.SLICE = 1, SLICES
    yield
    checkpoints.STEP, reclaim.SLICE = before


@cache
def lived(workload: Workload) -> BrokerHarness:
    harness = BrokerHarness(full_size=SMALL, checkpoint_every=SMALL // 2)
    harness.begin()
    workload(harness)
    return harness


@pytest.mark.parametrize("workload", EVERY)
def test_a_power_cut_after_any_write_leaves_a_checkpoint_that_agrees_with_the_journal(workload: Workload) -> None:
    harness = lived(workload)
    state, random = VirtualDisk(), Random(SEED)
    operations = harness.disk.operations
    used = 0
    for crash in range(len(operations) + 1):
        for name, image in state.images(random, MOST):
            try:
                seen = look(image, SMALL)
                harness.ledger.check(seen, crash)
            except AssertionError as problem:
                done = operations[crash - 1] if crash else None
                raise AssertionError(f"after {crash} operations ({done and done[:2]}), {name}: {problem}") from problem
            used += seen.recovered.checkpoint is not None
        if crash < len(operations):
            state.redo(operations[crash])
    assert used, "no recovery used a checkpoint"


@pytest.mark.parametrize("is_short", [False, True], ids=["with room", "short of room"])
@pytest.mark.parametrize("first", range(0, LIVES, 10))
def test_many_lives_with_checkpoints_keep_every_promise(first: int, is_short: bool) -> None:
    used = 0
    for seed in range(first, first + 10):
        random, ledger, disk = Random(seed), Ledger(), VirtualDisk()
        for life in range(8):
            try:
                disk, checkpoint = live_and_die(disk, ledger, random, is_short)
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}, life {life}: {problem}") from problem
            used += checkpoint is not None
    assert used > 10


class Clients(Restless):
    """Some of their messages have a deadline of their own, far away."""

    def _post(self, name: str) -> None:
        chance = self.random
        run = [
            message(body, priority=chance.randint(0, 3), deadline=chance.choice((NEVER, 1e6 + chance.randrange(1000))))
            for body in self._bodies()
        ]
        self.harness.post_run(name, run)


def live_and_die(disk: VirtualDisk, ledger: Ledger, random: Random, is_short: bool) -> tuple[VirtualDisk, int | None]:
    """The disk after a life and one of its possible ends, and the checkpoint that the life began with."""
    state = disk.fork()
    every = random.choice([1, SMALL // 2, SMALL * 2])
    harness = BrokerHarness(disk, full_size=SMALL, ledger=ledger, checkpoint_every=every)
    found = look(disk.copy(), SMALL)
    ledger.begin_life(found)
    harness.begin()
    begun = len(disk.operations)
    Clients(harness, random, is_short=is_short).live(random.randint(1, 40))
    if random.random() < 0.3 and harness.journal.batches.held is None:
        harness.stop()
    crash = random.randint((begun + len(disk.operations)) // 2, len(disk.operations))
    for operation in disk.operations[:crash]:
        state.redo(operation)
    name, image = random.choice(list(state.images(random)))
    if random.random() < 0.3:
        name, image = "killed", state.fork()
    try:
        ledger.check(look(image.fork(), SMALL), crash)
    except AssertionError as problem:
        raise AssertionError(f"after {crash} operations, {name}: {problem}") from problem
    return image, found.recovered.checkpoint


# ---- files that are not what they were


@cache
def left() -> VirtualDisk:
    """A disk with a checkpoint and records behind it, in several segments."""
    harness = BrokerHarness(full_size=SMALL, checkpoint_every=SMALL * 2)
    harness.begin()
    harness.make("kept")
    for n in range(30):
        harness.post("kept", b"%d" % n * 100)
        harness.rest()
    clients = Clients(harness, Random(SEED))
    clients.live(150)
    harness.rest()
    harness.takes_checkpoints = False
    clients.live(30)
    harness.rest()
    (following,) = checkpoints_on(harness.disk)
    assert f"{following:010d}.seg" < harness.segments[-1]
    assert any(f"{following:010d}.seg" > name for name in harness.segments)
    return harness.disk.copy()


def judge(image: VirtualDisk, *, is_used: bool) -> None:
    """Look, go on, and look again; the checkpoint is used, or removed."""
    before = checkpoints_on(image)
    found = look(image, SMALL)
    assert (found.recovered.checkpoint is not None) == is_used
    assert checkpoints_on(image) == (before if is_used else [])
    harness = StoreHarness(image, full_size=SMALL, checkpoint_every=SMALL)
    harness.begin()
    queue = harness.declare()
    harness.publish([queue], b"goes on")
    harness.rest()
    later = look(image, SMALL)
    assert later.bodies(queue) == [b"goes on"]
    assert {key: each for key, each in later.messages.items() if key[0] != queue}.keys() == found.messages.keys()


def test_an_undamaged_checkpoint_is_used() -> None:
    judge(left().copy(), is_used=True)


def test_a_damaged_checkpoint_costs_a_full_scan_and_nothing_else() -> None:
    random = Random(SEED)
    path = checkpoint_path(checkpoints_on(left())[0])
    data = left().content(path)
    for n in range(DAMAGES):
        image = left().copy()
        other = bytearray(data)
        if n % 4 == 0:
            del other[random.randrange(len(data)) :]
        elif n % 4 == 1:
            start = random.randrange(0, len(data), 512)
            other[start : start + 512] = bytes(len(other[start : start + 512]))
        elif n % 4 == 2:
            other += random.randbytes(random.randint(1, 100))
        else:
            other[random.randrange(len(data))] ^= 1 << random.randrange(8)
        if other == data:
            continue
        image.put(path, bytes(other))
        if n % 20 == 0:
            judge(image, is_used=False)
        else:
            assert recover(image, image.queues(), SMALL).checkpoint is None
            assert not checkpoints_on(image)


def test_a_checkpoint_under_another_name_is_not_used() -> None:
    image = left().copy()
    (following,) = checkpoints_on(image)
    image.put(checkpoint_path(following + 1), image.content(checkpoint_path(following)))
    image.remove(checkpoint_path(following))
    judge(image, is_used=False)


def lower_segments(image: VirtualDisk) -> list[str]:
    (following,) = checkpoints_on(image)
    names = [name for name in image.names("journal") if name.endswith(".seg") and name < f"{following:010d}"]
    return [f"journal/{name}" for name in names]


def test_a_segment_that_changed_since_makes_the_checkpoint_useless() -> None:
    for path in lower_segments(left()):
        data = left().content(path)
        for other in (data[:-1], data + b"x", data[:-1] + bytes((data[-1] ^ 1,)), b""):
            image = left().copy()
            image.put(path, other)
            found = recover(image, image.queues(), SMALL)
            assert found.checkpoint is None


def test_a_segment_that_came_back_makes_the_checkpoint_useless() -> None:
    image = left().copy()
    (following,) = checkpoints_on(image)
    known = {int(path[8:18]) for path in lower_segments(image)}
    (other, *_) = set(range(1, following)) - known
    image.put(f"journal/{other:010d}.seg", b"")
    judge(image, is_used=False)


def test_a_segment_that_is_gone_costs_its_messages_only() -> None:
    """As without a checkpoint: a segment that reclaim removed is gone as well."""
    for path in lower_segments(left()):
        image = left().copy()
        image.remove(path)
        scanned = recover(image, image.queues(), SMALL, repair=False, lineage=None)
        found = recover(image, image.queues(), SMALL)
        gone = int(path[8:18])
        assert found.checkpoint is not None
        assert all(run.segment != gone for lane in found.lanes.values() for run in lane.index)
        assert not [each for each in differences(found, scanned) if "segment" in each]


def test_damage_behind_the_checkpoint_is_found_as_without_one() -> None:
    random = Random(SEED)
    (following,) = checkpoints_on(left())
    names = [name for name in left().names("journal") if name.endswith(".seg") and name >= f"{following:010d}"]
    for _ in range(DAMAGES):
        image = left().copy()
        path = f"journal/{random.choice(names)}"
        data = bytearray(image.content(path))
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        image.put(path, bytes(data))
        scanned = recover(image.copy(), image.queues(), SMALL, lineage=None)
        found = recover(image, image.queues(), SMALL)
        assert found.damages == scanned.damages
        assert found.checkpoint == following
        assert not differences(found, scanned)


# ---- a real broker


FREQUENT = """
import sys
from leveret.store.checkpoints import Checkpoints
Checkpoints.__init__.__defaults__ = (int(sys.argv.pop(1)),)
from leveret.cli.main import main
main()
"""


class FrequentServing(BrokerProcess):
    """Takes a checkpoint after every 100 kB."""

    def begin(
        self, arguments: Sequence[str], log: BinaryIO, environ: Mapping[str, str], before: Callable[[], None] | None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", FREQUENT, "100000", *arguments], stdout=subprocess.PIPE, stderr=log, env=environ
        )


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * CYCLES)
def test_nothing_confirmed_is_lost_when_a_broker_with_many_checkpoints_is_killed(tmp_path: Path, seed: int) -> None:
    lives = CrashCycles(lambda: FrequentServing(tmp_path, "--segment-size", "64KiB", "--queue-memory", "64KiB"), seed)
    taken = 0
    for _ in range(CYCLES):
        is_stopped = lives.random.random() < 0.2
        end = BrokerProcess.terminate if is_stopped else lambda serving: serving.process.kill()
        lives.live(lives.random.uniform(0.2, 1.5), end)
        taken += bool(list((tmp_path / "data/journal").glob("*.checkpoint")))
        refused = [line for line in (tmp_path / "log").read_text().splitlines() if " checkpoint " in line]
        assert not refused, refused
    lives.finish()
    assert taken > CYCLES // 2
