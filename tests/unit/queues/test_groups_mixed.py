"""Message groups together with selectors, a single active consumer, paging and one-shot pulls."""

from __future__ import annotations

import pytest

from leveret.message import PERSISTENT
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import body_of
from tests.support.memory_pages import PagedHarness, shrink_steps
from tests.support.selector_consumers import consumer_of, die, given, message, of_groups
from tests.support.spies import QueueHarness, SpyConsumer, ready, size_of

RED, BLUE = "colour = 'red'", "colour = 'blue'"


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


@pytest.fixture
def queue(harness: QueueHarness) -> ClassicQueue:
    return harness.queue(message_groups=True)


# ---- selectors


def test_a_group_goes_to_one_who_wants_its_first_message(harness: QueueHarness, queue: ClassicQueue) -> None:
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    harness.publish(queue, message(b"1", group="a", colour="blue"), message(b"2", group="b", colour="red"))
    harness.turn()
    assert (given(red), given(blue)) == ("2", "1")


def test_what_the_holder_does_not_want_waits_until_the_group_is_free(
    harness: QueueHarness, queue: ClassicQueue
) -> None:
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    harness.publish(
        queue,
        message(b"1", group="a", colour="red"),
        message(b"2", group="a", colour="blue"),
        message(b"3", group="a", colour="red"),
    )
    harness.turn()
    assert (given(red), given(blue)) == ("1", "")
    red.ack(b"1")
    harness.turn()
    assert (given(red), given(blue)) == ("", "2")
    blue.ack(b"2")
    harness.turn()
    assert given(red) == "3"


def test_what_nobody_wants_does_not_hold_up_its_group(harness: QueueHarness, queue: ClassicQueue) -> None:
    red = consumer_of(queue, selector=RED)
    harness.publish(queue, message(b"1", group="a", colour="blue"), message(b"2", group="a", colour="red"))
    harness.turn()
    assert (given(red), ready(queue)) == ("2", [b"1"])
    blue = consumer_of(queue, selector=BLUE)
    harness.turn()
    assert given(blue) == ""  # the group is not free
    red.ack(b"2")
    harness.turn()
    assert given(blue) == "1"


def test_a_group_goes_on_when_the_only_one_who_wanted_its_next_message_leaves(
    harness: QueueHarness, queue: ClassicQueue
) -> None:
    red, blue = consumer_of(queue, 1, selector=RED), consumer_of(queue, 1, selector=BLUE)
    harness.publish(
        queue,
        message(b"other", group="b", colour="red"),
        message(b"1", group="a", colour="red"),
        message(b"2", group="a", colour="blue"),
    )
    harness.turn()
    assert (given(red), given(blue)) == ("other", "")
    queue.remove_consumer(red)
    harness.turn()
    assert given(blue) == "2"


# ---- a single active consumer


def test_groups_of_the_former_active_consumer_wait_for_it(harness: QueueHarness) -> None:
    queue = harness.queue(message_groups=True, single_active_consumer=True)
    first = consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 a2 b1"))
    harness.turn()
    second = consumer_of(queue, priority=1)
    harness.turn()
    assert (given(first), given(second)) == ("a1", "b1")
    first.ack(b"a1")
    harness.turn()
    assert (given(first), given(second)) == ("", "b1 a2")


def test_the_next_active_consumer_gets_what_the_dead_one_held_in_order(harness: QueueHarness) -> None:
    queue = harness.queue(message_groups=True, single_active_consumer=True)
    first, second = consumer_of(queue, 3), consumer_of(queue)
    harness.publish(queue, *of_groups("a1 b1 a2 b2"))
    harness.turn()
    assert (given(first), given(second)) == ("a1 b1 a2", "")
    die(first)
    harness.turn()
    assert given(second) == "a1 b1 a2 b2"


