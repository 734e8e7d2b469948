"""A power cut after every single operation on the disk, in every shape it may take: nothing promised is broken.

Each workload (tests/support/store_workloads.py) is lived through once on a virtual disk. Then, for every prefix of its
operations, come the disks that a crash right there may leave. Each of them is recovered, recovered again, used by
another run that publishes on top and reclaims what it finds worth it, and recovered once more; and everything found is
held against the ledger of what was promised by then.

By default a part of the images, chosen by a fixed seed, and another run on every third of them; every operation has
its turn. LEVERET_CRASH_MORE=1 takes more, as ``make crash`` does, LEVERET_CRASH_ALL=1 all.
"""

from __future__ import annotations

import os
from functools import cache, partial
from hashlib import blake2b
from random import Random

import pytest

from leveret.store import reclaim
from leveret.store.recovery import Recovered, recover
from leveret.store.run_block import Run
from tests.support.broker_harness import BrokerHarness
from tests.support.ledger import Ledger, Seen
from tests.support.store_harness import StoreHarness, look
from tests.support.store_workloads import SMALL, WORKLOADS, Restless, Workload, lived_through, restless
from tests.support.virtual_disk import VirtualDisk

ALL = bool(os.environ.get("LEVERET_CRASH_ALL"))
MORE = ALL or bool(os.environ.get("LEVERET_CRASH_MORE"))
SEED = int(os.environ.get("LEVERET_CRASH_SEED", "16"))
MOST = 1 << 30 if ALL else 14 if MORE else 5  # images of one crash, beside the extremes
LIVE_ON = 1 if MORE else 3  # every n-th image gets another run
KILLS = 50 if MORE else 25
SEEDS = range(40 if ALL else 3)
LIVES = 1000 if ALL else 50  # times eight
SLICES = 512

pytestmark = [pytest.mark.timeout(3600)] if ALL else []

EVERY = [pytest.param(workload, id=workload.__name__) for workload in WORKLOADS]
EVERY += [pytest.param(partial(restless, seed=seed), id=f"restless-{seed}") for seed in SEEDS]


@cache
def lived(workload: Workload) -> BrokerHarness:
    return lived_through(workload, SLICES)


class Judge:
    """Looks at images of one workload; what was recovered once is not recovered again, only judged by the new date."""

    def __init__(self, harness: BrokerHarness, *, goes_on: bool = True) -> None:
        self.ledger = harness.ledger
        self.images = 0
        self._goes_on = goes_on
        self._seen: dict[bytes, Seen] = {}

    def judge(self, image: VirtualDisk, crash: int) -> Seen:
        self.images += 1
        fingerprint = _fingerprint(image)
        seen = self._seen.get(fingerprint)
        if seen is None:
            found = look(image, SMALL)
            again = recover(image, image.queues(), SMALL)
            assert outline(again) == outline(found.recovered), "recovering twice gives something else"
            seen = self._seen[fingerprint] = found
            if self._goes_on and len(self._seen) % LIVE_ON == 0:
                assert plain(after_another_life(image)) == plain(seen), "another life on top changes what was there"
        self.ledger.check(seen, crash)
        return seen


def _fingerprint(image: VirtualDisk) -> bytes:
    digest = blake2b(repr(sorted(image.queues())).encode())
    for path, data in sorted(image.files().items()):
        digest.update(f"{path} {len(data)} ".encode() + data)
    return digest.digest()


def outline(recovered: Recovered) -> dict[int, tuple[list[Run], dict[int, tuple[int, int]], int]]:
    return {key: (list(lane.index), lane.tries, lane.tail) for key, lane in recovered.lanes.items()}


def plain(seen: Seen) -> tuple[object, ...]:
    messages = {
        key: (content, address.exchange, address.key, traits.priority, traits.deadline)
        for key, (content, address, traits) in seen.messages.items()
    }
    return messages, seen.tries


def after_another_life(image: VirtualDisk) -> Seen:
    """Ten more messages, in a queue of their own and in one that is there; what of the rest is still there."""
    queues = sorted(image.queues())
    harness = StoreHarness(image, full_size=SMALL)
    harness.begin()
    own = harness.declare()
    for n in range(10):
        harness.publish([own, *queues[:1]], b"on top %d" % n * 20)
        if n % 5 == 4:
            harness.rest()
    seen = look(image, SMALL)
    assert seen.bodies(own) == [b"on top %d" % n * 20 for n in range(10)]
    for queue in queues[:1]:
        assert seen.bodies(queue)[-10:] == seen.bodies(own)
    return without(seen, own, queues[:1])


