"""The log as the loop sees it: what is granted when, and what is written of it."""

from __future__ import annotations

import pytest

from leveret.store.definitions import Put, VhostRow
from leveret.store.log import GRANTED
from leveret.store.records import (
    PUBLISH,
    RETURN,
    SEGMENT_HEAD,
    SETTLE,
    Record,
)
from leveret.store.scan import scan
from tests.support.store_house import StoreHouse, look


def begun(**more: int) -> StoreHouse:
    """A house with queue 1 on disk."""
    house = StoreHouse(**more)
    house.begin()
    house.declare()
    house.rest()
    return house


def records(house: StoreHouse) -> list[Record]:
    found: list[Record] = []
    for name in house.segments:
        for item in scan(house.disk.content(f"journal/{name}"), int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            found.append(item)
    return found


def kinds(house: StoreHouse) -> list[int]:
    return [record.kind for record in records(house)]


def operations(house: StoreHouse, kind: str) -> int:
    return sum(operation.kind == kind for operation in house.disk.operations)


# ---- receipts


def test_nothing_is_granted_before_the_disk_has_it() -> None:
    house = begun()
    before = house.journal.granted
    receipt = house.publish([1], b"m")
    assert receipt == house.journal.issued > before
    house.turn()
    assert house.journal.granted == before
    (batch,) = house.waiting
    assert house.writer is not None
    house.writer.run([batch])
    assert house.journal.granted == before  # the loop has not heard of it
    house.journal.done(batch)
    assert house.journal.granted == receipt


def test_receipts_are_granted_in_order_and_told_once_per_batch() -> None:
    house = begun()
    told: list[int] = []
    house.listener.on_granted = told.append
    first = [house.publish([1], b"%d" % n) for n in range(3)]
    house.turn()
    second = [house.publish([1], b"%d" % n) for n in range(3, 6)]
    house.turn()
    assert first + second == sorted(first + second)
    one, two = house.waiting
    assert house.writer is not None
    house.writer.run([one])
    house.journal.done(one)
    assert told == [first[-1]]
    house.writer.run([two])
    house.journal.done(two)
    assert told == [first[-1], second[-1]]


def test_one_sync_serves_all_batches_that_wait() -> None:
    house = begun()
    for n in range(5):
        house.publish([1], b"%d" % n)
        house.turn()
    assert len(house.waiting) == 5
    before = operations(house, "sync")
    house.write()
    assert operations(house, "sync") == before + 1
    assert house.journal.granted == house.journal.issued


def test_a_turn_without_news_writes_nothing() -> None:
    house = begun()
    before = len(house.disk.operations)
    house.rest()
    house.rest()
    assert len(house.disk.operations) == before


def test_a_change_of_the_definitions_is_granted_with_its_commit() -> None:
    house = begun()
    receipt = house.journal.record(Put(VhostRow("v", None, None)))
    house.turn()
    assert house.journal.granted < receipt
    house.write()
    assert house.journal.granted == receipt
    assert house.disk.rows[VhostRow, ("v",)]


def test_os_durability_is_granted_by_the_write_without_a_sync() -> None:
    house = begun()
    before = operations(house, "sync")
    receipt = house.publish([1], b"m", synced=False)
    house.turn()
    house.write()
    assert house.journal.granted == receipt
    assert operations(house, "sync") == before
    house.publish([1], b"n")  # one that wants more takes the other along
    house.rest()
    assert operations(house, "sync") == before + 1


def test_a_store_that_never_syncs_grants_by_the_write() -> None:
    house = begun()
    house.journal.batches.always_sync = False
    before = operations(house, "sync")
    receipt = house.publish([1], b"m")
    house.rest()
    assert house.journal.granted == receipt
    assert operations(house, "sync") == before


# ---- what is written


@pytest.mark.feature("S0-18")
def test_what_was_settled_before_the_turn_ended_is_never_written() -> None:
    """A consumer without acks took it at once; its receipt comes early."""
    house = begun()
    early: list[set[int]] = []
    house.listener.on_early = early.append
    before = kinds(house)
    receipt = house.publish([1], b"a", b"b")
    house.settle(1, 1, 2)
    house.turn()
    assert early == [{receipt}]
    house.rest()
    assert kinds(house) == before
    assert house.journal.granted == house.journal.issued
    assert not look(house.disk.copy()).messages


def test_a_run_that_was_settled_in_part_is_written_and_not_early() -> None:
    house = begun()
    early: list[set[int]] = []
    house.listener.on_early = early.append
    house.publish([1], b"a", b"b")
    house.settle(1, 1)
    house.rest()
    assert early == []
    assert look(house.disk.copy()).bodies(1) == [b"b"]


def test_a_message_of_several_queues_is_early_when_all_are_done_with_it() -> None:
    house = begun()
    house.declare()
    house.rest()
    early: list[set[int]] = []
    house.listener.on_early = early.append
    receipt = house.publish([1, 2], b"m")
    house.settle(1, 1)
    house.turn()
    assert early == []
    house.settle(2, 1)
    house.turn()
    assert early == [{receipt}]  # while the write is under way
    house.rest()
    assert not look(house.disk.copy()).messages


def test_an_early_receipt_leaves_the_ones_before_it_waiting() -> None:
    house = begun()
    early: list[set[int]] = []
    house.listener.on_early = early.append
    house.publish([1], b"stays")
    house.turn()
    second = house.publish([1], b"goes")
    house.settle(1, 2)
    house.turn()
    assert early == [{second}]
    assert house.journal.granted < second - 1
    house.rest()
    assert house.journal.granted == house.journal.issued


# ---- settles


def test_settles_alone_are_lazy() -> None:
    house = begun()
    house.publish([1], b"a", b"b", b"c")
    house.rest()
    house.settle(1, 1)
    house.turn()
    house.settle(1, 3)
    house.turn()
    assert house.is_lazy
    assert not house.waiting
    house.wait()
    house.write()
    assert kinds(house).count(SETTLE) == 1  # together
    assert look(house.disk.copy()).bodies(1) == [b"b"]


def test_settles_go_with_the_next_publish() -> None:
    house = begun()
    house.publish([1], b"a")
    house.rest()
    house.settle(1, 1)
    house.turn()
    house.publish([1], b"b")
    house.turn()
    house.write()
    assert look(house.disk.copy()).bodies(1) == [b"b"]


def test_what_is_not_in_the_journal_is_settled_without_a_word() -> None:
    house = begun()
    before = len(house.disk.operations)
    house.settle(1, 5, 6)
    house.settle(99, 1)
    house.rest()
    assert len(house.disk.operations) == before


# ---- promises


def test_a_promise_is_granted_when_the_settles_before_it_are_synced() -> None:
    house = begun()
    house.publish([1], b"a", b"b")
    house.rest()
    house.settle(1, 1)
    receipt = house.journal.promise()
    house.turn()
    assert house.journal.granted < receipt
    house.write()
    assert house.journal.granted == receipt
    assert look(house.disk.copy()).bodies(1) == [b"b"]


def test_a_promise_that_meets_the_lazy_hour_is_not_granted_without_its_settles() -> None:
    house = begun()
    house.publish([1], b"a")
    house.rest()
    house.settle(1, 1)
    receipt = house.journal.promise()
    house.journal.hand_over()  # before the turn is over
    house.turn()
    while house.waiting:
        house.write()
        if house.journal.granted >= receipt:
            assert not look(house.disk.copy()).messages
    house.rest()
    assert house.journal.granted >= receipt
    assert not look(house.disk.copy()).messages


def test_a_promise_about_nothing_is_granted() -> None:
    house = begun()
    receipt = house.journal.promise()
    house.rest()
    assert house.journal.granted == receipt


# ---- groups


def test_a_group_is_one_whole_with_an_end() -> None:
    house = begun()
    house.publish([1], b"old")
    house.rest()
    before = len(records(house))
    with house.journal.group():
        house.publish([1], b"new")
        house.settle(1, 1)
        house.journal.returned(1, 0, 1, 1, 1)
    receipt = house.journal.issued
    house.rest()
    group = records(house)[before:]
    assert [(record.kind, record.place, record.ends_group) for record in group] == [
        (PUBLISH, 0, False),
        (SETTLE, 1, False),
        (RETURN, 2, True),
    ]
    assert house.journal.granted == receipt
    assert look(house.disk.copy()).bodies(1) == [b"new"]


def test_a_group_within_a_group_is_part_of_it() -> None:
    house = begun()
    before = len(records(house))
    plain = super(type(house.journal), house.journal)  # the ledger knows no such thing
    with plain.group():
        house.publish([1], b"outer")
        with plain.group():
            house.publish([2], b"inner")
        house.publish([3], b"outer again")
    house.rest()
    assert [record.ends_group for record in records(house)[before:]] == [False, False, True]


def test_an_empty_group_is_nothing() -> None:
    house = begun()
    before = (len(house.disk.operations), house.journal.issued)
    with house.journal.group():
        pass
    house.rest()
    assert (len(house.disk.operations), house.journal.issued) == before


# ---- returns, deletions, the end


def test_returns_are_lazy_and_kept() -> None:
    house = begun()
    house.publish([1], b"a", b"b")
    house.rest()
    house.journal.returned(1, 0, 2, 1, 3)
    house.turn()
    assert not house.waiting
    house.rest()
    assert look(house.disk.copy()).tries == {(1, 0, 2): 3}


@pytest.mark.feature("S4-24")
def test_a_deleted_queue_is_forgotten_with_what_it_had() -> None:
    """Nothing is written about its messages; they are gone because their queue is."""
    house = begun()
    house.publish([1], b"a")
    house.rest()
    before = kinds(house)
    receipt = house.delete(1)
    house.rest()
    assert house.journal.granted == receipt
    assert kinds(house) == before
    assert not look(house.disk.copy()).messages


def test_what_was_on_its_way_to_a_deleted_queue_is_granted_with_the_deletion() -> None:
    house = begun()
    published = house.publish([1], b"a")
    deleted = house.delete(1)
    assert published < deleted
    house.rest()
    assert house.journal.granted == deleted


def test_a_clean_stop_is_the_last_word() -> None:
    house = begun()
    house.publish([1], b"a")
    house.stop()
    assert look(house.disk.copy()).recovered.clean
    again = StoreHouse(house.disk)
    again.begin()
    assert not look(house.disk.copy()).recovered.clean


def test_receipts_begin_above_granted() -> None:
    house = StoreHouse()
    house.begin()
    assert house.declare() > 0
    assert house.journal.issued > GRANTED
