"""A backlog larger than memory: what leaves memory, and how it comes back in its place (backlog/pager.py)."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import body_of
from tests.support.memory_pages import (
    SIZE,
    PagedHarness,
    assert_counted,
    bodies,
    consumer_of,
    kept,
    paged,
    passing,
    shrink_steps,
)
from tests.support.spies import message


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def harness() -> PagedHarness:
    """Four messages fit into a queue's memory."""
    return PagedHarness(4 * SIZE)


def backlog(harness: PagedHarness, number: int = 10, **arguments: object) -> ClassicQueue:
    """A durable queue with so many messages, all on disk."""
    queue = harness.queue(durable=True, **arguments)
    harness.put(queue, *kept(*range(number)))
    on_disk(harness, queue)
    return queue


def on_disk(harness: PagedHarness, queue: ClassicQueue) -> None:
    """All is granted, and the queue was looked at since."""
    harness.shelf.sync()
    queue.touch()
    harness.turn()


# ---- out


@pytest.mark.feature("S4-26")
def test_what_is_beyond_the_limit_and_on_disk_leaves_memory(harness: PagedHarness) -> None:
    queue = backlog(harness)
    assert_counted(harness, queue, ready=10, on_disk_only=6)


def test_within_the_limit_everything_stays(harness: PagedHarness) -> None:
    queue = backlog(harness, 4)
    assert_counted(harness, queue, ready=4, on_disk_only=0)


@pytest.mark.feature("S4-26")
def test_what_is_not_on_disk_yet_stays(harness: PagedHarness) -> None:
    """A message in memory only must not be forgotten."""
    queue = harness.queue(durable=True)
    harness.put(queue, *kept(*range(10)))
    assert_counted(harness, queue, ready=10, on_disk_only=0)
    harness.shelf.sync()
    harness.put(queue, *kept(*range(10, 14)))
    assert_counted(harness, queue, ready=14, on_disk_only=6)
    assert harness.shelf.next_sequence(queue.id, 0, 11) is None


@pytest.mark.feature("S4-26")
def test_transient_messages_stay_although_persistent_ones_go(harness: PagedHarness) -> None:
    """They are on no disk."""
    queue = harness.queue(durable=True)
    harness.put(queue, *kept(*range(8)), message(b"08"), *kept(9, 10, 11))
    on_disk(harness, queue)
    assert_counted(harness, queue, ready=12, on_disk_only=3)
    consumer = consumer_of(queue)
    harness.answer_all()
    assert consumer.bodies == bodies(*range(12))


def test_a_queue_without_a_disk_keeps_everything(harness: PagedHarness) -> None:
    queue = harness.queue(durable=False)
    harness.put(queue, *kept(*range(10)))
    on_disk(harness, queue)
    assert_counted(harness, queue, ready=10, on_disk_only=0)


def test_a_few_messages_are_not_worth_it(harness: PagedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "WORTH_IT", 7)
    queue = backlog(harness)
    assert paged(queue) == 0
    harness.put(queue, *kept(10))
    on_disk(harness, queue)
    assert paged(queue) == 7


def test_a_hole_alone_is_no_reason_to_page_out(harness: PagedHarness) -> None:
    """A message died in the middle of a backlog that must stay: the queue comes to rest all the same."""
    queue = harness.queue(durable=True)
    harness.put(queue, *passing(*range(7)))
    harness.put(queue, message(b"07", deadline=harness.clock.now() + 5))
    harness.put(queue, *passing(8, 9))
    harness.advance(5)
    harness.put(queue, message(b"10"))
    assert_counted(harness, queue, ready=10, on_disk_only=0)
    consumer = consumer_of(queue)
    harness.turn()
    assert consumer.bodies == bodies(0, 1, 2, 3, 4, 5, 6, 8, 9, 10)


@pytest.mark.feature("S4-26")
def test_what_is_published_behind_paged_messages_follows_them(harness: PagedHarness) -> None:
    """Fresh messages are in memory until they are on disk too."""
    queue = backlog(harness)
    harness.put(queue, *kept(10, 11))
    assert_counted(harness, queue, ready=12, on_disk_only=6)
    on_disk(harness, queue)
    assert_counted(harness, queue, ready=12, on_disk_only=8)


@pytest.mark.feature("S4-29")
def test_unacked_messages_count_as_memory_and_never_leave_it(harness: PagedHarness) -> None:
    queue = harness.queue(durable=True)
    consumer = consumer_of(queue, credit=4)
    harness.put(queue, *kept(*range(10)))
    on_disk(harness, queue)
    assert_counted(harness, queue, ready=6, on_disk_only=2, unacked=4)
    assert consumer.bodies == bodies(0, 1, 2, 3)


