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
from tests.support.store_harness import StoreHarness, look


def begun(**more: int) -> StoreHarness:
    """A harness with queue 1 on disk."""
    harness = StoreHarness(**more)
    harness.begin()
    harness.declare()
    harness.rest()
    return harness


def records(harness: StoreHarness) -> list[Record]:
    found: list[Record] = []
    for name in harness.segments:
        for item in scan(harness.disk.content(f"journal/{name}"), int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            found.append(item)
    return found


def kinds(harness: StoreHarness) -> list[int]:
    return [record.kind for record in records(harness)]


def operations(harness: StoreHarness, kind: str) -> int:
    return sum(operation.kind == kind for operation in harness.disk.operations)


# ---- receipts


def test_nothing_is_granted_before_the_disk_has_it() -> None:
    harness = begun()
    before = harness.journal.granted
    receipt = harness.publish([1], b"m")
    assert receipt == harness.journal.issued > before
    harness.turn()
    assert harness.journal.granted == before
    (batch,) = harness.waiting
    assert harness.writer is not None
    harness.writer.run([batch])
    assert harness.journal.granted == before  # the loop has not heard of it
    harness.journal.done(batch)
    assert harness.journal.granted == receipt


def test_receipts_are_granted_in_order_and_told_once_per_batch() -> None:
    harness = begun()
    told: list[int] = []
    harness.listener.on_granted = told.append
    first = [harness.publish([1], b"%d" % n) for n in range(3)]
    harness.turn()
    second = [harness.publish([1], b"%d" % n) for n in range(3, 6)]
    harness.turn()
    assert first + second == sorted(first + second)
    one, two = harness.waiting
    assert harness.writer is not None
    harness.writer.run([one])
    harness.journal.done(one)
    assert told == [first[-1]]
    harness.writer.run([two])
    harness.journal.done(two)
    assert told == [first[-1], second[-1]]


def test_one_sync_serves_all_batches_that_wait() -> None:
    harness = begun()
    for n in range(5):
        harness.publish([1], b"%d" % n)
        harness.turn()
    assert len(harness.waiting) == 5
    before = operations(harness, "sync")
    harness.write()
    assert operations(harness, "sync") == before + 1
    assert harness.journal.granted == harness.journal.issued


def test_a_turn_without_news_writes_nothing() -> None:
    harness = begun()
    before = len(harness.disk.operations)
    harness.rest()
    harness.rest()
    assert len(harness.disk.operations) == before


def test_a_change_of_the_definitions_is_granted_with_its_commit() -> None:
    harness = begun()
    receipt = harness.journal.record(Put(VhostRow("v", None, None)))
    harness.turn()
    assert harness.journal.granted < receipt
    harness.write()
    assert harness.journal.granted == receipt
    assert harness.disk.rows[VhostRow, ("v",)]


def test_os_durability_is_granted_by_the_write_without_a_sync() -> None:
    harness = begun()
    before = operations(harness, "sync")
    receipt = harness.publish([1], b"m", synced=False)
    harness.turn()
    harness.write()
    assert harness.journal.granted == receipt
    assert operations(harness, "sync") == before
    harness.publish([1], b"n")  # one that wants more takes the other along
    harness.rest()
    assert operations(harness, "sync") == before + 1


def test_a_store_that_never_syncs_grants_by_the_write() -> None:
    harness = begun()
    harness.journal.batches.always_sync = False
    before = operations(harness, "sync")
    receipt = harness.publish([1], b"m")
    harness.rest()
    assert harness.journal.granted == receipt
    assert operations(harness, "sync") == before


# ---- what is written


@pytest.mark.feature("S0-18")
def test_what_was_settled_before_the_turn_ended_is_never_written() -> None:
    """A consumer without acks took it at once; its receipt comes early."""
    harness = begun()
    early: list[set[int]] = []
    harness.listener.on_early = early.append
    before = kinds(harness)
    receipt = harness.publish([1], b"a", b"b")
    harness.settle(1, 1, 2)
    harness.turn()
    assert early == [{receipt}]
    harness.rest()
    assert kinds(harness) == before
    assert harness.journal.granted == harness.journal.issued
    assert not look(harness.disk.copy()).messages


def test_a_run_that_was_settled_in_part_is_written_and_not_early() -> None:
    harness = begun()
    early: list[set[int]] = []
    harness.listener.on_early = early.append
    harness.publish([1], b"a", b"b")
    harness.settle(1, 1)
    harness.rest()
    assert early == []
    assert look(harness.disk.copy()).bodies(1) == [b"b"]


def test_a_message_of_several_queues_is_early_when_all_are_done_with_it() -> None:
    harness = begun()
    harness.declare()
    harness.rest()
    early: list[set[int]] = []
    harness.listener.on_early = early.append
    receipt = harness.publish([1, 2], b"m")
    harness.settle(1, 1)
    harness.turn()
    assert early == []
    harness.settle(2, 1)
    harness.turn()
    assert early == [{receipt}]  # while the write is under way
    harness.rest()
    assert not look(harness.disk.copy()).messages


def test_an_early_receipt_leaves_the_ones_before_it_waiting() -> None:
    harness = begun()
    early: list[set[int]] = []
    harness.listener.on_early = early.append
    harness.publish([1], b"stays")
    harness.turn()
    second = harness.publish([1], b"goes")
    harness.settle(1, 2)
    harness.turn()
    assert early == [{second}]
    assert harness.journal.granted < second - 1
    harness.rest()
    assert harness.journal.granted == harness.journal.issued


# ---- settles


def test_settles_alone_are_lazy() -> None:
    harness = begun()
    harness.publish([1], b"a", b"b", b"c")
    harness.rest()
    harness.settle(1, 1)
    harness.turn()
    harness.settle(1, 3)
    harness.turn()
    assert harness.is_lazy
    assert not harness.waiting
    harness.wait()
    harness.write()
    assert kinds(harness).count(SETTLE) == 1  # together
    assert look(harness.disk.copy()).bodies(1) == [b"b"]


def test_settles_go_with_the_next_publish() -> None:
    harness = begun()
    harness.publish([1], b"a")
    harness.rest()
    harness.settle(1, 1)
    harness.turn()
    harness.publish([1], b"b")
    harness.turn()
    harness.write()
    assert look(harness.disk.copy()).bodies(1) == [b"b"]


def test_what_is_not_in_the_journal_is_settled_without_a_word() -> None:
    harness = begun()
    before = len(harness.disk.operations)
    harness.settle(1, 5, 6)
    harness.settle(99, 1)
    harness.rest()
    assert len(harness.disk.operations) == before


# ---- promises


def test_a_promise_is_granted_when_the_settles_before_it_are_synced() -> None:
    harness = begun()
    harness.publish([1], b"a", b"b")
    harness.rest()
    harness.settle(1, 1)
    receipt = harness.journal.promise()
    harness.turn()
    assert harness.journal.granted < receipt
    harness.write()
    assert harness.journal.granted == receipt
    assert look(harness.disk.copy()).bodies(1) == [b"b"]


def test_a_promise_that_meets_the_lazy_hour_is_not_granted_without_its_settles() -> None:
    harness = begun()
    harness.publish([1], b"a")
    harness.rest()
    harness.settle(1, 1)
    receipt = harness.journal.promise()
    harness.journal.hand_over()  # before the turn is over
    harness.turn()
    while harness.waiting:
        harness.write()
        if harness.journal.granted >= receipt:
            assert not look(harness.disk.copy()).messages
    harness.rest()
    assert harness.journal.granted >= receipt
    assert not look(harness.disk.copy()).messages


def test_a_promise_about_nothing_is_granted() -> None:
    harness = begun()
    receipt = harness.journal.promise()
    harness.rest()
    assert harness.journal.granted == receipt


# ---- groups


def test_a_group_is_one_whole_with_an_end() -> None:
    harness = begun()
    harness.publish([1], b"old")
    harness.rest()
    before = len(records(harness))
    with harness.journal.group():
        harness.publish([1], b"new")
        harness.settle(1, 1)
        harness.journal.returned(1, 0, 1, 1, 1)
    receipt = harness.journal.issued
    harness.rest()
    group = records(harness)[before:]
    assert [(record.kind, record.place, record.ends_group) for record in group] == [
        (PUBLISH, 0, False),
        (SETTLE, 1, False),
        (RETURN, 2, True),
    ]
    assert harness.journal.granted == receipt
    assert look(harness.disk.copy()).bodies(1) == [b"new"]


def test_a_group_within_a_group_is_part_of_it() -> None:
    harness = begun()
    before = len(records(harness))
    plain = super(type(harness.journal), harness.journal)  # the ledger knows no such thing
    with plain.group():
        harness.publish([1], b"outer")
        with plain.group():
            harness.publish([2], b"inner")
        harness.publish([3], b"outer again")
    harness.rest()
    assert [record.ends_group for record in records(harness)[before:]] == [False, False, True]


def test_an_empty_group_is_nothing() -> None:
    harness = begun()
    before = (len(harness.disk.operations), harness.journal.issued)
    with harness.journal.group():
        pass
    harness.rest()
    assert (len(harness.disk.operations), harness.journal.issued) == before


# ---- returns, deletions, the end


def test_returns_are_lazy_and_kept() -> None:
    harness = begun()
    harness.publish([1], b"a", b"b")
    harness.rest()
    harness.journal.returned(1, 0, 2, 1, 3)
    harness.turn()
    assert not harness.waiting
    harness.rest()
    assert look(harness.disk.copy()).tries == {(1, 0, 2): 3}


@pytest.mark.feature("S4-24")
def test_a_deleted_queue_is_forgotten_with_what_it_had() -> None:
    """Nothing is written about its messages; they are gone because their queue is."""
    harness = begun()
    harness.publish([1], b"a")
    harness.rest()
    before = kinds(harness)
    receipt = harness.delete(1)
    harness.rest()
    assert harness.journal.granted == receipt
    assert kinds(harness) == before
    assert not look(harness.disk.copy()).messages


def test_what_was_on_its_way_to_a_deleted_queue_is_granted_with_the_deletion() -> None:
    harness = begun()
    published = harness.publish([1], b"a")
    deleted = harness.delete(1)
    assert published < deleted
    harness.rest()
    assert harness.journal.granted == deleted


def test_a_clean_stop_is_the_last_word() -> None:
    harness = begun()
    harness.publish([1], b"a")
    harness.stop()
    assert look(harness.disk.copy()).recovered.clean
    again = StoreHarness(harness.disk)
    again.begin()
    assert not look(harness.disk.copy()).recovered.clean


def test_receipts_begin_above_granted() -> None:
    harness = StoreHarness()
    harness.begin()
    assert harness.declare() > 0
    assert harness.journal.issued > GRANTED
