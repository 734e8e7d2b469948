"""Messages that no journal keeps, when the broker is short of memory: spilled to disk, and back (backlog/pager.py)."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from tests.support.memory_pages import (
    SIZE,
    PagedHarness,
    assert_counted,
    bodies,
    consumer_of,
    kept,
    passing,
    shrink_steps,
)
from tests.support.spies import ready


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def harness() -> PagedHarness:
    return PagedHarness(4 * SIZE)


def squeezed(harness: PagedHarness, *run: Message, durable: bool = False, **arguments: object) -> ClassicQueue:
    """A queue whose messages were spilled as far as they can be."""
    queue = harness.queue(durable=durable, **arguments)
    harness.put(queue, *run)
    harness.shelf.sync()
    harness.squeeze(queue)
    return queue


def relieve(harness: PagedHarness) -> None:
    harness.gauge.is_short = False


def drained(harness: PagedHarness, queue: ClassicQueue) -> list[bytes]:
    """What a consumer without acks gets to the end; then nothing is left anywhere."""
    consumer = consumer_of(queue, no_ack=True)
    harness.answer_all()
    queue.remove_consumer(consumer)
    harness.turn()
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    assert harness.shelf.spilled == []
    return consumer.bodies


# ---- out


@pytest.mark.feature("S4-26")
def test_transient_messages_stay_until_the_broker_is_short_of_memory(harness: PagedHarness) -> None:
    queue = harness.queue()
    harness.put(queue, *passing(*range(10)))
    assert_counted(harness, queue, ready=10, on_disk_only=0)
    assert harness.shelf.spilled == []
    harness.squeeze(queue)
    assert harness.shelf.spilled == bodies(*range(2, 10))
    assert_counted(harness, queue, ready=10, on_disk_only=8)


@pytest.mark.feature("S4-26")
def test_spilled_messages_come_back_in_order_and_leave_the_disk(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(10)))
    relieve(harness)
    assert drained(harness, queue) == bodies(*range(10))


def test_they_come_back_also_while_memory_is_short(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(10)))
    assert drained(harness, queue) == bodies(*range(10))


@pytest.mark.parametrize("load", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("prefetch", [1, 2, 3, 4, 7])
@pytest.mark.feature("S4-26")
def test_a_backlog_survives_any_mix_of_squeezes_and_loads(
    harness: PagedHarness, monkeypatch: pytest.MonkeyPatch, load: int, prefetch: int
) -> None:
    """Loaded, acked, published and squeezed out again, round after round; nothing is lost or out of order."""
    monkeypatch.setattr(pager, "LOAD_BYTES", load * SIZE)
    queue = squeezed(harness, *passing(*range(20)))
    consumer, expected, published = consumer_of(queue, credit=prefetch), [], 20
    for turn in range(60):
        harness.gauge.is_short = turn % 3 != 0
        if turn % 4 == 0 and published < 60:
            harness.put(queue, *passing(*range(published, published + 3)))
            published += 3
        for body in consumer.bodies[: 1 + turn % prefetch]:
            expected.append(body)
            consumer.ack(body)
        queue.touch()
        harness.turn()
        if harness.shelf.loads and turn % 2:
            harness.answer()
        assert queue.ready + queue.unacked + len(expected) == published
    harness.answer_all()
    while consumer.bodies:
        for body in consumer.bodies:
            expected.append(body)
            consumer.ack(body)
        harness.answer_all()
    assert expected == bodies(*range(published))
    assert harness.shelf.spilled == []


@pytest.mark.feature("S4-26")
def test_what_was_loaded_and_is_squeezed_again_is_not_lost(
    harness: PagedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once loaded, a transient message is on no disk any more."""
    monkeypatch.setattr(pager, "LOAD_BYTES", 100 * SIZE)
    queue = squeezed(harness, *passing(*range(10)))
    relieve(harness)
    for _ in range(2):
        queue.get(no_ack=True)
    harness.answer_all()
    assert_counted(harness, queue, ready=8, on_disk_only=0)
    assert harness.shelf.spilled == []
    harness.squeeze(queue)
    assert queue.ready == 8
    relieve(harness)
    assert drained(harness, queue) == bodies(*range(2, 10))


def test_what_comes_while_memory_is_short_follows_what_is_on_disk(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(6)))
    harness.put(queue, *passing(6, 7, 8, 9))
    assert_counted(harness, queue, ready=10, on_disk_only=8)
    relieve(harness)
    harness.put(queue, *passing(10, 11))
    assert_counted(harness, queue, ready=12, on_disk_only=8)
    assert drained(harness, queue) == bodies(*range(12))


