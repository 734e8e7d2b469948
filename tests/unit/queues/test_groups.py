"""Message groups: one consumer at a time, in order, spread anew when consumers come and go."""

from __future__ import annotations

from decimal import Decimal

import pytest

from leveret.queues import groups
from leveret.queues.classic import ClassicQueue
from leveret.queues.groups import group_key, place_of, rank_of
from tests.support.selector_consumers import consumer_of, die, given, message, of_groups
from tests.support.spies import QueueHarness, SpyConsumer, ready


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


@pytest.fixture
def queue(harness: QueueHarness) -> ClassicQueue:
    return harness.queue(message_groups=True)


def known(queue: ClassicQueue) -> int:
    assert queue.selection is not None
    return len(queue.selection.groups)


def share(queue: ClassicQueue, consumer: SpyConsumer) -> int:
    assert queue.selection is not None
    return queue.selection.groups.share(consumer)


# ---- the words


@pytest.mark.parametrize("value", ["a", "", b"\xff", 7, -1, 1.5, Decimal("2.5")])
def test_a_text_or_a_number_names_a_group(value: object) -> None:
    assert group_key({"x-group-id": value}) == value


@pytest.mark.parametrize("headers", [{}, *({"x-group-id": value} for value in (None, True, float("nan"), [1], {}))])
def test_other_values_name_none(headers: dict[str, object]) -> None:
    assert group_key(headers) is None


def test_ranks_sort_as_messages_go_out() -> None:
    places = [(9, 1), (9, 70_000), (0, 1), (0, 2)]
    ranks = [rank_of(*place) for place in places]
    assert ranks == sorted(ranks)
    assert [place_of(rank) for rank in ranks] == places


# ---- one at a time


def test_a_group_stays_with_the_consumer_that_holds_messages_of_it(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue), consumer_of(queue)
    harness.publish(queue, *of_groups("a1 b1 a2 b2 b3 a3"))
    harness.turn()
    assert (given(one), given(two)) == ("a1 a2 a3", "b1 b2 b3")


def test_while_its_holder_is_full_nobody_else_gets_more_of_the_group(
    harness: QueueHarness, queue: ClassicQueue
) -> None:
    one, two = consumer_of(queue, 1), consumer_of(queue)
    harness.publish(queue, *of_groups("a1 a2 b1"))
    harness.turn()
    assert (given(one), given(two), ready(queue)) == ("a1", "b1", [b"a2"])
    queue.touch()
    harness.turn()
    assert given(two) == "b1"
    one.ack(b"a1")
    harness.turn()
    assert given(one) == "a2"


def test_a_group_of_which_something_is_not_settled_does_not_move(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue, 2), consumer_of(queue)
    harness.publish(queue, *of_groups("a1 a2"))
    harness.turn()
    one.credit = -1
    one.ack(b"a1")
    harness.publish(queue, *of_groups("a3"))
    harness.turn()
    assert (given(one), given(two)) == ("a2", "")


def test_a_group_of_which_everything_is_settled_may_move(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue, 1), consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 a2"))
    harness.turn()
    harness.publish(queue, *of_groups("b1"))
    harness.turn()
    assert (given(one), given(two)) == ("a1", "b1")
    two.ack(b"b1")
    one.credit -= 1  # it does other things
    one.ack(b"a1")
    harness.turn()
    assert given(two) == "a2"


def test_messages_without_a_group_go_to_anybody(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue), consumer_of(queue)
    harness.publish(queue, *of_groups("-1 -2 -3 -4"), message(b"5", group=True))
    harness.turn()
    assert (given(one), given(two)) == ("-1 -3 5", "-2 -4")


def test_numbers_and_texts_are_different_groups(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue), consumer_of(queue)
    harness.publish(queue, message(b"number", group=1), message(b"text", group="1"), message(b"same", group=1))
    harness.turn()
    assert (given(one), given(two)) == ("number same", "text")


def test_without_the_argument_the_header_means_nothing(harness: QueueHarness) -> None:
    queue = harness.queue()
    one, two = consumer_of(queue), consumer_of(queue)
    harness.publish(queue, *of_groups("a1 a2"))
    harness.turn()
    assert (given(one), given(two), queue.selection) == ("a1", "a2", None)


# ---- order


