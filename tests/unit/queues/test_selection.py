"""Consumers with selectors: each gets what it wants, the rest stays for others (S1-16, S1-28)."""

from __future__ import annotations

import pytest

from leveret.queues import selection, selection_order, selection_view
from leveret.queues.classic import BURST
from leveret.wire.content import properties_of
from tests.support.selector_consumers import consumer_of, die, given, message
from tests.support.spies import QueueHarness, ready
from tests.support.spies import message as plain

RED, BLUE = "colour = 'red'", "colour = 'blue'"


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The content of each message whose properties were read."""
    seen: list[bytes] = []

    def spied(content: bytes) -> object:
        seen.append(content)
        return properties_of(content)

    monkeypatch.setattr(selection, "properties_of", spied)
    return seen


def coloured(text: str) -> list:  # type: ignore[type-arg]
    """``r1 b2 -3``: red, blue, without a colour."""
    colours = {"r": {"colour": "red"}, "b": {"colour": "blue"}, "-": {}}
    return [message(body.encode(), **colours[body[0]]) for body in text.split()]


# ---- who gets what


@pytest.mark.feature("S1-28")
def test_a_consumer_gets_only_what_it_selects_and_the_rest_stays(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue, selector=RED)
    harness.publish(queue, *coloured("b1 r2 -3 r4 b5"))
    harness.turn()
    assert given(consumer) == "r2 r4"
    assert ready(queue) == [b"b1", b"-3", b"b5"]
    assert (queue.ready, queue.unacked) == (3, 2)


@pytest.mark.feature("S1-16", "S1-28")
def test_what_one_does_not_want_goes_to_another(harness: QueueHarness) -> None:
    """In the order of the queue."""
    queue = harness.queue()
    red, blue = consumer_of(queue, selector=RED), consumer_of(queue, selector=BLUE)
    anything = consumer_of(queue, selector="colour IS NULL")
    harness.publish(queue, *coloured("b1 r2 -3 r4 b5"))
    harness.turn()
    assert (given(red), given(blue), given(anything)) == ("r2 r4", "b1 b5", "-3")


def test_what_waited_for_nobody_goes_to_who_comes_and_wants_it(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer_of(queue, selector=RED)
    harness.publish(queue, *coloured("b1 r2 -3"))
    harness.turn()
    blue = consumer_of(queue, selector=BLUE)
    harness.turn()
    assert given(blue) == "b1"
    everything = consumer_of(queue)
    harness.turn()
    assert given(everything) == "-3"


def test_equals_take_turns_where_they_want_the_same(harness: QueueHarness) -> None:
    queue = harness.queue()
    one, two = consumer_of(queue, selector=RED), consumer_of(queue, selector=RED)
    harness.publish(queue, *coloured("r1 r2 b3 r4 r5"))
    harness.turn()
    assert (given(one), given(two)) == ("r1 r4", "r2 r5")


def test_the_higher_priority_goes_first_where_it_wants_the_message_and_has_room(harness: QueueHarness) -> None:
    queue = harness.queue()
    low = consumer_of(queue)
    high = consumer_of(queue, 1, selector=RED, priority=5)
    harness.publish(queue, *coloured("b1 r2 r3"))
    harness.turn()
    assert (given(high), given(low)) == ("r2", "b1 r3")


def test_a_full_consumer_gets_its_own_in_order_when_it_has_room_again(harness: QueueHarness) -> None:
    queue = harness.queue()
    red, blue = consumer_of(queue, 1, selector=RED), consumer_of(queue, selector=BLUE)
    harness.publish(queue, *coloured("r1 r2 b3 r4"))
    harness.turn()
    assert (given(red), given(blue), ready(queue)) == ("r1", "b3", [b"r2", b"r4"])
    red.ack(b"r1")
    harness.turn()
    assert given(red) == "r2"
    red.ack(b"r2")
    harness.turn()
    assert given(red) == "r4"


def test_a_message_that_came_back_goes_first_and_is_a_redelivery(harness: QueueHarness) -> None:
    queue = harness.queue()
    red = consumer_of(queue, 1, selector=RED)
    harness.publish(queue, *coloured("b1 r2 r3"))
    harness.turn()
    red.requeue(b"r2")
    harness.turn()
    assert [(each.body, each.count) for each in red.given] == [(b"r2", 1)]
    assert queue.counters.redelivered == 1
    red.ack(b"r2")
    harness.turn()
    assert [(each.body, each.count) for each in red.given] == [(b"r3", 0)]


def test_what_a_dead_consumer_held_goes_to_others_who_want_it(harness: QueueHarness) -> None:
    queue = harness.queue()
    red = consumer_of(queue, selector=RED)
    harness.publish(queue, *coloured("r1 b2 r3"))
    harness.turn()
    die(red)
    blue = consumer_of(queue, selector=BLUE)
    harness.turn()
    assert (given(blue), ready(queue)) == ("b2", [b"r1", b"r3"])
    again = consumer_of(queue, selector=RED)
    harness.turn()
    assert [(each.body, each.count) for each in again.given] == [(b"r1", 1), (b"r3", 1)]


def test_one_that_came_back_and_is_taken_by_hand_can_come_back_again(harness: QueueHarness) -> None:
    queue = harness.queue()
    red = consumer_of(queue, 2, selector=RED)
    harness.publish(queue, *coloured("r1 r2"))
    harness.turn()
    red.credit = -1
    red.requeue(b"r2")
    consumer_of(queue, selector=BLUE)
    harness.turn()
    taken = queue.get(False)
    assert taken is not None
    red.credit = 1
    queue.touch()
    harness.turn()
    assert given(red) == "r1"
    queue.requeue(0, taken.sequence, [taken.message], taken.delivery_count)
    harness.turn()
    assert [(each.body, each.count) for each in red.given] == [(b"r1", 0), (b"r2", 2)]


def test_higher_priorities_of_messages_go_first_here_too(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=9)
    red = consumer_of(queue, 1, selector=RED)
    run = [message(b"low", colour="red"), message(b"other", priority=9), message(b"high", priority=7, colour="red")]
    harness.publish(queue, *run)
    harness.turn()
    assert given(red) == "high"
    red.ack(b"high")
    harness.turn()
    assert given(red) == "low"


def test_without_acks_everything_that_matches_is_settled_at_once(harness: QueueHarness) -> None:
    queue = harness.queue(durable=True)
    red = consumer_of(queue, selector=RED, no_ack=True)
    harness.publish(queue, *coloured("b1 r2 r3"))
    harness.turn()
    assert (given(red), queue.unacked, queue.counters.delivered_no_ack) == ("r2 r3", 0, 2)
    assert harness.log.settled == [(queue.id, 0, 2, 1), (queue.id, 0, 3, 1)]  # type: ignore[attr-defined]


def test_basic_get_knows_no_selectors(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer_of(queue, selector=RED)
    harness.publish(queue, *coloured("b1 r2 -3"))
    taken = [queue.get(False), queue.get(False), queue.get(False)]
    assert [each.sequence if each else None for each in taken] == [1, 3, None]


def test_a_message_whose_properties_cannot_be_read_has_none(harness: QueueHarness) -> None:
    queue = harness.queue()
    red, nothing = consumer_of(queue, selector=RED), consumer_of(queue, selector="colour IS NULL")
    content, address, traits = message(b"x", colour="red")
    harness.publish(queue, (content[:19] + b"\xff\xff" + content[21:], address, traits))
    harness.turn()
    assert (red.given, len(nothing.given)) == ([], 1)


def test_a_paused_queue_gives_nothing(harness: QueueHarness) -> None:
    queue = harness.queue()
    red = consumer_of(queue, selector=RED)
    queue.consumers.paused = True
    harness.publish(queue, *coloured("r1"))
    harness.turn()
    assert given(red) == ""
    queue.consumers.paused = False
    queue.touch()
    harness.turn()
    assert given(red) == "r1"


def test_what_dies_or_is_purged_or_taken_is_not_given(harness: QueueHarness) -> None:
    queue = harness.queue()
    red = consumer_of(queue, 1, selector=RED)
    consumer_of(queue, selector=BLUE)
    now = harness.clock.now()
    harness.publish(
        queue, message(b"r0", colour="red"), message(b"dies", deadline=now + 5, colour="red"), *coloured("r1 r2")
    )
    harness.turn()
    harness.advance(6)
    assert queue.counters.expired == 1
    assert queue.get(True) is not None
    red.ack(b"r0")
    harness.turn()
    assert given(red) == "r2"
    harness.publish(queue, *coloured("r3 r4"))
    harness.turn()
    queue.purge()
    red.ack(b"r2")
    harness.publish(queue, *coloured("r5"))
    harness.turn()
    assert given(red) == "r5"


# ---- what it costs


def test_each_message_is_looked_at_once_however_often_the_queue_is_drained(
    harness: QueueHarness, reads: list[bytes]
) -> None:
    queue = harness.queue()
    red = consumer_of(queue, 1, selector=RED)
    consumer_of(queue, selector=BLUE)
    harness.publish(queue, *coloured("-1 r2 r3 r4 -5"))
    harness.turn()
    for body in (b"r2", b"r3", b"r4"):
        red.ack(body)
        harness.turn()
    harness.publish(queue, *coloured("b6"))
    harness.turn()
    assert len(reads) == len(set(reads)) == 6


def test_nothing_is_looked_at_while_nobody_has_room(harness: QueueHarness, reads: list[bytes]) -> None:
    queue = harness.queue()
    red = consumer_of(queue, 1, selector=RED)
    harness.publish(queue, *coloured("r1 r2 r3"))
    harness.turn()
    assert len(reads) == 2  # the second found it full
    harness.publish(queue, *coloured("r4 r5"))
    harness.turn()
    assert len(reads) == 2
    red.ack(b"r1")
    harness.turn()
    assert (given(red), len(reads)) == ("r2", 3)


def test_a_selector_that_comes_back_finds_everything_looked_at(harness: QueueHarness, reads: list[bytes]) -> None:
    queue = harness.queue()
    for number in range(3):
        consumer = consumer_of(queue, selector=RED, one_shot=True)
        harness.publish(queue, *coloured(f"b{number} r{number}"))
        harness.turn()
        assert (given(consumer), consumer.cancelled) == (f"r{number}", 1)
    assert len(reads) == 6


def test_a_new_selector_looks_at_everything_again(harness: QueueHarness, reads: list[bytes]) -> None:
    queue = harness.queue()
    consumer_of(queue, selector=RED)
    harness.publish(queue, *coloured("b1 -2"))
    harness.turn()
    consumer_of(queue, selector=BLUE)
    harness.turn()
    assert len(reads) == 4


def test_selectors_that_nobody_has_are_forgotten_in_time(harness: QueueHarness) -> None:
    queue = harness.queue()
    for number in range(30):
        queue.remove_consumer(consumer_of(queue, selector=f"n = {number}"))
    assert queue.selection is not None
    assert len(queue.selection._sieve) <= selection_order.MOST_IDLE + 1


def test_looking_counts_as_work_so_that_other_queues_have_their_turn(harness: QueueHarness, reads: list[bytes]) -> None:
    queue = harness.queue()
    consumer_of(queue, selector=RED)
    harness.turn()
    harness.publish(queue, *[message(b"%d" % number) for number in range(BURST)], *coloured("r1"))
    queue.drain()
    assert (queue.dirty, len(reads)) == (True, BURST // 2)
    harness.turn()
    assert len(reads) == BURST + 1


def test_many_returns_are_looked_at_in_several_turns_before_anything_is_given(
    harness: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = harness.queue()
    everything = consumer_of(queue)
    harness.publish(queue, *[message(b"%d" % number, colour="red") for number in range(BURST)])
    harness.turn()
    die(everything)
    red = consumer_of(queue, selector=RED)
    queue.drain()
    assert (len(red.given), queue.dirty) == (0, True)
    harness.turn()
    assert [int(body) for body in red.bodies] == list(range(BURST))


def test_a_queue_without_selectors_is_plain_again(harness: QueueHarness) -> None:
    queue = harness.queue()
    red, everything = consumer_of(queue, selector=RED), consumer_of(queue)
    assert queue.selection is not None
    queue.remove_consumer(red)
    assert queue.selection is None
    harness.publish(queue, *coloured("b1 r2"))
    harness.turn()
    assert (given(everything), everything.takes) == ("b1 r2", 1)
    queue.remove_consumer(everything)
    pulling = consumer_of(queue, selector=RED, one_shot=True)
    harness.publish(queue, *coloured("b3 r4"))
    harness.turn()
    assert (given(pulling), queue.selection is None) == ("r4", False)
    last = consumer_of(queue)
    harness.turn()
    assert (given(last), queue.selection) == ("b3", None)


def test_a_queue_with_plain_consumers_never_had_a_selection(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer_of(queue)
    assert queue.selection is None


# ---- what stays in front for long


def test_one_that_nobody_wants_costs_no_memory_for_those_that_pass_it(harness: QueueHarness) -> None:
    queue = harness.queue()
    red = consumer_of(queue, selector=RED, no_ack=True)
    harness.publish(queue, *coloured("b1"))
    number = 4 * selection_view.MANY_HOLES
    for _ in range(number):
        harness.publish(queue, *coloured("r2"))
        harness.turn()
    assert len(red.given) == number
    assert len(queue.lane.ready) < 3 * selection_view.MANY_HOLES
    assert (ready(queue), queue.ready) == ([b"b1"], 1)
    blue = consumer_of(queue, selector=BLUE)
    harness.turn()
    assert [(each.body, each.sequence) for each in blue.given] == [(b"b1", 1)]
    assert queue.counters.redelivered == 0  # it was only set aside


def test_what_was_set_aside_dies_in_time(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_view, "MANY_HOLES", 4)
    queue = harness.queue(message_ttl=10_000)
    red = consumer_of(queue, selector=RED, no_ack=True)
    harness.publish(queue, *coloured("b1 r2 r2 r2 r2 r2 r2 r2 r2"))
    harness.turn()
    assert (len(red.given), len(queue.lane.returned)) == (8, 1)
    harness.advance(11)
    assert (queue.ready, queue.counters.expired) == (0, 1)


def test_ranks_of_the_dead_are_given_up(harness: QueueHarness) -> None:
    """Else messages that expire unwanted would leave something behind for ever."""
    queue = harness.queue(message_ttl=10_000)
    consumer_of(queue, selector=RED)
    for _ in range(5):
        harness.publish(queue, *[plain(b"x") for _ in range(selection_view.MANY_DEAD)])
        harness.turn()
        harness.advance(11)
    harness.publish(queue, *coloured("b1"))
    harness.turn()
    assert queue.selection is not None
    assert sum(map(len, queue.selection._lines.values())) <= selection_view.MANY_DEAD + 3
