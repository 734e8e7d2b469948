"""A disk that is full for a while, and a disk that fails: what is granted, what is kept, what is said."""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, EMFILE, ENFILE, ENOSPC, EROFS
from random import Random

import pytest

from leveret.errors import ResourceFault
from leveret.store.definitions import Put, VhostRow
from tests.support.store_harness import StoreHarness, look
from tests.support.virtual_disk import VirtualDisk

FULL = 1024
SHORTAGES = (ENOSPC, EMFILE, ENFILE)


def begun() -> StoreHarness:
    """Queues 1 and 2, each with the messages 1..8 of 40 bytes, in several segments; 1 and 2 are settled."""
    harness = StoreHarness(full_size=FULL)
    harness.begin()
    for _ in range(2):
        harness.declare()
    for n in range(1, 9):
        harness.publish([1, 2], b"before %d " % n * 5)
        harness.rest()
    harness.settle(1, 1, 2)
    harness.journal.promise()
    harness.rest()
    return harness


def fill(harness: StoreHarness, room: int = 0) -> None:
    harness.disk.capacity = harness.disk.used + room


def give_room(harness: StoreHarness) -> None:
    harness.disk.capacity = None
    if harness.journal.batches.held is not None:
        harness.journal.space_returned()
    harness.rest()


def check(harness: StoreHarness) -> None:
    """Whatever a crash may leave now keeps what was promised."""
    state = VirtualDisk()
    for operation in harness.disk.operations:
        state.redo(operation)
    for _, image in state.images(Random(1), 20):
        harness.ledger.check(look(image, FULL), len(harness.disk.operations))


# ---- full


def test_nothing_is_granted_while_the_disk_is_full() -> None:
    harness = begun()
    fill(harness, 10)
    granted = harness.journal.granted
    receipts = [harness.publish([1], b"too much" * 9) for _ in range(3)]
    harness.rest()
    assert harness.journal.batches.held is not None
    assert harness.journal.batches.held_bytes > 3 * 72
    receipts.append(harness.publish([2], b"and more" * 9))
    harness.rest()
    assert harness.journal.granted == granted
    give_room(harness)
    assert harness.journal.batches.held is None
    assert harness.journal.granted == receipts[-1]
    found = look(harness.disk.copy(), FULL)
    assert found.bodies(1)[-3:] == [b"too much" * 9] * 3
    assert found.bodies(2)[-1:] == [b"and more" * 9]


def test_settles_get_through_by_the_reserve() -> None:
    harness = begun()
    fill(harness)
    harness.publish([1], b"too much" * 9)
    harness.rest()
    harness.settle(2, 3, 4)
    harness.rest()
    assert len(look(harness.disk.copy(), FULL).bodies(2)) == 6
    check(harness)


def test_a_promise_waits_for_the_room_and_then_holds() -> None:
    harness = begun()
    fill(harness)
    harness.publish([1], b"too much" * 9)
    harness.rest()
    harness.settle(1, 3)
    receipt = harness.journal.promise()
    harness.rest()
    assert harness.journal.granted < receipt
    give_room(harness)
    assert harness.journal.granted >= receipt
    check(harness)


def test_what_was_settled_while_it_waited_for_room_never_returns() -> None:
    """Placed and failed, or never placed: it is written later all the same, for its neighbours' sake."""
    harness = begun()
    fill(harness, 10)
    harness.publish([1], *(b"a%d" % n * 30 for n in range(4)))
    harness.rest()
    harness.publish([1], *(b"b%d" % n * 30 for n in range(4)))
    harness.settle(1, 9, 11)
    harness.rest()
    harness.settle(1, 13, 15)
    receipt = harness.journal.promise()
    harness.rest()
    give_room(harness)
    assert harness.journal.granted >= receipt
    for n in range(30):  # until everything of that time is carried away or gone
        harness.publish([2], b"later" * 40)
        harness.settle(2, n + 1)
        harness.rest()
        check(harness)
    bodies = look(harness.disk.copy(), FULL).bodies(1)
    assert [body[:2] for body in bodies[6:]] == [b"a1", b"a3", b"b1", b"b3"]


def test_what_was_settled_while_it_waited_is_granted_early() -> None:
    harness = begun()
    early: list[set[int]] = []
    harness.listener.on_early = early.append
    fill(harness)
    receipt = harness.publish([1], b"too much" * 9)
    harness.rest()
    harness.settle(1, 9)
    harness.turn()
    assert early == [{receipt}]


