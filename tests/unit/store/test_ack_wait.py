"""Appends wait for the acks of quick consumers; what is settled until then is never written."""

from __future__ import annotations

import pytest

from leveret.store.ack_wait import MOST_WAITING, PERIODS
from leveret.store.definitions import Put, VhostRow
from leveret.store.lane_log import MOST_QUICK
from leveret.store.records import PUBLISH
from tests.support.store_harness import StoreHarness, look
from tests.unit.store.test_journal import kinds


def with_quick_consumers(queues: int = 1) -> StoreHarness:
    """A harness with these queues on disk, in each of which one message was settled before its sync."""
    harness = StoreHarness()
    harness.begin()
    for _ in range(queues):
        harness.declare()
    for queue in range(1, queues + 1):
        harness.publish([queue], b"first")
        harness.turn()
        harness.settle(queue, 1)
    harness.rest()
    assert harness.journal.granted == harness.journal.issued
    return harness


def quick(harness: StoreHarness, queue: int = 1) -> int:
    return harness.journal.layout.lane(queue, 0).quick


def test_messages_of_a_queue_without_quick_consumers_are_written_at_once() -> None:
    harness = StoreHarness()
    harness.begin()
    harness.declare()
    harness.rest()
    harness.publish([1], b"m")
    harness.turn()
    assert harness.waiting
    assert not harness.awaits_acks


def test_messages_wait_for_company_while_nothing_waits_for_a_receipt() -> None:
    harness = StoreHarness()
    harness.begin()
    harness.declare()
    harness.rest()
    harness.listener.is_awaiting = False
    harness.publish([1], b"first")
    harness.turn()
    receipt = harness.publish([1], b"second")
    harness.turn()
    for _ in range(PERIODS):
        assert harness.awaits_acks
        assert not harness.waiting
        harness.awaits_acks = False
        harness.journal.acks_awaited()
    assert len(harness.waiting) == 1
    harness.write()
    assert harness.journal.granted == receipt
    assert look(harness.disk).bodies(1) == [b"first", b"second"]


def test_what_waits_for_company_is_written_when_something_waits_for_a_receipt() -> None:
    harness = StoreHarness()
    harness.begin()
    harness.declare()
    harness.rest()
    harness.listener.is_awaiting = False
    harness.publish([1], b"first")
    harness.turn()
    harness.listener.is_awaiting = True
    harness.turn()
    assert harness.waiting


def test_a_message_that_is_acknowledged_soon_is_never_written() -> None:
    harness = with_quick_consumers()
    written, early = kinds(harness), list[set[int]]()
    harness.listener.on_early = early.append
    receipt = harness.publish([1], b"second")
    harness.turn()
    assert not harness.waiting
    assert harness.journal.granted < receipt
    harness.settle(1, 2)
    harness.turn()
    assert early == [{receipt}]  # confirmed in the tick of the ack
    harness.rest()
    assert harness.journal.granted == receipt
    assert kinds(harness) == written


def test_a_message_that_is_not_acknowledged_is_written_after_the_wait_and_granted_then() -> None:
    harness = with_quick_consumers()
    before = quick(harness)
    receipt = harness.publish([1], b"second")
    harness.turn()
    assert harness.awaits_acks
    harness.wait()
    assert harness.waiting
    assert harness.journal.granted < receipt
    harness.write()
    assert harness.journal.granted == receipt
    assert look(harness.disk).bodies(1) == [b"second"]
    assert quick(harness) < before


def test_what_arrived_during_the_wait_gets_a_wait_of_its_own_if_the_others_are_settled() -> None:
    harness = with_quick_consumers()
    first = harness.publish([1], b"second")
    harness.turn()
    second = harness.publish([1], b"third")
    harness.turn()
    harness.settle(1, 2)
    harness.turn()
    harness.awaits_acks = False
    harness.journal.acks_awaited()
    assert not harness.waiting
    assert harness.journal.granted == first  # also without company
    assert harness.awaits_acks
    harness.rest()
    assert harness.journal.granted == second
    assert look(harness.disk).bodies(1) == [b"third"]


def test_one_late_ack_counts_once_however_many_messages_it_is_for() -> None:
    """An ack of ten that is a millisecond late must not end the waiting of a queue whose acks are usually in time."""
    late = []
    for number in (1, 10):
        harness = with_quick_consumers()
        before = quick(harness)
        for _ in range(number):
            harness.publish([1], b"m")
            harness.turn()
        harness.wait()
        late.append(before - quick(harness))
    assert late[0] == late[1] > 0


def test_waits_in_vain_end_the_waiting() -> None:
    harness = with_quick_consumers()
    for number in range(MOST_QUICK):
        harness.publish([1], b"%d" % number)
        harness.turn()
        harness.rest()
    harness.publish([1], b"last")
    harness.turn()
    assert harness.waiting


def test_whatever_cannot_wait_takes_everything_with_it() -> None:
    for press in (
        lambda harness: harness.publish([2], b"no consumer"),
        lambda harness: harness.publish([1, 2], b"nor one of these two"),
        lambda harness: harness.journal.record(Put(VhostRow("v", None, None))),
        lambda harness: harness.journal.promise(),
        lambda harness: [harness.publish([1], b"more") for _ in range(MOST_WAITING)],
    ):
        harness = with_quick_consumers()
        harness.declare()
        harness.rest()
        receipt = harness.publish([1], b"second")
        harness.turn()
        assert not harness.waiting
        press(harness)
        harness.turn()
        harness.write()
        assert harness.journal.granted >= receipt
        assert b"second" in look(harness.disk).bodies(1)


def test_partly_settled_runs_are_written_with_the_settles() -> None:
    harness = with_quick_consumers()
    receipt = harness.publish([1], b"a", b"b", b"c")
    harness.turn()
    harness.settle(1, 2)
    harness.turn()
    harness.rest()
    assert harness.journal.granted == receipt
    assert look(harness.disk).bodies(1) == [b"b", b"c"]


def test_a_stopping_journal_writes_what_waits() -> None:
    harness = with_quick_consumers(2)
    harness.publish([1, 2], b"second")
    harness.turn()
    assert harness.awaits_acks
    harness.stop()
    assert PUBLISH in kinds(harness)
    harness.wait()  # the timer fires after the stop
    assert not harness.waiting


def test_a_bug_after_the_wait_makes_the_store_read_only() -> None:
    """Later appends would wait for a timer that is not set any more."""
    harness = with_quick_consumers()
    harness.publish([1], b"second")
    harness.turn()
    harness.settle(1, 2)

    def fail(_: set[int]) -> None:
        raise ZeroDivisionError

    harness.listener.on_early = fail
    with pytest.raises(ZeroDivisionError):
        harness.journal.acks_awaited()
    assert harness.journal.failure is not None
    assert harness.losses == 1
