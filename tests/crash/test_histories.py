"""The checker itself: every kind of broken promise is found, and nothing else is."""

from __future__ import annotations

import pytest

from tests.support.histories import History, Kind, digest

BODY = digest(b"body")


def history(*queues: str, restless: frozenset[str] = frozenset(), number: int = 3, priority: int = 0) -> History:
    """One run, in which publisher p sent m0, m1, ... to all of the queues, and all were confirmed."""
    made = History(restless)
    made.begin_life()
    for counter in range(number):
        made.sent(f"m{counter}", "p", counter, queues or ("q",), BODY, priority=priority)
        made.confirmed(f"m{counter}", at=float(counter))
    return made


def take(
    made: History,
    ident: str,
    *,
    queue: str = "q",
    consumer: str = "c",
    body: str = BODY,
    redelivered: bool = False,
    ack: bool = True,
) -> None:
    made.received(queue, consumer, ident, body, redelivered)
    if ack:
        made.acked(queue, ident)


def take_all(made: History, *, queue: str = "q", redelivered: bool = False) -> None:
    for ident in made.messages:
        take(made, ident, queue=queue, redelivered=redelivered)


def only(made: History) -> Kind:
    made.finish()
    (kind,) = made.found
    assert made.found[kind] == 1, made.violations
    return kind


def test_a_good_history_is_good() -> None:
    made = history()
    take_all(made)
    made.finish()
    made.assert_kept()
    assert (made.confirmed_in[1], made.received_in[1], made.repeated) == (3, 3, 0)


def test_what_was_confirmed_and_never_came_is_lost() -> None:
    made = history()
    take(made, "m0")
    take(made, "m2")
    assert only(made) is Kind.LOST
    with pytest.raises(AssertionError, match=r"here\n.*\n1 x confirmed, and gone.*\n.*m1.*never received"):
        made.assert_kept("here")


@pytest.mark.feature("S0-17")
def test_what_came_unacked_and_never_again_is_lost() -> None:
    """Receiving is not enough. An unacked message belongs to its queue."""
    made = history()
    take(made, "m0", ack=False)
    made.begin_life()
    take(made, "m1", redelivered=True)
    take(made, "m2", redelivered=True)
    assert only(made) is Kind.LOST


def test_each_queue_of_a_message_is_owed_its_copy() -> None:
    made = history("a", "b", number=1)
    take(made, "m0", queue="a")
    assert only(made) is Kind.LOST
    assert "b, sent" in made.violations[0].detail


def test_nothing_is_owed_that_was_not_confirmed_or_is_transient() -> None:
    made = history(number=0)
    made.sent("unanswered", "p", 0, ["q"], BODY)
    made.sent("refused", "p", 1, ["q"], BODY)
    made.refused("refused")
    made.sent("transient", "p", 2, ["q"], BODY, persistent=False)
    made.confirmed("transient")
    made.finish()
    made.assert_kept()


def test_what_was_not_confirmed_may_be_there_all_the_same() -> None:
    made = history(number=0)
    made.sent("unanswered", "p", 0, ["q"], BODY)
    made.begin_life()
    take(made, "unanswered", redelivered=True)
    made.finish()
    made.assert_kept()


def test_an_altered_body_is_found() -> None:
    made = history(number=1)
    take(made, "m0", body=digest(b"bodY"))
    assert only(made) is Kind.ALTERED


def test_what_was_never_sent_is_found() -> None:
    made = history(number=0)
    take(made, "m7")
    assert only(made) is Kind.INVENTED


def test_a_message_in_the_wrong_queue_is_found() -> None:
    made = history("q", number=1)
    take(made, "m0")
    take(made, "m0", queue="other")
    assert only(made) is Kind.INVENTED


def test_coming_again_needs_the_mark() -> None:
    made = history(number=1)
    take(made, "m0")
    made.begin_life()
    take(made, "m0", redelivered=True)
    assert not made.found, "an ack is lazy: a crash may bring the message back, marked"
    made.begin_life()
    take(made, "m0", redelivered=False)
    assert only(made) is Kind.UNMARKED


def test_a_first_delivery_may_be_marked() -> None:
    """It may have been on its way to a client that never read it."""
    made = history()
    made.begin_life()
    take_all(made, redelivered=True)
    made.finish()
    made.assert_kept()


def test_a_duplicate_in_one_run_is_found() -> None:
    made = history(number=1)
    take(made, "m0", consumer="c")
    take(made, "m0", consumer="d", redelivered=True)
    assert only(made) is Kind.REPEATED


