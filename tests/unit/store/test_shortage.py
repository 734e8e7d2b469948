"""A disk that is full for a while, and a disk that fails: what is granted, what is kept, what is said."""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, EMFILE, ENFILE, ENOSPC, EROFS
from random import Random

import pytest

from leveret.errors import ResourceFault
from leveret.store.definitions import Put, VhostRow
from tests.support.store_house import StoreHouse, look
from tests.support.virtual_disk import VirtualDisk

FULL = 1024
SHORTAGES = (ENOSPC, EMFILE, ENFILE)


def begun() -> StoreHouse:
    """Queues 1 and 2, each with the messages 1..8 of 40 bytes, in several segments; 1 and 2 are settled."""
    house = StoreHouse(full_size=FULL)
    house.begin()
    for _ in range(2):
        house.declare()
    for n in range(1, 9):
        house.publish([1, 2], b"before %d " % n * 5)
        house.rest()
    house.settle(1, 1, 2)
    house.journal.promise()
    house.rest()
    return house


def fill(house: StoreHouse, room: int = 0) -> None:
    house.disk.capacity = house.disk.used + room


def give_room(house: StoreHouse) -> None:
    house.disk.capacity = None
    if house.journal.batches.held is not None:
        house.journal.space_returned()
    house.rest()


def check(house: StoreHouse) -> None:
    """Whatever a crash may leave now keeps what was promised."""
    state = VirtualDisk()
    for operation in house.disk.operations:
        state.redo(operation)
    for _, image in state.images(Random(1), 20):
        house.ledger.check(look(image, FULL), len(house.disk.operations))


# ---- full


def test_nothing_is_granted_while_the_disk_is_full() -> None:
    house = begun()
    fill(house, 10)
    granted = house.journal.granted
    receipts = [house.publish([1], b"too much" * 9) for _ in range(3)]
    house.rest()
    assert house.journal.batches.held is not None
    assert house.journal.batches.held_bytes > 3 * 72
    receipts.append(house.publish([2], b"and more" * 9))
    house.rest()
    assert house.journal.granted == granted
    give_room(house)
    assert house.journal.batches.held is None
    assert house.journal.granted == receipts[-1]
    found = look(house.disk.copy(), FULL)
    assert found.bodies(1)[-3:] == [b"too much" * 9] * 3
    assert found.bodies(2)[-1:] == [b"and more" * 9]


def test_settles_get_through_by_the_reserve() -> None:
    house = begun()
    fill(house)
    house.publish([1], b"too much" * 9)
    house.rest()
    house.settle(2, 3, 4)
    house.rest()
    assert len(look(house.disk.copy(), FULL).bodies(2)) == 6
    check(house)


def test_a_promise_waits_for_the_room_and_then_holds() -> None:
    house = begun()
    fill(house)
    house.publish([1], b"too much" * 9)
    house.rest()
    house.settle(1, 3)
    receipt = house.journal.promise()
    house.rest()
    assert house.journal.granted < receipt
    give_room(house)
    assert house.journal.granted >= receipt
    check(house)


def test_what_was_settled_while_it_waited_for_room_never_returns() -> None:
    """Placed and failed, or never placed: it is written later all the same, for its neighbours' sake."""
    house = begun()
    fill(house, 10)
    house.publish([1], *(b"a%d" % n * 30 for n in range(4)))
    house.rest()
    house.publish([1], *(b"b%d" % n * 30 for n in range(4)))
    house.settle(1, 9, 11)
    house.rest()
    house.settle(1, 13, 15)
    receipt = house.journal.promise()
    house.rest()
    give_room(house)
    assert house.journal.granted >= receipt
    for n in range(30):  # until everything of that time is carried away or gone
        house.publish([2], b"later" * 40)
        house.settle(2, n + 1)
        house.rest()
        check(house)
    bodies = look(house.disk.copy(), FULL).bodies(1)
    assert [body[:2] for body in bodies[6:]] == [b"a1", b"a3", b"b1", b"b3"]


def test_what_was_settled_while_it_waited_is_granted_early() -> None:
    house = begun()
    early: list[set[int]] = []
    house.listener.on_early = early.append
    fill(house)
    receipt = house.publish([1], b"too much" * 9)
    house.rest()
    house.settle(1, 9)
    house.turn()
    assert early == [{receipt}]