def test_a_transaction_that_waited_is_whole() -> None:
    harness = begun()
    fill(harness)
    harness.publish([1], b"waits" * 9)
    harness.rest()
    with harness.journal.group():
        harness.publish([2], b"moved" * 9)
        harness.settle(1, 9)
    harness.rest()
    check(harness)
    harness.disk.capacity = None
    harness.journal.space_returned()
    for _ in range(20):
        harness.turn()
        harness.wait()
        if harness.waiting:
            check(harness)
            harness.write()
    check(harness)
    found = look(harness.disk.copy(), FULL)
    assert found.bodies(1)[-1] != b"waits" * 9
    assert found.bodies(2)[-1] == b"moved" * 9


def test_a_transaction_that_waits_is_not_obeyed_in_part() -> None:
    """What it settles stays on disk until all of it is there: a move must not lose its message."""
    harness = begun()
    fill(harness, 100)
    with harness.journal.group():
        harness.publish([2], *(b"moved %d" % n * 9 for n in range(1, 5)))
        harness.settle(1, *range(3, 9))
    harness.rest()
    assert harness.journal.batches.held is not None
    harness.settle(2, *range(1, 9))  # nothing else keeps the old segments
    harness.rest()
    check(harness)
    assert len(look(harness.disk.copy(), FULL).bodies(1)) == 6
    give_room(harness)
    check(harness)
    found = look(harness.disk.copy(), FULL)
    assert (len(found.bodies(1)), len(found.bodies(2))) == (0, 4)
    roomy = harness.disk.used
    harness.publish([1], b"time goes by")
    harness.rest()
    assert harness.disk.used <= roomy + FULL


@pytest.mark.parametrize("errno", SHORTAGES)
def test_definitions_wait_too(errno: int) -> None:
    harness = begun()

    def refuse(kind: str, path: str) -> OSError | None:
        return OSError(errno, "not now") if kind == "apply" else None

    harness.disk.fault = refuse
    receipt = harness.journal.record(Put(VhostRow("v", None, None)))
    harness.rest()
    assert harness.journal.granted < receipt
    harness.disk.fault = lambda kind, path: None
    give_room(harness)
    assert harness.journal.granted >= receipt
    assert (VhostRow, ("v",)) in harness.disk.rows


@pytest.mark.parametrize("errno", SHORTAGES)
def test_a_shortage_in_which_nothing_gets_through_loses_nothing_either(errno: int) -> None:
    harness = begun()
    fill(harness)
    harness.disk.fault = lambda kind, path: OSError(errno, "not now") if kind in ("append", "create") else None
    harness.publish([1], b"too much" * 9)
    harness.rest()
    harness.settle(1, 3)
    harness.rest()
    assert harness.journal.batches.is_stuck
    harness.settle(1, 4)
    harness.rest()
    check(harness)
    harness.disk.fault = lambda kind, path: None
    give_room(harness)
    bodies = look(harness.disk.copy(), FULL).bodies(1)
    assert bodies == [*(b"before %d " % n * 5 for n in range(5, 9)), b"too much" * 9]
    assert harness.journal.granted == harness.journal.issued


def test_a_reclaim_that_finds_no_room_leaves_the_old_files() -> None:
    """Copies that could not be written replace nothing."""
    harness = begun()
    harness.reclaims = False
    harness.settle(1, 3, 4, 5)
    harness.settle(2, 1, 2, 4, 5)
    harness.rest()
    fill(harness, 40)
    harness.reclaim.consider()
    harness.rest()
    assert harness.journal.batches.held is not None
    check(harness)
    give_room(harness)
    harness.reclaims = True
    harness.publish([1], b"after")
    harness.rest()
    check(harness)
    assert len(look(harness.disk.copy(), FULL).bodies(2)) == 4


def test_tries_survive_a_return_that_finds_no_room() -> None:
    harness = begun()
    harness.journal.returned(1, 0, 5, 1, 3)
    harness.journal.promise()
    harness.rest()
    for _ in range(4):  # in a segment of its own
        harness.publish([2], b"apart" * 60)
        harness.rest()
    fill(harness)
    harness.journal.returned(1, 0, 5, 1, 4)
    harness.publish([2], b"too much" * 9)
    harness.rest()
    harness.settle(2, *range(1, 13))
    harness.rest()
    check(harness)
    assert look(harness.disk.copy(), FULL).tries[1, 0, 5] >= 3
    give_room(harness)
    assert look(harness.disk.copy(), FULL).tries[1, 0, 5] == 4