def test_a_second_delivery_in_one_run_is_allowed_where_messages_are_requeued() -> None:
    made = history(number=1, restless=frozenset({"q"}))
    take(made, "m0", consumer="c", ack=False)
    take(made, "m0", consumer="d", redelivered=True)
    made.finish()
    made.assert_kept()


def test_an_inversion_is_found() -> None:
    made = history()
    take(made, "m0")
    take(made, "m2")
    take(made, "m1")
    assert only(made) is Kind.REORDERED


def test_an_inversion_among_recovered_messages_is_found() -> None:
    made = history()
    made.begin_life()
    for ident in ("m1", "m0", "m2"):
        take(made, ident, redelivered=True)
    assert only(made) is Kind.REORDERED


def test_an_inversion_is_found_where_messages_are_given_back() -> None:
    made = history(restless=frozenset({"q"}))
    take(made, "m1")
    take(made, "m2", redelivered=True)
    take(made, "m0")
    assert only(made) is Kind.REORDERED


def test_order_is_per_publisher_consumer_priority_and_run() -> None:
    made = history(number=2)
    made.sent("n", "other publisher", 0, ["q"], BODY)
    made.sent("high", "p", 2, ["q"], BODY, priority=3)
    for ident in ("high", "m0", "n"):
        take(made, ident, consumer="c")
    take(made, "m1", consumer="d", ack=False)
    made.begin_life()
    for ident in ("m0", "m1"):
        take(made, ident, consumer="d", redelivered=True)
    made.finish()
    made.assert_kept()


def test_what_came_back_to_its_place_is_no_inversion_where_messages_are_given_back() -> None:
    made = history(restless=frozenset({"q"}))
    take(made, "m0", ack=False)
    take(made, "m1")
    take(made, "m0", redelivered=True)
    take(made, "m2")
    made.finish()
    made.assert_kept()


def test_a_committed_ack_holds_for_ever() -> None:
    made = history(number=1)
    take(made, "m0")
    made.settled("q", "m0")
    made.begin_life()
    take(made, "m0", redelivered=True)
    assert only(made) is Kind.RISEN


def test_an_ack_that_was_rolled_back_is_none() -> None:
    made = history(number=1)
    take(made, "m0")
    made.unacked("q", "m0")
    assert only(made) is Kind.LOST


def test_what_was_purged_stays_away() -> None:
    made = history("q", "r", number=1)
    made.emptied("q", made.waive("q"))
    made.begin_life()
    take(made, "m0", queue="q", redelivered=True)
    take(made, "m0", queue="r", redelivered=True)
    assert only(made) is Kind.RISEN


def test_a_purge_without_an_answer_leaves_both_open() -> None:
    made = history(number=2)
    made.waive("q")
    made.begin_life()
    take(made, "m1", redelivered=True)
    made.finish()
    made.assert_kept()


def test_what_comes_into_a_queue_after_its_purge_is_owed() -> None:
    made = history(number=1)
    made.emptied("q", made.waive("q"))
    made.sent("after", "p", 1, ["q"], BODY)
    made.confirmed("after")
    assert only(made) is Kind.LOST


def test_a_declared_thing_that_is_missing_is_found() -> None:
    made = history(number=0)
    made.unsure("queue", "d")
    made.declared("queue", "d")
    made.seen("queue", "d", True)
    assert not made.found
    made.seen("queue", "d", False)
    assert only(made) is Kind.MISSING


def test_a_deleted_thing_that_is_there_is_found() -> None:
    made = history(number=0)
    made.declared("queue", "d")
    made.unsure("queue", "d")
    made.deleted("queue", "d")
    made.seen("queue", "d", False)
    assert not made.found
    made.seen("queue", "d", True)
    assert only(made) is Kind.UNDEAD


@pytest.mark.parametrize("first", [True, False])
def test_an_unanswered_declare_may_go_either_way_but_only_once(first: bool) -> None:
    made = history(number=0)
    made.unsure("queue", "d")
    made.seen("queue", "d", first)
    assert not made.found
    made.seen("queue", "d", not first)
    assert only(made) in (Kind.MISSING, Kind.UNDEAD)


def test_many_violations_are_counted_but_not_all_listed() -> None:
    made = history(number=1000)
    made.finish()
    assert made.found[Kind.LOST] == 1000
    assert len(made.violations) == 40


def test_a_confused_load_is_an_error_of_the_test() -> None:
    made = history(number=1)
    with pytest.raises(AssertionError, match="twice"):
        made.sent("m0", "p", 1, ["q"], BODY)
    with pytest.raises(AssertionError, match="twice"):
        made.confirmed("m0")
    with pytest.raises(AssertionError, match="after"):
        made.refused("m0")