@pytest.mark.feature("S4-26")
def test_persistent_messages_of_a_transient_queue_are_spilled_too(harness: PagedHarness) -> None:
    """No journal keeps them, and many clients mark everything persistent."""
    queue = squeezed(harness, *kept(*range(10)))
    assert_counted(harness, queue, ready=10, on_disk_only=8)
    relieve(harness)
    assert drained(harness, queue) == bodies(*range(10))


def test_a_mix_of_both_kinds_keeps_its_order(harness: PagedHarness) -> None:
    run = [*kept(0, 1), *passing(2), *kept(3), *passing(4, 5), *kept(6), *passing(7, 8), *kept(9)]
    queue = squeezed(harness, *run, durable=True)
    assert_counted(harness, queue, ready=10, on_disk_only=8)
    assert harness.shelf.spilled == bodies(2, 4, 5, 7, 8)
    relieve(harness)
    assert drained(harness, queue) == bodies(*range(10))


@pytest.mark.feature("S4-26")
def test_transient_messages_in_front_of_a_paged_stretch_are_spilled_too(harness: PagedHarness) -> None:
    """The front must not keep more than it may because what is behind it went first."""
    queue = harness.queue(durable=True)
    harness.put(queue, *passing(*range(10)), *kept(*range(10, 20)))
    harness.shelf.sync()
    queue.touch()
    harness.turn()
    assert_counted(harness, queue, ready=20, on_disk_only=10)
    harness.squeeze(queue)
    assert_counted(harness, queue, ready=20, on_disk_only=18)
    relieve(harness)
    assert drained(harness, queue) == bodies(*range(20))


# ---- unaltered


@pytest.mark.feature("S4-26")
def test_spilled_messages_keep_priority_and_deadline(harness: PagedHarness) -> None:
    deadline = harness.clock.now() + 60
    run = [*passing(*range(6), priority=1, deadline=deadline), *passing(*range(10, 16))]
    queue = squeezed(harness, *run, max_priority=1)
    assert [lane.paged for lane in queue.lanes] == [6, 4]
    relieve(harness)
    consumer = consumer_of(queue)
    harness.answer_all()
    assert consumer.bodies == bodies(*range(6), *range(10, 16))
    traits = [(given.message[2].priority, given.message[2].deadline) for given in consumer.given]
    assert traits[:6] == [(1, deadline)] * 6
    assert [given.message[2].persistent for given in consumer.given] == [False] * 12
    assert [given.lane for given in consumer.given] == [1] * 6 + [0] * 6


def test_a_spilled_message_dies_on_disk_on_time(harness: PagedHarness) -> None:
    run = [*passing(*range(5)), *passing(5, deadline=harness.clock.now() + 5), *passing(6, 7, 8, 9)]
    queue = squeezed(harness, *run)
    harness.advance(5)
    assert_counted(harness, queue, ready=9, on_disk_only=7)
    assert b"05" not in harness.shelf.spilled
    relieve(harness)
    assert drained(harness, queue) == bodies(0, 1, 2, 3, 4, 6, 7, 8, 9)


def test_a_message_that_died_in_memory_does_not_come_back_from_the_disk(harness: PagedHarness) -> None:
    """What is paged out there is a hole."""
    run = [*passing(*range(6)), *passing(6, deadline=harness.clock.now() + 5), *passing(7, 8, 9)]
    queue = harness.queue()
    harness.put(queue, *run)
    harness.advance(5)
    harness.squeeze(queue)
    assert_counted(harness, queue, ready=9, on_disk_only=7)
    relieve(harness)
    assert drained(harness, queue) == bodies(0, 1, 2, 3, 4, 5, 7, 8, 9)
    assert queue.counters.expired == 1


def test_the_queues_ttl_goes_on_for_spilled_messages(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(6)), message_ttl=10_000)
    relieve(harness)
    harness.advance(9.9)
    assert queue.ready == 6
    harness.advance(0.1)
    harness.answer_all()
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    assert harness.shelf.spilled == []


# ---- the end


def test_a_purge_takes_spilled_messages_off_the_disk(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(10)))
    assert queue.purge() == 10
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    assert harness.shelf.spilled == []


def test_a_purge_of_spilled_and_fresh_messages(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(10)))
    relieve(harness)
    harness.put(queue, *passing(10))
    assert queue.purge() == 11
    harness.put(queue, *passing(11))
    assert_counted(harness, queue, ready=1, on_disk_only=0)
    assert (ready(queue), harness.shelf.spilled) == ([b"11"], [])


def test_a_deleted_queue_leaves_nothing_spilled(harness: PagedHarness) -> None:
    queue = squeezed(harness, *passing(*range(10)))
    consumer_of(queue, credit=2)
    harness.turn()
    assert queue.die() == 8
    harness.answer()
    assert harness.gauge.used == 0
    assert harness.shelf.spilled == []