def without(seen: Seen, own: int, shared: list[int]) -> Seen:
    """Without the ten, as if they had not been published."""
    on_top = {(queue, 0, sequence) for queue in shared for sequence in _last_ten(seen, queue)}
    messages = {key: message for key, message in seen.messages.items() if key[0] != own and key not in on_top}
    return Seen(messages, seen.tries, seen.tails, seen.queues - {own})


def _last_ten(seen: Seen, queue: int) -> list[int]:
    return sorted(sequence for where, lane, sequence in seen.messages if (where, lane) == (queue, 0))[-10:]


@pytest.mark.parametrize("workload", EVERY)
@pytest.mark.feature("S4-16", "S4-18", "S4-20", "S4-23", "S4-24", "S4-25")
def test_a_power_cut_after_any_write_breaks_no_promise(workload: Workload) -> None:
    """Files are only appended to, groups are whole, and so is a reclaim."""
    harness = lived(workload)
    judge, state, random = Judge(harness), VirtualDisk(), Random(SEED)
    operations = harness.disk.operations
    for crash in range(len(operations) + 1):
        for name, image in state.images(random, MOST):
            try:
                judge.judge(image, crash)
            except AssertionError as problem:
                done = operations[crash - 1] if crash else None
                raise AssertionError(f"after {crash} operations ({done and done[:2]}), {name}: {problem}") from problem
        if crash < len(operations):
            state.redo(operations[crash])
    assert judge.images > len(operations)


@pytest.mark.parametrize("workload", EVERY)
def test_a_power_cut_soon_after_a_kill_breaks_no_promise_either(workload: Workload) -> None:
    """A killed process leaves what it wrote in the system's cache: the next one must not build on that as it is."""
    harness = lived(workload)
    operations, random = harness.disk.operations, Random(SEED + 1)
    step = 1 if ALL else 1 + len(operations) // KILLS
    judge = Judge(harness, goes_on=False)
    for kill in range(random.randrange(step), len(operations) + 1, step):
        killed = VirtualDisk()
        for operation in operations[:kill]:
            killed.redo(operation)
        second = StoreHarness(killed, full_size=SMALL)
        state = VirtualDisk()
        for operation in operations[:kill]:
            state.redo(operation)
        second.begin()
        own = second.declare()
        second.publish([own], b"of the second life" * 9)
        second.rest()
        for operation in killed.operations:
            state.redo(operation)
            for name, image in state.images(random, 1 << 30 if ALL else 3):
                try:
                    judge_second_life(judge, image, own, kill)
                except AssertionError as problem:
                    raise AssertionError(f"killed at {kill}, cut at {operation[:2]}, {name}: {problem}") from problem
    assert judge.images > len(operations)


def judge_second_life(judge: Judge, image: VirtualDisk, own: int, kill: int) -> None:
    """The operations of the second run are not in the ledger: check the rest."""
    seen = look(image, SMALL)
    judge.images += 1
    messages = {key: message for key, message in seen.messages.items() if key[0] != own}
    judge.ledger.check(Seen(messages, seen.tries, seen.tails, seen.queues - {own}), kill)


@pytest.mark.parametrize("is_short", [False, True], ids=["with room", "short of room"])
@pytest.mark.parametrize("first", range(0, LIVES, 10))
def test_many_runs_each_ended_by_a_crash_keep_every_guarantee(
    first: int, is_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one recovery found is there for the next, and what it did not find never comes back."""
    monkeypatch.setattr(reclaim, "SLICE", SLICES)
    for seed in range(first, first + 10):
        random, ledger, disk = Random(seed), Ledger(), VirtualDisk()
        for life in range(8):
            try:
                disk = live_and_die(disk, ledger, random, is_short)
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}, life {life}: {problem}") from problem


def live_and_die(disk: VirtualDisk, ledger: Ledger, random: Random, is_short: bool) -> VirtualDisk:
    """The disk after a run and one of its possible ends: a power cut, or the end of the process."""
    state = disk.fork()
    harness = BrokerHarness(disk, full_size=SMALL, ledger=ledger)
    ledger.begin_life(look(disk.copy(), SMALL))
    harness.begin()
    begun = len(disk.operations)
    Restless(harness, random, is_short=is_short).live(random.randint(1, 40))
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
    return image


@pytest.mark.feature("S4-22", "S4-23")
def test_reclaim_takes_part_in_what_is_tested() -> None:
    """Or else the tests above show nothing about it."""
    assert reclaim.SLICE > SLICES
    harness = lived(WORKLOADS[4])
    kinds = [operation.kind for operation in harness.disk.operations]
    assert kinds.count("remove") > 4
    assert kinds.count("create") > 4
