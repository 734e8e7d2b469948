"""The checker of histories finds each kind of violation, and nothing in a correct history."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operation_history import Delivery, Kind, OperationHistory, Outcome


class Script:
    """Writes a history. Each call is one second later than the one before."""

    def __init__(self, *shared: str) -> None:
        self.history = OperationHistory(frozenset(shared))
        self.now = 0.0
        self.places: dict[str, int] = {}

    def tick(self) -> float:
        self.now += 1
        return self.now

    def send(self, ident: str, channel: str = "p") -> None:
        self.places[channel] = self.places.get(channel, 0) + 1
        self.history.sent(ident, "q", channel, self.places[channel], self.tick())

    def confirm(self, ident: str) -> None:
        self.history.answered(ident, Outcome.CONFIRMED, self.tick())

    def publish(self, *idents: str, channel: str = "p") -> None:
        for ident in idents:
            self.send(ident, channel)
            self.confirm(ident)

    def deliver(self, ident: str, consumer: str = "c", *, redelivered: bool = False, ack: bool = True) -> None:
        self.history.delivered(Delivery(ident, "q", consumer, redelivered, self.tick()))
        if ack:
            self.history.ack_sent(ident)

    def kinds(self) -> list[Kind]:
        self.history.drained("q")
        return [each.kind for each in self.history.check().violations]


def test_a_correct_history_has_no_violations() -> None:
    script = Script()
    script.publish("a", "b", "c")
    script.send("unknown")
    script.send("refused")
    script.history.answered("refused", Outcome.NACKED, script.tick())
    script.deliver("a")
    script.deliver("b", ack=False)
    script.deliver("b", "second", redelivered=True)
    script.deliver("c", "second", redelivered=True)
    script.deliver("c", "third", redelivered=True)  # its ack was lost
    assert script.kinds() == []


def test_confirmed_messages_that_are_never_delivered_are_lost() -> None:
    script = Script()
    script.publish("a", "b")
    script.send("unknown")
    script.deliver("a")
    assert script.kinds() == [Kind.LOST]


def test_messages_that_were_delivered_and_not_acked_must_come_back() -> None:
    script = Script()
    script.publish("a")
    script.deliver("a", ack=False)
    assert script.kinds() == [Kind.LOST]


def test_messages_that_were_never_sent_are_invented() -> None:
    script = Script()
    script.deliver("a")
    assert script.kinds() == [Kind.INVENTED]


def test_messages_from_another_queue_are_invented() -> None:
    script = Script()
    script.publish("a")
    script.deliver("a")
    script.history.delivered(Delivery("a", "other", "c", False, 9.0))
    assert script.kinds() == [Kind.INVENTED]


def test_other_bodies_are_found() -> None:
    script = Script()
    script.publish("a")
    script.deliver("a", ack=False)
    script.history.delivered(Delivery("a", "q", "d", True, 9.0, is_intact=False))
    script.history.ack_sent("a")
    assert script.kinds() == [Kind.ALTERED]


def test_second_deliveries_need_the_redelivered_flag() -> None:
    script = Script()
    script.publish("a")
    script.deliver("a")
    script.deliver("a", "second")
    assert script.kinds() == [Kind.UNMARKED]


@pytest.mark.parametrize(("flags", "kinds"), [((True, False), []), ((False, False), [Kind.UNMARKED])])
def test_of_several_consumers_only_one_gets_a_message_without_the_flag(
    flags: tuple[bool, bool], kinds: list[Kind]
) -> None:
    """One may read it late."""
    script = Script("q")
    script.publish("a")
    for flag in flags:
        script.deliver("a", f"with {flag} at {script.now}", redelivered=flag)
    assert script.kinds() == kinds


def test_a_late_delivery_without_the_flag_is_found_with_one_consumer() -> None:
    script = Script()
    script.publish("a")
    script.deliver("a", "first", redelivered=True)
    script.deliver("a", "second")
    assert script.kinds() == [Kind.UNMARKED]


def test_a_consumer_gets_a_message_once() -> None:
    script = Script()
    script.publish("a")
    script.deliver("a")
    script.deliver("a", redelivered=True)
    assert script.kinds() == [Kind.REPEATED]


def test_messages_of_one_channel_keep_their_order_even_if_not_confirmed() -> None:
    script = Script()
    script.send("a")
    script.send("b")
    script.deliver("b")
    script.deliver("a")
    assert script.kinds() == [Kind.REORDERED]


def test_a_message_confirmed_before_another_was_sent_is_delivered_first() -> None:
    script = Script()
    script.publish("a")
    script.publish("b", channel="other")
    script.deliver("b")
    script.deliver("a")
    assert script.kinds() == [Kind.REORDERED]


@pytest.mark.parametrize(
    ("holds", "redelivered", "kinds"),
    [(True, True, []), (True, False, [Kind.REORDERED]), (False, True, [Kind.REORDERED])],
)
def test_messages_that_a_connection_has_held_may_come_late_and_marked(
    holds: bool, redelivered: bool, kinds: list[Kind]
) -> None:
    script = Script()
    script.history.holds = holds
    script.publish("a")
    script.publish("b")
    script.deliver("b")
    script.deliver("a", redelivered=redelivered)
    assert script.kinds() == kinds


def test_messages_of_several_channels_that_overlap_have_no_order() -> None:
    script = Script()
    script.send("a")
    script.send("b", "other")
    script.confirm("a")
    script.confirm("b")
    script.deliver("b")
    script.deliver("a")
    assert script.kinds() == []


def test_order_counts_for_first_deliveries_only() -> None:
    script = Script()
    script.publish("a", "b")
    script.deliver("a", ack=False)
    script.deliver("b")
    script.deliver("a", "second", redelivered=True)
    assert script.kinds() == []


def test_order_is_not_checked_with_several_consumers() -> None:
    script = Script("q")
    script.publish("a", "b")
    script.deliver("b", "one")
    script.deliver("a", "two")
    assert script.kinds() == []


def test_declared_definitions_must_be_found() -> None:
    script = Script()
    script.history.declared("queue x", 1.0)
    script.history.declared("queue y", 2.0)
    script.history.found(["queue y"])
    report = script.history.check()
    assert [(each.kind, each.subject) for each in report.violations] == [(Kind.MISSING, "queue x")]


def test_losses_cannot_be_judged_before_the_queue_was_drained() -> None:
    script = Script()
    script.publish("a")
    with pytest.raises(AssertionError, match="not drained"):
        script.history.check()


def test_a_report_counts_and_names_violations() -> None:
    script = Script()
    script.publish("a")
    script.history.drained("q")
    told = str(script.history.check())
    assert "1 published (1 confirmed" in told
    assert "1 x confirmed, never acked, and not in the final drain" in told
    assert "a: confirmed, never acked" in told


def random_history(seed: int) -> tuple[Script, list[str]]:
    """A correct run of a queue, in which connections are lost; its messages in the order of the queue."""
    random, script, queue = Random(seed), Script(), list[str]()
    consumer, delivered = 0, set[str]()
    for number in range(random.randint(20, 60)):
        channel, ident = f"p{random.randrange(3)}", str(number)
        script.send(ident, channel)
        if random.random() < 0.9:
            queue.append(ident)
            script.confirm(ident)
        elif random.random() < 0.5:
            queue.append(ident)
    order = list(queue)
    while queue:
        consumer += 1
        for ident in queue[: random.randint(1, 9)]:
            script.deliver(ident, f"c{consumer}", redelivered=ident in delivered, ack=False)
            delivered.add(ident)
            if random.random() < 0.7 and queue[0] == ident:
                script.history.ack_sent(queue.pop(0))
    return script, order


@given(st.integers(0, 1 << 32))
def test_correct_runs_pass(seed: int) -> None:
    script, _ = random_history(seed)
    assert script.kinds() == []


@given(st.integers(0, 1 << 32))
def test_a_message_removed_from_a_correct_run_is_found(seed: int) -> None:
    script, order = random_history(seed)
    history = script.history
    confirmed = [ident for ident in order if history.publishes[ident].outcome is Outcome.CONFIRMED]
    victim = Random(seed).choice(confirmed)
    history.deliveries = [each for each in history.deliveries if each.ident != victim]
    history.publishes[victim].is_acked = False
    assert Kind.LOST in script.kinds()


@given(st.integers(0, 1 << 32))
def test_two_first_deliveries_swapped_in_a_correct_run_are_found(seed: int) -> None:
    script, order = random_history(seed)
    history = script.history
    confirmed = [ident for ident in order if history.publishes[ident].outcome is Outcome.CONFIRMED]
    place = Random(seed).randrange(len(confirmed) - 1)
    names = dict(zip(confirmed[place : place + 2], reversed(confirmed[place : place + 2]), strict=True))
    history.deliveries = [each._replace(ident=names.get(each.ident, each.ident)) for each in history.deliveries]
    assert Kind.REORDERED in script.kinds()
