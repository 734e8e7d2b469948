"""Paged messages that leave in other ways than by a consumer: purged, deleted, damaged, expired (backlog/pager.py)."""

from __future__ import annotations

import pytest

from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import body_of
from tests.support.memory_pages import SIZE, PagedHarness, assert_counted, bodies, consumer_of, paged, shrink_steps
from tests.support.spies import message


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def harness() -> PagedHarness:
    """Four messages fit into a queue's memory."""
    return PagedHarness(4 * SIZE)


def kept(harness: PagedHarness, *numbers: int, seconds: float | None = None) -> list[Message]:
    """Persistent messages, perhaps with an expiration of their own."""
    more = {} if seconds is None else {"deadline": harness.clock.now() + seconds}
    return [message(body, persistent=True, **more) for body in bodies(*numbers)]


def on_disk(harness: PagedHarness, queue: ClassicQueue) -> None:
    harness.shelf.sync()
    queue.touch()
    harness.turn()


def backlog(harness: PagedHarness, *more: Message, **arguments: object) -> ClassicQueue:
    """A durable queue with ten messages, and more, all on disk."""
    queue = harness.queue(durable=True, **arguments)
    harness.put(queue, *kept(harness, *range(10)), *more)
    on_disk(harness, queue)
    return queue


def timed_backlog(harness: PagedHarness, *mortal: int, of: int = 10, seconds: float = 5) -> ClassicQueue:
    """Messages 0, 1, ... on disk, some of which die after so many seconds."""
    queue = harness.queue(durable=True)
    for number in range(of):
        harness.put(queue, *kept(harness, number, seconds=seconds if number in mortal else None))
    on_disk(harness, queue)
    assert paged(queue) == of - 4
    return queue


def drained(harness: PagedHarness, queue: ClassicQueue) -> list[bytes]:
    """What a consumer without acks gets to the end; nothing is left then."""
    consumer = consumer_of(queue, no_ack=True)
    harness.answer_all()
    queue.remove_consumer(consumer)
    harness.turn()
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    assert queue.lane.page_stop == 0
    return consumer.bodies


# ---- purge and delete


@pytest.mark.feature("S4-26")
def test_a_purge_counts_what_is_on_disk_and_leaves_what_is_unacked(harness: PagedHarness) -> None:
    queue = backlog(harness)
    consumer = consumer_of(queue, credit=2)
    harness.put(queue, *kept(harness, 10))
    assert queue.purge() == 9
    assert_counted(harness, queue, ready=0, on_disk_only=0, unacked=2)
    harness.shelf.sync()
    assert list(harness.shelf.on_disk(queue.id, 0)) == [1, 2]
    consumer.ack(b"00")
    harness.put(queue, *kept(harness, 11))
    assert consumer.bodies == bodies(1, 11)


def test_a_purge_while_a_load_is_under_way(harness: PagedHarness) -> None:
    """What was read is not wanted any more; what is published since is."""
    queue = backlog(harness)
    consumer_of(queue, credit=4)
    harness.turn()
    assert queue.purge() == 6
    harness.put(queue, *kept(harness, 20))
    harness.answer()
    assert_counted(harness, queue, ready=1, on_disk_only=0, unacked=4)
    assert harness.shelf.loads == []


def test_a_purge_and_a_new_backlog_while_a_load_is_under_way(harness: PagedHarness) -> None:
    queue = backlog(harness)
    consumer = consumer_of(queue, credit=4)
    harness.turn()
    queue.purge()
    harness.put(queue, *kept(harness, *range(20, 30)))
    on_disk(harness, queue)
    for body in bodies(0, 1, 2, 3):
        consumer.ack(body)
    harness.answer()
    assert consumer.bodies == bodies(20, 21, 22, 23)
    consumer.credit = 1 << 60
    queue.touch()
    harness.answer_all()
    assert consumer.bodies == bodies(*range(20, 30))