def test_a_message_that_comes_back_goes_before_later_ones_of_its_group(
    harness: QueueHarness, queue: ClassicQueue
) -> None:
    one = consumer_of(queue, 1)
    consumer_of(queue, 0)
    harness.publish(queue, *of_groups("a1 a2 a3"))
    harness.turn()
    one.requeue(b"a1")
    harness.turn()
    assert [(each.body, each.count) for each in one.given] == [(b"a1", 1)]


def test_what_a_dead_consumer_held_comes_first_and_in_order(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue, 4), consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 b1 a2 a3 a4 a5"))
    harness.turn()
    assert (given(one), given(two)) == ("a1 a2 a3 a4", "b1")
    die(one)
    two.ack(b"b1")
    two.credit = 10
    harness.turn()
    assert given(two) == "a1 a2 a3 a4 a5"


def test_a_cancelled_consumer_keeps_its_groups_until_it_has_settled(harness: QueueHarness, queue: ClassicQueue) -> None:
    """It may still be at work on what it holds."""
    one = consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 a2"))
    harness.turn()
    two = consumer_of(queue)
    queue.remove_consumer(one)
    harness.publish(queue, *of_groups("b1"))
    harness.turn()
    assert given(two) == "b1"
    one.ack(b"a1")
    harness.turn()
    assert given(two) == "b1 a2"


def test_a_message_that_waits_for_another_try_holds_up_its_group_alone(harness: QueueHarness) -> None:
    queue = harness.queue(message_groups=True, retry_delays=[5_000])
    one = consumer_of(queue, 1)
    two = consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 a2 b1"))
    harness.turn()
    assert (given(one), given(two)) == ("a1", "b1")
    one.requeue(b"a1")
    two.ack(b"b1")
    harness.publish(queue, *of_groups("a3 c1"))
    harness.turn()
    assert given(one) + given(two) == "c1"
    assert ready(queue) == [b"a2", b"a3"]
    harness.advance(6)
    assert sorted([given(one), given(two)]) == ["a1", "c1"]
    (one if one.bodies == [b"a1"] else two).ack(b"a1")
    harness.turn()
    assert sorted([given(one), given(two)]) == ["a2", "c1"]


def test_a_group_goes_on_when_the_one_that_waited_dies(harness: QueueHarness) -> None:
    queue = harness.queue(message_groups=True, retry_delays=[60_000])
    one = consumer_of(queue, 1)
    now = harness.clock.now()
    harness.publish(queue, message(b"a1", deadline=now + 5, group="a"), *of_groups("a2"))
    harness.turn()
    one.requeue(b"a1")
    harness.turn()
    assert given(one) == ""
    harness.advance(6)
    assert (queue.counters.expired, given(one)) == (1, "a2")
    one.ack(b"a2")
    harness.turn()
    assert known(queue) == 0


