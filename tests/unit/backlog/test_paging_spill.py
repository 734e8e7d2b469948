"""Messages that no journal keeps, when the broker is short of memory: spilled to disk, and back (backlog/pager.py)."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from tests.support.shelf import (
    SIZE,
    PagedHouse,
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
def house() -> PagedHouse:
    return PagedHouse(4 * SIZE)


def squeezed(house: PagedHouse, *run: Message, durable: bool = False, **arguments: object) -> ClassicQueue:
    """A queue whose messages were spilled as far as they can be."""
    queue = house.queue(durable=durable, **arguments)
    house.put(queue, *run)
    house.shelf.sync()
    house.squeeze(queue)
    return queue


def relieve(house: PagedHouse) -> None:
    house.gauge.is_short = False


def drained(house: PagedHouse, queue: ClassicQueue) -> list[bytes]:
    """What a consumer without acks gets to the end; then nothing is left anywhere."""
    consumer = consumer_of(queue, no_ack=True)
    house.answer_all()
    queue.remove_consumer(consumer)
    house.turn()
    assert_counted(house, queue, ready=0, on_disk_only=0)
    assert house.shelf.spilled == []
    return consumer.bodies


# ---- out


@pytest.mark.feature("S4-26")
def test_transient_messages_stay_until_the_broker_is_short_of_memory(house: PagedHouse) -> None:
    queue = house.queue()
    house.put(queue, *passing(*range(10)))
    assert_counted(house, queue, ready=10, on_disk_only=0)
    assert house.shelf.spilled == []
    house.squeeze(queue)
    assert house.shelf.spilled == bodies(*range(2, 10))
    assert_counted(house, queue, ready=10, on_disk_only=8)


@pytest.mark.feature("S4-26")
def test_spilled_messages_come_back_in_order_and_leave_the_disk(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(10)))
    relieve(house)
    assert drained(house, queue) == bodies(*range(10))


def test_they_come_back_also_while_memory_is_short(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(10)))
    assert drained(house, queue) == bodies(*range(10))


@pytest.mark.parametrize("load", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("prefetch", [1, 2, 3, 4, 7])
@pytest.mark.feature("S4-26")
def test_a_backlog_survives_any_mix_of_squeezes_and_loads(
    house: PagedHouse, monkeypatch: pytest.MonkeyPatch, load: int, prefetch: int
) -> None:
    """Loaded, acked, published and squeezed out again, round after round; nothing is lost or out of order."""
    monkeypatch.setattr(pager, "LOAD_BYTES", load * SIZE)
    queue = squeezed(house, *passing(*range(20)))
    consumer, expected, published = consumer_of(queue, credit=prefetch), [], 20
    for turn in range(60):
        house.gauge.is_short = turn % 3 != 0
        if turn % 4 == 0 and published < 60:
            house.put(queue, *passing(*range(published, published + 3)))
            published += 3
        for body in consumer.bodies[: 1 + turn % prefetch]:
            expected.append(body)
            consumer.ack(body)
        queue.touch()
        house.turn()
        if house.shelf.loads and turn % 2:
            house.answer()
        assert queue.ready + queue.unacked + len(expected) == published
    house.answer_all()
    while consumer.bodies:
        for body in consumer.bodies:
            expected.append(body)
            consumer.ack(body)
        house.answer_all()
    assert expected == bodies(*range(published))
    assert house.shelf.spilled == []


@pytest.mark.feature("S4-26")
def test_what_was_loaded_and_is_squeezed_again_is_not_lost(house: PagedHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once loaded, a transient message is on no disk any more."""
    monkeypatch.setattr(pager, "LOAD_BYTES", 100 * SIZE)
    queue = squeezed(house, *passing(*range(10)))
    relieve(house)
    for _ in range(2):
        queue.get(no_ack=True)
    house.answer_all()
    assert_counted(house, queue, ready=8, on_disk_only=0)
    assert house.shelf.spilled == []
    house.squeeze(queue)
    assert queue.ready == 8
    relieve(house)
    assert drained(house, queue) == bodies(*range(2, 10))


def test_what_comes_while_memory_is_short_follows_what_is_on_disk(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(6)))
    house.put(queue, *passing(6, 7, 8, 9))
    assert_counted(house, queue, ready=10, on_disk_only=8)
    relieve(house)
    house.put(queue, *passing(10, 11))
    assert_counted(house, queue, ready=12, on_disk_only=8)
    assert drained(house, queue) == bodies(*range(12))