@pytest.mark.feature("S4-24", "S4-26")
def test_a_deleted_queue_leaves_nothing_behind(harness: PagedHarness) -> None:
    queue = backlog(harness)
    consumer_of(queue, credit=1)
    harness.turn()
    assert queue.die() == 9
    assert harness.gauge.used == 0
    assert harness.shelf.forgotten == [queue.id, queue.id], "by the log and by the pages"
    assert harness.shelf.on_disk(queue.id, 0) == {}


def test_a_load_that_ends_after_its_queue_is_ignored(harness: PagedHarness) -> None:
    queue = backlog(harness)
    consumer = consumer_of(queue)
    harness.turn()
    queue.die()
    harness.answer()
    assert consumer.bodies == bodies(0, 1, 2, 3)
    assert harness.gauge.used == 0


def test_whoever_waits_for_a_load_hears_of_the_queues_end(harness: PagedHarness) -> None:
    """Or its connection would wait for ever."""
    queue = backlog(harness)
    calls: list[int] = []
    for _ in range(4):
        queue.get(no_ack=True)
    assert queue.pager is not None
    assert queue.pager.when_loaded(lambda: calls.append(1))
    queue.die()
    assert calls == [1], "at once: the disk may take its time"
    harness.answer()
    assert calls == [1]


# ---- damage


@pytest.mark.feature("S4-21", "S4-26")
def test_a_damaged_message_costs_only_itself(harness: PagedHarness) -> None:
    queue = backlog(harness)
    harness.shelf.damaged = {6}
    assert drained(harness, queue) == bodies(0, 1, 2, 3, 4, 6, 7, 8, 9)


def test_the_last_message_damaged_holds_nobody_up(harness: PagedHarness) -> None:
    queue = backlog(harness)
    harness.shelf.damaged = {9, 10}
    assert drained(harness, queue) == bodies(*range(8))


def test_a_load_that_finds_nothing_at_all_is_followed_by_the_next(harness: PagedHarness) -> None:
    queue = backlog(harness)
    harness.shelf.damaged = {5, 6, 7}
    assert drained(harness, queue) == bodies(0, 1, 2, 3, 7, 8, 9)


def test_what_comes_behind_a_lost_stretch_is_delivered(harness: PagedHarness) -> None:
    """All that was on disk is damaged; a consumer that waits gets what is in memory behind it, at once."""
    queue = backlog(harness)
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    harness.put(queue, message(b"10"))
    harness.shelf.damaged = set(range(5, 11))
    harness.answer_all()
    assert consumer.bodies == bodies(0, 1, 2, 3, 10)


def test_get_goes_past_a_lost_stretch(harness: PagedHarness) -> None:
    queue = backlog(harness)
    harness.put(queue, message(b"10"))
    for _ in range(4):
        queue.get(no_ack=True)
    harness.shelf.damaged = set(range(5, 11))
    harness.answer_all()
    assert not queue.needs_load
    taken = queue.get(no_ack=True)
    assert taken is not None
    assert (body_of(taken.message[0]), taken.left) == (b"10", 0)


# ---- expiration of their own


@pytest.mark.feature("S4-26")
def test_a_message_dies_on_disk_on_time(harness: PagedHarness) -> None:
    """Its own expiration counts in the paged middle as anywhere."""
    queue = timed_backlog(harness, 6)
    harness.advance(5)
    assert_counted(harness, queue, ready=9, on_disk_only=5)
    assert queue.counters.expired == 1
    assert list(harness.shelf.on_disk(queue.id, 0)) == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert drained(harness, queue) == bodies(0, 1, 2, 3, 4, 5, 7, 8, 9)


def test_a_message_whose_death_is_noted_twice_dies_once(harness: PagedHarness) -> None:
    """Two records of it were found, say: the original, and a copy that reclaim had made before a crash."""
    queue = timed_backlog(harness, 6)
    assert queue.deadlines is not None
    queue.deadlines.watch(0, 7, harness.clock.now() + 5)
    harness.advance(5)
    assert_counted(harness, queue, ready=9, on_disk_only=5)
    assert queue.counters.expired == 1