def test_one_that_dies_before_it_goes_out_holds_nobody_up(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, _ = consumer_of(queue, 1), consumer_of(queue)
    now = harness.clock.now()
    harness.publish(queue, *of_groups("a1"), message(b"a2", deadline=now + 5, group="a"), *of_groups("a3"))
    harness.turn()
    harness.advance(6)
    one.ack(b"a1")
    harness.turn()
    assert given(one) + given(_) == "a3"


def test_a_message_with_a_higher_priority_overtakes_its_group(harness: QueueHarness) -> None:
    queue = harness.queue(message_groups=True, max_priority=5)
    one = consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 a2"))
    harness.turn()
    harness.publish(queue, message(b"urgent", priority=3, group="a"))
    harness.turn()
    one.ack(b"a1")
    harness.turn()
    assert given(one) == "urgent"


def test_one_taken_by_hand_is_of_no_group_while_it_is_out(harness: QueueHarness, queue: ClassicQueue) -> None:
    harness.publish(queue, *of_groups("a1 a2"))
    taken = queue.get(False)
    assert taken is not None
    one = consumer_of(queue, 1)
    harness.turn()
    assert given(one) == "a2"
    queue.requeue(0, taken.sequence, [taken.message], taken.delivery_count)
    one.ack(b"a2")
    harness.turn()
    assert [(each.body, each.count) for each in one.given] == [(b"a1", 1)]


# ---- who gets a free group


def test_groups_go_to_whom_has_the_fewest(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumers = [consumer_of(queue) for _ in range(3)]
    harness.publish(queue, *of_groups("a1 b1 a2 a3 c1 d1 e1 f1 g1"))
    harness.turn()
    assert sorted(share(queue, each) for each in consumers) == [2, 2, 3]


def test_a_consumer_that_comes_gets_its_share_once_groups_are_free(harness: QueueHarness, queue: ClassicQueue) -> None:
    """Counts differ by at most one after everything was settled once."""
    one = consumer_of(queue)
    names = "abcdefgh"
    harness.publish(queue, *of_groups(" ".join(f"{name}1" for name in names)))
    harness.turn()
    two, three = consumer_of(queue), consumer_of(queue)
    harness.publish(queue, *of_groups(" ".join(f"{name}2" for name in names)))
    harness.turn()
    assert (share(queue, one), given(two), given(three)) == (8, "", "")
    for each in list(one.bodies):
        one.ack(each)
    harness.publish(queue, *of_groups(" ".join(f"{name}3" for name in names)))
    harness.turn()
    assert sorted(share(queue, each) for each in (one, two, three)) == [2, 3, 3]


def test_a_higher_priority_gets_groups_first_and_takes_none_away(harness: QueueHarness, queue: ClassicQueue) -> None:
    low = consumer_of(queue)
    harness.publish(queue, *of_groups("a1"))
    harness.turn()
    high = consumer_of(queue, priority=1)
    harness.publish(queue, *of_groups("a2 b1 c1"))
    harness.turn()
    assert (given(low), given(high)) == ("a1 a2", "b1 c1")


def test_who_is_full_gets_no_group(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, two = consumer_of(queue, 1), consumer_of(queue, 3)
    harness.publish(queue, *of_groups("a1 b1 c1 d1"))
    harness.turn()
    assert (given(one), given(two)) == ("a1", "b1 c1 d1")


# ---- without acks


def test_without_acks_a_group_stays_with_its_consumer_until_another_comes(
    harness: QueueHarness, queue: ClassicQueue
) -> None:
    one, two = consumer_of(queue, no_ack=True), consumer_of(queue, no_ack=True)
    for number in (1, 2, 3):
        harness.publish(queue, *of_groups(f"a{number} b{number}"))
        harness.turn()
    assert (given(one), given(two)) == ("a1 a2 a3", "b1 b2 b3")
    queue.remove_consumer(one)
    harness.publish(queue, *of_groups("a4"))
    harness.turn()
    assert given(two).endswith("a4")
    three = consumer_of(queue, no_ack=True)
    harness.publish(queue, *of_groups("c1 a5 b4"))
    harness.turn()
    assert abs(share(queue, two) - share(queue, three)) == 1


def test_groups_kept_without_acks_are_bounded(
    harness: QueueHarness, queue: ClassicQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_KEPT", 3)
    one, two = consumer_of(queue, no_ack=True), consumer_of(queue, no_ack=True)
    harness.publish(queue, *of_groups("a1 b1 c1 d1 e1"))
    harness.turn()
    assert known(queue) == 3
    assert share(queue, one) + share(queue, two) == 3


# ---- memory


def test_a_group_that_waits_for_nothing_is_forgotten(harness: QueueHarness, queue: ClassicQueue) -> None:
    one = consumer_of(queue, 2)
    harness.publish(queue, *of_groups("a1 a2 b1 c1"))
    harness.turn()
    for body in (b"a1", b"a2"):
        one.ack(body)
    harness.turn()
    assert known(queue) == 2
    one.drop(b"b1")
    one.ack(b"c1")
    harness.turn()
    assert (known(queue), share(queue, one)) == (0, 0)
    assert queue.selection is not None
    assert not queue.selection._lines
    assert not queue.selection._standing


def test_a_poison_message_leaves_nothing_behind_at_each_try(harness: QueueHarness, queue: ClassicQueue) -> None:
    one = consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 a2 b1"))
    harness.turn()
    assert queue.selection is not None
    for _ in range(50):
        one.requeue(b"a1")
        harness.turn()
    assert given(one) == "a1"
    assert sum(map(len, queue.selection._lines.values())) <= 3


def test_purged_groups_are_forgotten(harness: QueueHarness, queue: ClassicQueue) -> None:
    one, _ = consumer_of(queue, 1), consumer_of(queue, 1)
    harness.publish(queue, *of_groups("a1 b1 c1 c2 d1 a2"))
    harness.turn()
    queue.purge()
    one.ack(b"a1")
    harness.turn()
    assert known(queue) == 1