def test_a_transaction_that_waited_is_whole() -> None:
    house = begun()
    fill(house)
    house.publish([1], b"waits" * 9)
    house.rest()
    with house.journal.group():
        house.publish([2], b"moved" * 9)
        house.settle(1, 9)
    house.rest()
    check(house)
    house.disk.capacity = None
    house.journal.space_returned()
    for _ in range(20):
        house.turn()
        house.wait()
        if house.waiting:
            check(house)
            house.write()
    check(house)
    found = look(house.disk.copy(), FULL)
    assert found.bodies(1)[-1] != b"waits" * 9
    assert found.bodies(2)[-1] == b"moved" * 9


def test_a_transaction_that_waits_is_not_obeyed_in_part() -> None:
    """What it settles stays on disk until all of it is there: a move must not lose its message."""
    house = begun()
    fill(house, 100)
    with house.journal.group():
        house.publish([2], *(b"moved %d" % n * 9 for n in range(1, 5)))
        house.settle(1, *range(3, 9))
    house.rest()
    assert house.journal.batches.held is not None
    house.settle(2, *range(1, 9))  # nothing else keeps the old segments
    house.rest()
    check(house)
    assert len(look(house.disk.copy(), FULL).bodies(1)) == 6
    give_room(house)
    check(house)
    found = look(house.disk.copy(), FULL)
    assert (len(found.bodies(1)), len(found.bodies(2))) == (0, 4)
    roomy = house.disk.used
    house.publish([1], b"time goes by")
    house.rest()
    assert house.disk.used <= roomy + FULL


@pytest.mark.parametrize("errno", SHORTAGES)
def test_definitions_wait_too(errno: int) -> None:
    house = begun()

    def refuse(kind: str, path: str) -> OSError | None:
        return OSError(errno, "not now") if kind == "apply" else None

    house.disk.fault = refuse
    receipt = house.journal.record(Put(VhostRow("v", None, None)))
    house.rest()
    assert house.journal.granted < receipt
    house.disk.fault = lambda kind, path: None
    give_room(house)
    assert house.journal.granted >= receipt
    assert (VhostRow, ("v",)) in house.disk.rows


@pytest.mark.parametrize("errno", SHORTAGES)
def test_a_shortage_in_which_nothing_gets_through_loses_nothing_either(errno: int) -> None:
    house = begun()
    fill(house)
    house.disk.fault = lambda kind, path: OSError(errno, "not now") if kind in ("append", "create") else None
    house.publish([1], b"too much" * 9)
    house.rest()
    house.settle(1, 3)
    house.rest()
    assert house.journal.batches.is_stuck
    house.settle(1, 4)
    house.rest()
    check(house)
    house.disk.fault = lambda kind, path: None
    give_room(house)
    bodies = look(house.disk.copy(), FULL).bodies(1)
    assert bodies == [*(b"before %d " % n * 5 for n in range(5, 9)), b"too much" * 9]
    assert house.journal.granted == house.journal.issued


def test_a_reclaim_that_finds_no_room_leaves_the_old_files() -> None:
    """Copies that could not be written replace nothing."""
    house = begun()
    house.reclaims = False
    house.settle(1, 3, 4, 5)
    house.settle(2, 1, 2, 4, 5)
    house.rest()
    fill(house, 40)
    house.reclaim.consider()
    house.rest()
    assert house.journal.batches.held is not None
    check(house)
    give_room(house)
    house.reclaims = True
    house.publish([1], b"after")
    house.rest()
    check(house)
    assert len(look(house.disk.copy(), FULL).bodies(2)) == 4


def test_tries_survive_a_return_that_finds_no_room() -> None:
    house = begun()
    house.journal.returned(1, 0, 5, 1, 3)
    house.journal.promise()
    house.rest()
    for _ in range(4):  # in a segment of its own
        house.publish([2], b"apart" * 60)
        house.rest()
    fill(house)
    house.journal.returned(1, 0, 5, 1, 4)
    house.publish([2], b"too much" * 9)
    house.rest()
    house.settle(2, *range(1, 13))
    house.rest()
    check(house)
    assert look(house.disk.copy(), FULL).tries[1, 0, 5] >= 3
    give_room(house)
    assert look(house.disk.copy(), FULL).tries[1, 0, 5] == 4