@pytest.mark.feature("S4-26")
def test_persistent_messages_of_a_transient_queue_are_spilled_too(house: PagedHouse) -> None:
    """No journal keeps them, and many clients mark everything persistent."""
    queue = squeezed(house, *kept(*range(10)))
    assert_counted(house, queue, ready=10, on_disk_only=8)
    relieve(house)
    assert drained(house, queue) == bodies(*range(10))


def test_a_mix_of_both_kinds_keeps_its_order(house: PagedHouse) -> None:
    run = [*kept(0, 1), *passing(2), *kept(3), *passing(4, 5), *kept(6), *passing(7, 8), *kept(9)]
    queue = squeezed(house, *run, durable=True)
    assert_counted(house, queue, ready=10, on_disk_only=8)
    assert house.shelf.spilled == bodies(2, 4, 5, 7, 8)
    relieve(house)
    assert drained(house, queue) == bodies(*range(10))


@pytest.mark.feature("S4-26")
def test_transient_messages_in_front_of_a_paged_stretch_are_spilled_too(house: PagedHouse) -> None:
    """The front must not keep more than it may because what is behind it went first."""
    queue = house.queue(durable=True)
    house.put(queue, *passing(*range(10)), *kept(*range(10, 20)))
    house.shelf.sync()
    queue.touch()
    house.turn()
    assert_counted(house, queue, ready=20, on_disk_only=10)
    house.squeeze(queue)
    assert_counted(house, queue, ready=20, on_disk_only=18)
    relieve(house)
    assert drained(house, queue) == bodies(*range(20))


# ---- unaltered


@pytest.mark.feature("S4-26")
def test_spilled_messages_keep_priority_and_deadline(house: PagedHouse) -> None:
    deadline = house.clock.now() + 60
    run = [*passing(*range(6), priority=1, deadline=deadline), *passing(*range(10, 16))]
    queue = squeezed(house, *run, max_priority=1)
    assert [lane.paged for lane in queue.lanes] == [6, 4]
    relieve(house)
    consumer = consumer_of(queue)
    house.answer_all()
    assert consumer.bodies == bodies(*range(6), *range(10, 16))
    traits = [(given.message[2].priority, given.message[2].deadline) for given in consumer.given]
    assert traits[:6] == [(1, deadline)] * 6
    assert [given.message[2].persistent for given in consumer.given] == [False] * 12
    assert [given.lane for given in consumer.given] == [1] * 6 + [0] * 6


def test_a_spilled_message_dies_on_disk_on_time(house: PagedHouse) -> None:
    run = [*passing(*range(5)), *passing(5, deadline=house.clock.now() + 5), *passing(6, 7, 8, 9)]
    queue = squeezed(house, *run)
    house.advance(5)
    assert_counted(house, queue, ready=9, on_disk_only=7)
    assert b"05" not in house.shelf.spilled
    relieve(house)
    assert drained(house, queue) == bodies(0, 1, 2, 3, 4, 6, 7, 8, 9)


def test_a_message_that_died_in_memory_does_not_come_back_from_the_disk(house: PagedHouse) -> None:
    """What is paged out there is a hole."""
    run = [*passing(*range(6)), *passing(6, deadline=house.clock.now() + 5), *passing(7, 8, 9)]
    queue = house.queue()
    house.put(queue, *run)
    house.advance(5)
    house.squeeze(queue)
    assert_counted(house, queue, ready=9, on_disk_only=7)
    relieve(house)
    assert drained(house, queue) == bodies(0, 1, 2, 3, 4, 5, 7, 8, 9)
    assert queue.counters.expired == 1


def test_the_queues_ttl_goes_on_for_spilled_messages(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(6)), message_ttl=10_000)
    relieve(house)
    house.advance(9.9)
    assert queue.ready == 6
    house.advance(0.1)
    house.answer_all()
    assert_counted(house, queue, ready=0, on_disk_only=0)
    assert house.shelf.spilled == []


# ---- the end


def test_a_purge_takes_spilled_messages_off_the_disk(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(10)))
    assert queue.purge() == 10
    assert_counted(house, queue, ready=0, on_disk_only=0)
    assert house.shelf.spilled == []


def test_a_purge_of_spilled_and_fresh_messages(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(10)))
    relieve(house)
    house.put(queue, *passing(10))
    assert queue.purge() == 11
    house.put(queue, *passing(11))
    assert_counted(house, queue, ready=1, on_disk_only=0)
    assert (ready(queue), house.shelf.spilled) == ([b"11"], [])


def test_a_deleted_queue_leaves_nothing_spilled(house: PagedHouse) -> None:
    queue = squeezed(house, *passing(*range(10)))
    consumer_of(queue, credit=2)
    house.turn()
    assert queue.die() == 8
    house.answer()
    assert house.gauge.used == 0
    assert house.shelf.spilled == []