def test_a_selector_on_a_queue_with_a_single_active_consumer(harness: QueueHarness) -> None:
    """What the active one does not want waits: the others stand by, whatever they want."""
    queue = harness.queue(single_active_consumer=True)
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    harness.publish(queue, message(b"1", colour="blue"), message(b"2", colour="red"))
    harness.turn()
    assert (given(red), given(blue)) == ("2", "")
    queue.remove_consumer(red)
    harness.turn()
    assert given(blue) == "1"


# ---- one-shot pulls


@pytest.mark.parametrize("no_ack", [False, True])
def test_who_pulls_one_gets_one_of_a_group(harness: QueueHarness, queue: ClassicQueue, no_ack: bool) -> None:
    harness.publish(queue, *of_groups("a1 a2 b1"))
    first = consumer_of(queue, one_shot=True, no_ack=no_ack)
    harness.turn()
    assert (given(first), first.cancelled, len(queue.consumers)) == ("a1", 1, 0)
    second = consumer_of(queue, one_shot=True, no_ack=no_ack)
    harness.turn()
    assert given(second) == ("a2" if no_ack else "b1")  # unless it said that it needs no ack, it is still at work


# ---- a backlog on disk


def backlog(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[PagedHarness, ClassicQueue]:
    shrink_steps(monkeypatch, load=12)
    run = [(content, address, PERSISTENT) for content, address, _ in of_groups(text)]
    harness = PagedHarness(4 * size_of(run[:1]))
    queue = harness.queue(durable=True, message_groups=True)
    harness.put(queue, *run)
    harness.shelf.sync()
    queue.touch()
    harness.turn()
    return harness, queue


def consumed(harness: PagedHarness, *consumers: SpyConsumer, number: int) -> list[str]:
    """Let these consumers settle what they get, until it was so much."""
    got: list[str] = []
    for _ in range(200):
        harness.turn()
        if harness.shelf.loads:
            harness.shelf.answer()
            harness.turn()
        for consumer in consumers:
            for body in list(consumer.bodies):
                got.append(body.decode())
                if len(got) == number:
                    consumer.credit = -1
                consumer.ack(body)
        if len(got) == number:
            return got
    raise AssertionError(f"only {got}")


def test_a_backlog_on_disk_is_delivered_by_groups_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{'abc'[number % 3]}{number:02}" for number in range(30)]
    harness, queue = backlog(monkeypatch, " ".join(names))
    assert queue.lane.paged > 0
    got = consumed(harness, consumer_of(queue, 2), consumer_of(queue, 2), number=30)
    assert sorted(got) == sorted(names)
    for letter in "abc":
        assert [name for name in got if name[0] == letter] == [name for name in names if name[0] == letter]


def test_holes_behind_one_that_waits_do_not_keep_the_rest_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*(f"-{number:02}" for number in range(8)), "a08", "a09"]
    names += [f"{'bcd'[number % 3]}{number:02}" for number in range(10, 40)]
    harness, queue = backlog(monkeypatch, " ".join(names))
    quick = consumer_of(queue, 1)
    assert consumed(harness, quick, number=8) == names[:8]
    slow = consumer_of(queue, 1)
    harness.turn()
    assert given(slow) == "a08"
    quick.credit = 1
    queue.touch()
    assert consumed(harness, quick, number=30) == names[10:]
    assert [body_of(message[0]) for _, _, message in queue.lane] == [b"a09"]
    slow.ack(b"a08")
    harness.turn()
    assert [(each.body, each.count) for each in slow.given] == [(b"a09", 0)]


def test_one_that_waits_in_front_from_the_start_does_not_keep_the_rest_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a00", "a01", *(f"{'bcd'[number % 3]}{number:02}" for number in range(2, 30))]
    harness, queue = backlog(monkeypatch, " ".join(names))
    slow, quick = consumer_of(queue, 1), consumer_of(queue, 1)
    assert consumed(harness, quick, number=28) == names[2:]
    assert given(slow) == "a00"