def test_a_message_keeps_its_deadline_through_the_disk(harness: PagedHarness) -> None:
    queue = timed_backlog(harness, 6)
    for _ in range(4):
        queue.get(no_ack=True)
    harness.answer()
    harness.advance(4.9)
    assert queue.ready == 6
    harness.advance(0.1)
    assert (queue.ready, queue.counters.expired) == (5, 1)
    assert drained(harness, queue) == bodies(4, 5, 7, 8, 9)


def test_a_message_that_dies_while_it_is_loaded_is_not_delivered(harness: PagedHarness) -> None:
    """It expired on disk after the load began: it must not come back, nor be counted twice."""
    queue = timed_backlog(harness, 5, 9)
    consumer = consumer_of(queue, credit=4)
    harness.turn()
    assert [load.sequences for load in harness.shelf.loads] == [[5, 6, 7]]
    harness.advance(5)
    assert_counted(harness, queue, ready=4, on_disk_only=4, unacked=4)
    harness.answer()
    assert_counted(harness, queue, ready=4, on_disk_only=2, unacked=4)
    consumer.credit = 1 << 60
    queue.touch()
    harness.answer_all()
    assert consumer.bodies == bodies(0, 1, 2, 3, 4, 6, 7, 8)
    assert_counted(harness, queue, ready=0, on_disk_only=0, unacked=8)


@pytest.mark.parametrize("mortal", [(5,), (5, 6), (5, 6, 7), (4, 5, 6, 7), (4, 5, 6, 7, 8), (9,), (8, 9), (7, 8, 9)])
def test_gaps_small_and_large_are_bridged(harness: PagedHarness, mortal: tuple[int, ...]) -> None:
    """Messages that died on disk leave a gap; up to SMALL_GAP it is filled with holes, beyond it is a leap."""
    queue = timed_backlog(harness, *mortal)
    harness.advance(5)
    alive = [number for number in range(10) if number not in mortal]
    assert_counted(harness, queue, ready=len(alive), on_disk_only=len(alive) - 4)
    harness.put(queue, message(b"10"))
    assert drained(harness, queue) == bodies(*alive, 10)


@pytest.mark.parametrize("mortal", [(5,), (5, 6, 7, 8), (4, 5, 6, 7, 8)])
def test_gaps_that_open_while_a_part_is_loaded(harness: PagedHarness, mortal: tuple[int, ...]) -> None:
    queue = timed_backlog(harness, *mortal, of=14)
    consumer = consumer_of(queue, credit=2)
    harness.answer_all()
    consumer.ack(b"00")
    consumer.ack(b"01")
    harness.answer_all()
    harness.advance(5)
    consumer.credit = 1 << 60
    queue.touch()
    harness.answer_all()
    alive = [number for number in range(2, 14) if number not in mortal]
    assert consumer.bodies == bodies(*alive)
    assert_counted(harness, queue, ready=0, on_disk_only=0, unacked=len(alive))


def test_a_leap_is_not_loaded_before_the_front_is_gone(harness: PagedHarness) -> None:
    """What lies behind a large gap cannot be joined to the front: to load it would be in vain, again and again."""
    queue = timed_backlog(harness, 7, 8, 9, 10, of=14)
    harness.advance(5)
    consumer = consumer_of(queue, credit=6)
    harness.answer_all()
    assert (consumer.bodies, len(queue.lane.ready)) == (bodies(*range(6)), 1)
    queue.touch()
    harness.turn()
    assert harness.shelf.loads == []
    consumer.ack(b"00")
    harness.answer_all()
    assert consumer.bodies == bodies(*range(1, 7))
    consumer.credit = 1 << 60
    queue.touch()
    harness.answer_all()
    assert consumer.bodies == bodies(*range(1, 7), 11, 12, 13)


