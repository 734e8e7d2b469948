"""Message groups together with selectors, a single active consumer, paging and one-shot pulls."""

from __future__ import annotations

import pytest

from leveret.message import PERSISTENT
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import body_of
from tests.support.choices import consumer_of, die, given, message, of_groups
from tests.support.shelf import PagedHouse, shrink_steps
from tests.support.spies import QueueHouse, SpyConsumer, ready, size_of

RED, BLUE = "colour = 'red'", "colour = 'blue'"


@pytest.fixture
def house() -> QueueHouse:
    return QueueHouse()


@pytest.fixture
def queue(house: QueueHouse) -> ClassicQueue:
    return house.queue(message_groups=True)


# ---- selectors


def test_a_group_goes_to_one_who_wants_its_first_message(house: QueueHouse, queue: ClassicQueue) -> None:
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    house.publish(queue, message(b"1", group="a", colour="blue"), message(b"2", group="b", colour="red"))
    house.turn()
    assert (given(red), given(blue)) == ("2", "1")


def test_what_the_holder_does_not_want_waits_until_the_group_is_free(house: QueueHouse, queue: ClassicQueue) -> None:
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    house.publish(
        queue,
        message(b"1", group="a", colour="red"),
        message(b"2", group="a", colour="blue"),
        message(b"3", group="a", colour="red"),
    )
    house.turn()
    assert (given(red), given(blue)) == ("1", "")
    red.ack(b"1")
    house.turn()
    assert (given(red), given(blue)) == ("", "2")
    blue.ack(b"2")
    house.turn()
    assert given(red) == "3"


def test_what_nobody_wants_does_not_hold_up_its_group(house: QueueHouse, queue: ClassicQueue) -> None:
    red = consumer_of(queue, selector=RED)
    house.publish(queue, message(b"1", group="a", colour="blue"), message(b"2", group="a", colour="red"))
    house.turn()
    assert (given(red), ready(queue)) == ("2", [b"1"])
    blue = consumer_of(queue, selector=BLUE)
    house.turn()
    assert given(blue) == ""  # the group is not free
    red.ack(b"2")
    house.turn()
    assert given(blue) == "1"


def test_a_group_goes_on_when_the_only_one_who_wanted_its_next_message_leaves(
    house: QueueHouse, queue: ClassicQueue
) -> None:
    red, blue = consumer_of(queue, 1, selector=RED), consumer_of(queue, 1, selector=BLUE)
    house.publish(
        queue,
        message(b"other", group="b", colour="red"),
        message(b"1", group="a", colour="red"),
        message(b"2", group="a", colour="blue"),
    )
    house.turn()
    assert (given(red), given(blue)) == ("other", "")
    queue.remove_consumer(red)
    house.turn()
    assert given(blue) == "2"


# ---- a single active consumer


def test_groups_of_the_former_active_consumer_wait_for_it(house: QueueHouse) -> None:
    queue = house.queue(message_groups=True, single_active_consumer=True)
    first = consumer_of(queue, 1)
    house.publish(queue, *of_groups("a1 a2 b1"))
    house.turn()
    second = consumer_of(queue, priority=1)
    house.turn()
    assert (given(first), given(second)) == ("a1", "b1")
    first.ack(b"a1")
    house.turn()
    assert (given(first), given(second)) == ("", "b1 a2")


def test_the_next_active_consumer_gets_what_the_dead_one_held_in_order(house: QueueHouse) -> None:
    queue = house.queue(message_groups=True, single_active_consumer=True)
    first, second = consumer_of(queue, 3), consumer_of(queue)
    house.publish(queue, *of_groups("a1 b1 a2 b2"))
    house.turn()
    assert (given(first), given(second)) == ("a1 b1 a2", "")
    die(first)
    house.turn()
    assert given(second) == "a1 b1 a2 b2"


def test_a_selector_on_a_queue_with_a_single_active_consumer(house: QueueHouse) -> None:
    """What the active one does not want waits: the others stand by, whatever they want."""
    queue = house.queue(single_active_consumer=True)
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    house.publish(queue, message(b"1", colour="blue"), message(b"2", colour="red"))
    house.turn()
    assert (given(red), given(blue)) == ("2", "")
    queue.remove_consumer(red)
    house.turn()
    assert given(blue) == "1"


# ---- one-shot pulls


@pytest.mark.parametrize("no_ack", [False, True])
def test_who_pulls_one_gets_one_of_a_group(house: QueueHouse, queue: ClassicQueue, no_ack: bool) -> None:
    house.publish(queue, *of_groups("a1 a2 b1"))
    first = consumer_of(queue, one_shot=True, no_ack=no_ack)
    house.turn()
    assert (given(first), first.cancelled, len(queue.consumers)) == ("a1", 1, 0)
    second = consumer_of(queue, one_shot=True, no_ack=no_ack)
    house.turn()
    assert given(second) == ("a2" if no_ack else "b1")  # unless it said that it needs no ack, it is still at work


# ---- a backlog on disk


def backlog(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[PagedHouse, ClassicQueue]:
    shrink_steps(monkeypatch, load=12)
    run = [(content, address, PERSISTENT) for content, address, _ in of_groups(text)]
    house = PagedHouse(4 * size_of(run[:1]))
    queue = house.queue(durable=True, message_groups=True)
    house.put(queue, *run)
    house.shelf.sync()
    queue.touch()
    house.turn()
    return house, queue


def consumed(house: PagedHouse, *consumers: SpyConsumer, number: int) -> list[str]:
    """Let these consumers settle what they get, until it was so much."""
    got: list[str] = []
    for _ in range(200):
        house.turn()
        if house.shelf.loads:
            house.shelf.answer()
            house.turn()
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
    house, queue = backlog(monkeypatch, " ".join(names))
    assert queue.lane.paged > 0
    got = consumed(house, consumer_of(queue, 2), consumer_of(queue, 2), number=30)
    assert sorted(got) == sorted(names)
    for letter in "abc":
        assert [name for name in got if name[0] == letter] == [name for name in names if name[0] == letter]


def test_holes_behind_one_that_waits_do_not_keep_the_rest_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*(f"-{number:02}" for number in range(8)), "a08", "a09"]
    names += [f"{'bcd'[number % 3]}{number:02}" for number in range(10, 40)]
    house, queue = backlog(monkeypatch, " ".join(names))
    quick = consumer_of(queue, 1)
    assert consumed(house, quick, number=8) == names[:8]
    slow = consumer_of(queue, 1)
    house.turn()
    assert given(slow) == "a08"
    quick.credit = 1
    queue.touch()
    assert consumed(house, quick, number=30) == names[10:]
    assert [body_of(message[0]) for _, _, message in queue.lane] == [b"a09"]
    slow.ack(b"a08")
    house.turn()
    assert [(each.body, each.count) for each in slow.given] == [(b"a09", 0)]


def test_one_that_waits_in_front_from_the_start_does_not_keep_the_rest_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a00", "a01", *(f"{'bcd'[number % 3]}{number:02}" for number in range(2, 30))]
    house, queue = backlog(monkeypatch, " ".join(names))
    slow, quick = consumer_of(queue, 1), consumer_of(queue, 1)
    assert consumed(house, quick, number=28) == names[2:]
    assert given(slow) == "a00"