def test_a_message_larger_than_the_limit_is_paged_out_too(harness: PagedHarness) -> None:
    queue = harness.queue(durable=True)
    large = [message(b"x" * 10 * SIZE, persistent=True) for _ in range(3)]
    harness.put(queue, *large)
    on_disk(harness, queue)
    assert queue.ready == paged(queue) == 3
    consumer = consumer_of(queue, no_ack=True)
    harness.answer_all()
    assert consumer.bodies == [body_of(content) for content, _, _ in large]
    assert (queue.ready, queue.bytes, harness.gauge.used) == (0, 0, 0)


# ---- in


@pytest.mark.feature("S4-26")
def test_a_consumer_gets_all_in_order(harness: PagedHarness) -> None:
    """Load by load; what is new comes behind."""
    queue = backlog(harness)
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    assert consumer.bodies == bodies(0, 1, 2, 3)
    assert_counted(harness, queue, ready=6, on_disk_only=6)
    harness.put(queue, *kept(10))
    assert consumer.bodies == bodies(0, 1, 2, 3), "not before those that are on disk"
    harness.answer()
    assert consumer.bodies == bodies(*range(7))
    assert_counted(harness, queue, ready=4, on_disk_only=3)
    harness.answer()
    assert consumer.bodies == bodies(*range(11))
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    assert harness.shelf.on_disk(queue.id, 0) == {}


@pytest.mark.feature("S4-26")
def test_the_next_stretch_is_asked_for_before_the_front_runs_dry(harness: PagedHarness) -> None:
    """Nobody waits for the disk as long as reading is faster than consuming."""
    queue = backlog(harness)
    consumer = consumer_of(queue, credit=4)
    harness.answer_all()
    assert_counted(harness, queue, ready=6, on_disk_only=3, unacked=4)
    consumer.ack(b"00")
    harness.turn()
    assert harness.shelf.loads == []
    consumer.ack(b"01")
    harness.turn()
    assert [load.sequences for load in harness.shelf.loads] == [[8, 9, 10]]
    assert len(queue.lane.ready) == 1


def test_one_load_at_a_time(harness: PagedHarness) -> None:
    queue = backlog(harness)
    consumer_of(queue, no_ack=True)
    harness.turn()
    queue.touch()
    harness.turn()
    assert len(harness.shelf.loads) == 1


def test_what_is_published_while_a_load_is_under_way_comes_behind_it(harness: PagedHarness) -> None:
    queue = backlog(harness, 7)
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    assert [load.sequences for load in harness.shelf.loads] == [[5, 6, 7]]
    harness.put(queue, *kept(7), message(b"08"))
    harness.answer()
    assert consumer.bodies == bodies(*range(9))
    assert_counted(harness, queue, ready=0, on_disk_only=0)


def test_a_consumer_that_leaves_while_a_load_is_under_way_costs_nothing(harness: PagedHarness) -> None:
    queue = backlog(harness)
    first = consumer_of(queue, credit=4)
    harness.turn()
    queue.remove_consumer(first)
    harness.answer()
    assert_counted(harness, queue, ready=6, on_disk_only=3, unacked=4)
    first.requeue(b"02")
    first.ack(b"00")
    second = consumer_of(queue, no_ack=True)
    harness.answer_all()
    assert second.bodies == bodies(2, *range(4, 10))
    assert_counted(harness, queue, ready=0, on_disk_only=0, unacked=2)


def test_a_consumer_that_comes_while_a_load_is_under_way_gets_its_share(harness: PagedHarness) -> None:
    queue = backlog(harness)
    one = consumer_of(queue, credit=4, tag="one")
    harness.turn()
    two = consumer_of(queue, tag="two")
    harness.answer_all()
    assert one.bodies == bodies(0, 1, 2, 3)
    assert two.bodies == bodies(*range(4, 10))


@pytest.mark.feature("S4-26", "S4-55")
def test_a_returned_message_goes_before_what_is_on_disk(harness: PagedHarness) -> None:
    """To its old place."""
    queue = backlog(harness)
    consumer = consumer_of(queue, credit=4)
    harness.turn()
    queue.remove_consumer(consumer)
    for body in bodies(3, 1):
        consumer.requeue(body)
    harness.turn()
    assert_counted(harness, queue, ready=8, on_disk_only=6, unacked=2)
    again = consumer_of(queue)
    harness.answer_all()
    assert again.bodies == bodies(1, 3, *range(4, 10))
    assert [given.count for given in again.given] == [1, 1, 0, 0, 0, 0, 0, 0]