def test_a_message_behind_the_paged_ones_dies_on_time(harness: PagedHarness) -> None:
    queue = backlog(harness)
    harness.put(queue, *kept(harness, 10, seconds=5), *kept(harness, 11))
    assert_counted(harness, queue, ready=12, on_disk_only=6)
    harness.advance(5)
    assert_counted(harness, queue, ready=11, on_disk_only=6)
    assert drained(harness, queue) == bodies(*range(10), 11)


def test_when_all_on_disk_died_the_rest_is_delivered_at_once(harness: PagedHarness) -> None:
    """A consumer that took the front waits; what stands behind the dead stretch must not wait for another event."""
    queue = timed_backlog(harness, *range(4, 10))
    harness.put(queue, message(b"10"))
    harness.advance(5)
    assert_counted(harness, queue, ready=5, on_disk_only=0)
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    assert consumer.bodies == bodies(0, 1, 2, 3, 10)


def test_get_finds_what_stands_behind_a_dead_stretch(harness: PagedHarness) -> None:
    queue = timed_backlog(harness, *range(4, 10))
    harness.put(queue, message(b"10"))
    harness.advance(5)
    got = []
    for _ in range(5):
        assert not queue.needs_load
        taken = queue.get(no_ack=True)
        assert taken is not None
        got.append(body_of(taken.message[0]))
    assert got == bodies(0, 1, 2, 3, 10)


def test_get_is_not_told_empty_when_the_front_died_and_more_is_on_disk(harness: PagedHarness) -> None:
    """``needs_load`` before the get was right; what died since must not make the rest invisible."""
    queue = timed_backlog(harness, 0, 1, 2, 3)
    harness.clock.move_to(harness.clock.now() + 5)
    assert found_by_get(harness, queue) == b"04"


def test_get_is_not_told_empty_when_a_hole_ends_the_front(harness: PagedHarness) -> None:
    queue = timed_backlog(harness, 3)
    harness.advance(5)
    assert [found_by_get(harness, queue) for _ in range(4)] == bodies(0, 1, 2, 4)


def found_by_get(harness: PagedHarness, queue: ClassicQueue) -> bytes | None:
    """As a session gets: it waits for a load as long as the queue asks for one."""
    assert queue.pager is not None
    while queue.needs_load and queue.pager.when_loaded(lambda: None):
        harness.answer()
    taken = queue.get(no_ack=True)
    return None if taken is None else body_of(taken.message[0])


# ---- the queue's TTL


@pytest.mark.feature("S4-26")
def test_the_queues_ttl_counts_from_the_publish_through_the_disk(harness: PagedHarness) -> None:
    queue = harness.queue(durable=True, message_ttl=10_000)
    for number in range(10):
        harness.put(queue, *kept(harness, number))
        harness.advance(0.5)
    on_disk(harness, queue)
    assert_counted(harness, queue, ready=10, on_disk_only=6)
    harness.advance(6.9)  # the first was published 11.9 seconds ago, the fourth 10.4, the fifth 9.9
    harness.answer_all()
    assert queue.ready == 6
    assert drained(harness, queue) == bodies(4, 5, 6, 7, 8, 9)


def test_a_whole_backlog_dies_of_the_queues_ttl(harness: PagedHarness) -> None:
    queue = backlog(harness, message_ttl=10_000)
    harness.advance(10)
    harness.answer_all()
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    assert queue.counters.expired == 10
    assert harness.shelf.on_disk(queue.id, 0) == {}


def test_the_earlier_of_both_deadlines_counts_through_the_disk(harness: PagedHarness) -> None:
    queue = harness.queue(durable=True, message_ttl=10_000)
    harness.put(queue, *kept(harness, 0, 1, 2, 3), *kept(harness, 4, seconds=60), *kept(harness, 5, seconds=5))
    on_disk(harness, queue)
    assert paged(queue) == 2
    harness.advance(5)
    assert queue.ready == 5
    for _ in range(4):
        queue.get(no_ack=True)
    harness.answer_all()
    harness.advance(4.9)
    assert queue.ready == 1
    harness.advance(0.1)
    assert queue.ready == 0