def scenario(house: StoreHouse) -> None:
    """Publishes, groups, acks and returns, a segment or two of them."""
    for n in range(6):
        house.publish([1, 2], b"during %d " % n * 6)
        house.turn()
        with house.journal.group():
            house.publish([2], b"group %d " % n * 6)
            house.settle(1, 3 + n)
        house.journal.returned(2, 0, 1 + n, 1, n + 1)
        house.rest()
        house.settle(2, 2 * n + 1)
        if n % 2:
            house.journal.promise()
        house.rest()


def appends() -> int:
    house = begun()
    before = len(house.disk.operations)
    scenario(house)
    return sum(operation.kind == "append" for operation in house.disk.operations[before:])


@pytest.mark.parametrize("room", [0, 1, 60])
@pytest.mark.parametrize("place", range(appends()))
def test_room_may_end_at_any_write(place: int, room: int) -> None:
    """Nothing granted is lost, nothing promised to be gone returns; when there is room again, all is there."""
    house = begun()
    left = place

    def full_from_now_on(kind: str, path: str) -> OSError | None:
        nonlocal left
        if kind == "append":
            left -= 1
            if left == -1:
                house.disk.capacity = house.disk.used + room
        return None

    house.disk.fault = full_from_now_on
    scenario(house)
    check(house)
    give_room(house)
    assert house.journal.granted == house.journal.issued
    check(house)
    house.publish([1], b"goes on")
    house.rest()
    check(house)


# ---- broken


def fail_at(house: StoreHouse, kind: str, error: int) -> Callable[[str, str], OSError | None]:
    return lambda what, path: OSError(error, "told to fail") if what == kind and path.endswith(".seg") else None


@pytest.mark.parametrize(("kind", "error"), [("append", EIO), ("sync", EIO), ("append", EROFS), ("create", EIO)])
def test_a_failed_write_or_sync_is_the_end_of_writing(kind: str, error: int) -> None:
    house = begun()
    house.disk.fault = fail_at(house, kind, error)
    granted = house.journal.granted
    for _ in range(12):  # for a new segment at the latest
        house.publish([1], b"doubtful " * 9)
        house.turn()
        if house.journal.failure is None:
            granted = house.journal.granted
            house.write()
    assert house.journal.failure is not None
    assert house.losses >= 1
    told = [receipt for receipt in (house.journal.issued,) if receipt <= granted]
    assert told == []
    with pytest.raises(ResourceFault, match="read-only"):
        house.journal.record(Put(VhostRow("v", None, None)))


def test_after_a_failure_nothing_is_written_and_nothing_granted() -> None:
    house = begun()
    granted: list[int] = []
    house.listener.on_granted = granted.append
    house.disk.fault = fail_at(house, "sync", EIO)
    house.publish([1], b"doubtful")
    house.rest()
    house.disk.fault = lambda kind, path: None
    before, losses = len(house.disk.operations), house.losses
    assert losses
    house.publish([1], b"refused")
    house.settle(1, 3)
    house.journal.promise()
    house.journal.returned(1, 0, 4, 1, 1)
    with house.journal.group():
        house.publish([2], b"refused")
    house.rest()
    house.journal.stop()
    house.rest()
    assert len(house.disk.operations) == before
    assert granted == []
    assert house.losses > losses
    check(house)


def test_what_was_in_flight_with_the_failed_batch_is_lost_too() -> None:
    house = begun()
    house.publish([1], b"first")
    house.turn()
    house.publish([1], b"second")
    house.turn()
    house.disk.fault = fail_at(house, "append", EIO)
    granted = house.journal.granted
    house.write()
    assert house.losses == 1
    assert granted < house.journal.issued
    assert not house.journal.batches.in_flight


def test_a_failure_of_the_definitions_is_one_of_the_store() -> None:
    house = begun()
    house.disk.fault = lambda kind, path: OSError(EIO, "told to fail") if kind == "apply" else None
    house.journal.record(Put(VhostRow("v", None, None)))
    house.rest()
    assert house.journal.failure is not None
    assert house.losses == 1


def test_after_a_failure_the_next_start_has_all_that_was_granted() -> None:
    house = begun()
    house.disk.fault = fail_at(house, "sync", EIO)
    house.publish([1], b"doubtful")
    house.rest()
    house.disk.fault = lambda kind, path: None
    again = StoreHouse(house.disk.copy(), full_size=FULL)
    again.begin()
    again.publish([1], b"goes on")
    again.rest()
    bodies = look(again.disk.copy(), FULL).bodies(1)
    assert bodies[:6] == [b"before %d " % n * 5 for n in range(3, 9)]
    assert bodies[-1] == b"goes on"