def test_a_message_that_was_loaded_returns_to_its_place_too(harness: PagedHarness) -> None:
    queue = backlog(harness)
    consumer = consumer_of(queue, credit=6)
    harness.answer_all()
    assert consumer.bodies == bodies(*range(6))
    queue.remove_consumer(consumer)
    consumer.requeue(b"05")
    again = consumer_of(queue)
    harness.answer_all()
    assert again.bodies == bodies(5, 6, 7, 8, 9)


def test_a_load_of_a_queue_that_paged_out_again_meanwhile(harness: PagedHarness) -> None:
    """Loaded to the end, filled and paged out once more: sequences go on."""
    queue = backlog(harness)
    consumer = consumer_of(queue, no_ack=True)
    harness.answer_all()
    queue.remove_consumer(consumer)
    harness.put(queue, *kept(*range(20, 30)))
    on_disk(harness, queue)
    assert_counted(harness, queue, ready=10, on_disk_only=6)
    again = consumer_of(queue, no_ack=True)
    harness.answer_all()
    assert again.bodies == bodies(*range(20, 30))
    assert_counted(harness, queue, ready=0, on_disk_only=0)


# ---- priorities


@pytest.mark.feature("S4-26")
def test_every_lane_pages_out_and_the_highest_stays_longest(harness: PagedHarness) -> None:
    """Memory is kept for those that go out first."""
    queue = harness.queue(durable=True, max_priority=2)
    harness.put(queue, *kept(*range(3)), *kept(*range(20, 26), priority=2), *kept(*range(10, 13), priority=1))
    on_disk(harness, queue)
    assert [lane.paged for lane in queue.lanes] == [3, 3, 2]
    assert_counted(harness, queue, ready=12, on_disk_only=8)


@pytest.mark.feature("S4-26")
def test_a_higher_lane_on_disk_goes_before_a_lower_one_in_memory(harness: PagedHarness) -> None:
    """Order is by priority first, wherever the messages are."""
    queue = harness.queue(durable=True, max_priority=1)
    harness.put(queue, *kept(*range(10, 20), priority=1))
    on_disk(harness, queue)
    harness.put(queue, *kept(0, 1))
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    assert consumer.bodies == bodies(10, 11, 12, 13)
    harness.answer_all()
    assert consumer.bodies == bodies(*range(10, 20), 0, 1)
    assert_counted(harness, queue, ready=0, on_disk_only=0)


def test_a_message_of_higher_priority_overtakes_a_load_that_is_under_way(harness: PagedHarness) -> None:
    queue = harness.queue(durable=True, max_priority=1)
    harness.put(queue, *kept(*range(10)))
    on_disk(harness, queue)
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    harness.put(queue, *kept(99, priority=1))
    harness.answer_all()
    assert consumer.bodies == bodies(0, 1, 2, 3, 99, *range(4, 10))


# ---- by hand


@pytest.mark.feature("S4-26")
def test_get_takes_in_order_and_says_when_the_first_is_on_disk(harness: PagedHarness) -> None:
    """``needs_load`` and ``when_loaded``."""
    queue = backlog(harness)
    calls: list[int] = []
    got = []
    assert queue.pager is not None
    for number in range(10):
        while queue.needs_load:
            assert queue.pager.when_loaded(lambda: calls.append(1))
            harness.answer()
        taken = queue.get(no_ack=True)
        assert taken is not None
        assert taken.left == 9 - number
        got.append(body_of(taken.message[0]))
        assert_counted(harness, queue, ready=9 - number, on_disk_only=paged(queue))
    assert got == bodies(*range(10))
    assert calls
    assert queue.get(no_ack=True) is None
    assert not queue.needs_load


def test_an_empty_queue_and_one_in_memory_need_no_load(harness: PagedHarness) -> None:
    queue = backlog(harness, 3)
    assert queue.pager is not None
    assert not queue.needs_load
    assert not queue.pager.when_loaded(lambda: None)
    assert not harness.queue(durable=True).needs_load


def test_everyone_who_waits_for_a_load_is_called_once(harness: PagedHarness) -> None:
    queue = backlog(harness)
    pager, calls = queue.pager, []
    assert pager is not None
    for _ in range(4):
        queue.get(no_ack=True)
    assert pager.when_loaded(lambda: calls.append("one"))
    assert pager.when_loaded(lambda: calls.append("two"))
    harness.answer()
    assert calls == ["one", "two"]
    harness.answer_all()
    assert calls == ["one", "two"]