def scenario(harness: StoreHarness) -> None:
    """Publishes, groups, acks and returns, a segment or two of them."""
    for n in range(6):
        harness.publish([1, 2], b"during %d " % n * 6)
        harness.turn()
        with harness.journal.group():
            harness.publish([2], b"group %d " % n * 6)
            harness.settle(1, 3 + n)
        harness.journal.returned(2, 0, 1 + n, 1, n + 1)
        harness.rest()
        harness.settle(2, 2 * n + 1)
        if n % 2:
            harness.journal.promise()
        harness.rest()


def appends() -> int:
    harness = begun()
    before = len(harness.disk.operations)
    scenario(harness)
    return sum(operation.kind == "append" for operation in harness.disk.operations[before:])


@pytest.mark.parametrize("room", [0, 1, 60])
@pytest.mark.parametrize("place", range(appends()))
def test_room_may_end_at_any_write(place: int, room: int) -> None:
    """Nothing granted is lost, nothing promised to be gone returns; when there is room again, all is there."""
    harness = begun()
    left = place

    def full_from_now_on(kind: str, path: str) -> OSError | None:
        nonlocal left
        if kind == "append":
            left -= 1
            if left == -1:
                harness.disk.capacity = harness.disk.used + room
        return None

    harness.disk.fault = full_from_now_on
    scenario(harness)
    check(harness)
    give_room(harness)
    assert harness.journal.granted == harness.journal.issued
    check(harness)
    harness.publish([1], b"goes on")
    harness.rest()
    check(harness)


# ---- broken


def fail_at(harness: StoreHarness, kind: str, error: int) -> Callable[[str, str], OSError | None]:
    return lambda what, path: OSError(error, "told to fail") if what == kind and path.endswith(".seg") else None


@pytest.mark.parametrize(("kind", "error"), [("append", EIO), ("sync", EIO), ("append", EROFS), ("create", EIO)])
def test_a_failed_write_or_sync_is_the_end_of_writing(kind: str, error: int) -> None:
    harness = begun()
    harness.disk.fault = fail_at(harness, kind, error)
    granted = harness.journal.granted
    for _ in range(12):  # for a new segment at the latest
        harness.publish([1], b"doubtful " * 9)
        harness.turn()
        if harness.journal.failure is None:
            granted = harness.journal.granted
            harness.write()
    assert harness.journal.failure is not None
    assert harness.losses >= 1
    told = [receipt for receipt in (harness.journal.issued,) if receipt <= granted]
    assert told == []
    with pytest.raises(ResourceFault, match="read-only"):
        harness.journal.record(Put(VhostRow("v", None, None)))


def test_after_a_failure_nothing_is_written_and_nothing_granted() -> None:
    harness = begun()
    granted: list[int] = []
    harness.listener.on_granted = granted.append
    harness.disk.fault = fail_at(harness, "sync", EIO)
    harness.publish([1], b"doubtful")
    harness.rest()
    harness.disk.fault = lambda kind, path: None
    before, losses = len(harness.disk.operations), harness.losses
    assert losses
    harness.publish([1], b"refused")
    harness.settle(1, 3)
    harness.journal.promise()
    harness.journal.returned(1, 0, 4, 1, 1)
    with harness.journal.group():
        harness.publish([2], b"refused")
    harness.rest()
    harness.journal.stop()
    harness.rest()
    assert len(harness.disk.operations) == before
    assert granted == []
    assert harness.losses > losses
    check(harness)


def test_what_was_in_flight_with_the_failed_batch_is_lost_too() -> None:
    harness = begun()
    harness.publish([1], b"first")
    harness.turn()
    harness.publish([1], b"second")
    harness.turn()
    harness.disk.fault = fail_at(harness, "append", EIO)
    granted = harness.journal.granted
    harness.write()
    assert harness.losses == 1
    assert granted < harness.journal.issued
    assert not harness.journal.batches.in_flight


def test_a_failure_of_the_definitions_is_one_of_the_store() -> None:
    harness = begun()
    harness.disk.fault = lambda kind, path: OSError(EIO, "told to fail") if kind == "apply" else None
    harness.journal.record(Put(VhostRow("v", None, None)))
    harness.rest()
    assert harness.journal.failure is not None
    assert harness.losses == 1


def test_after_a_failure_the_next_start_has_all_that_was_granted() -> None:
    harness = begun()
    harness.disk.fault = fail_at(harness, "sync", EIO)
    harness.publish([1], b"doubtful")
    harness.rest()
    harness.disk.fault = lambda kind, path: None
    again = StoreHarness(harness.disk.copy(), full_size=FULL)
    again.begin()
    again.publish([1], b"goes on")
    again.rest()
    bodies = look(again.disk.copy(), FULL).bodies(1)
    assert bodies[:6] == [b"before %d " % n * 5 for n in range(3, 9)]
    assert bodies[-1] == b"goes on"
