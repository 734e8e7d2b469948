"""Tags over several lives of a channel, and what the audit lets through."""

from __future__ import annotations

from typing import Any, cast

import pytest

from leveret.client.messages import Delivery
from leveret.client.settlement import MOST_QUEUES, Audit, Settlement
from leveret.wire import methods as m
from leveret.wire.fields import Table
from leveret.wire.properties import Properties, encode_properties


class Wire:
    """A channel that only notes what is written."""

    def __init__(self, audit: Audit | None) -> None:
        self.written: list[m.Method] = []
        self.settling = Settlement(cast(Any, self), audit)

    def write(self, method: m.Method) -> None:
        self.written.append(method)

    def said(self) -> list[m.Method]:
        written, self.written = self.written, []
        return written

    def comes(
        self,
        tag: int,
        message_id: str | None,
        *,
        redelivered: bool = False,
        queue: str = "q",
        headers: Table | None = None,
    ) -> Delivery | None:
        """The delivery, if it is for the application."""
        head = encode_properties(Properties(message_id=message_id, headers=headers))
        delivery = Delivery(cast(Any, self), "c", tag, redelivered, "", queue, head, b"")
        return delivery if self.settling.is_new(delivery, queue, is_audited=True) else None

    def given(self, tag: int, message_id: str | None) -> int:
        delivery = self.comes(tag, message_id)
        assert delivery is not None
        return delivery.delivery_tag


def test_tags_go_on_over_lives_and_those_of_an_earlier_one_are_dropped() -> None:
    wire = Wire(None)
    assert [wire.given(1, None), wire.given(2, None)] == [1, 2]
    wire.settling.next_connection()
    assert wire.given(1, None) == 3
    wire.settling.ack(2, multiple=False)
    wire.settling.ack(2, multiple=True)
    wire.settling.refuse(1, multiple=False, requeue=True)
    assert wire.said() == []
    wire.settling.ack(3, multiple=False)
    assert wire.said() == [m.BasicAck(1, False)]


def test_what_is_in_hand_is_acked_under_its_new_tag() -> None:
    wire = Wire(Audit(10))
    first = wire.given(1, "a")
    wire.settling.next_connection()
    assert wire.comes(1, "a", redelivered=True) is None
    assert wire.said() == []
    wire.settling.ack(first, multiple=False)
    assert wire.said() == [m.BasicAck(1, False)]
    wire.settling.ack(first, multiple=False)
    assert wire.said() == []


def test_a_verdict_that_was_lost_is_given_again() -> None:
    wire = Wire(Audit(10))
    tags = [wire.given(number, name) for number, name in enumerate("abc", 1)]
    wire.settling.ack(tags[0], multiple=False)
    wire.settling.refuse(tags[1], multiple=False, requeue=False)
    wire.settling.refuse(tags[2], multiple=False, requeue=True)
    wire.said()
    wire.settling.next_connection()
    assert [wire.comes(number, name, redelivered=True) is None for number, name in enumerate("abc", 1)] == [
        True,
        True,
        False,
    ]
    assert wire.said() == [m.BasicAck(1, False), m.BasicNack(2, False, False)]


def test_a_dead_letter_that_comes_round_again_is_let_through() -> None:
    wire = Wire(Audit(10))
    wire.settling.refuse(wire.given(1, "a"), multiple=False, requeue=False)
    assert wire.comes(2, "a", redelivered=False) is not None


def test_a_message_that_was_sent_twice_is_acked_at_once() -> None:
    wire = Wire(Audit(10))
    first = wire.given(1, "a")
    assert wire.comes(2, "a") is None
    assert wire.said() == [m.BasicAck(2, False)]
    wire.settling.ack(first, multiple=False)
    assert wire.said() == [m.BasicAck(1, False)]
    assert wire.comes(3, "a") is None
    assert wire.said() == [m.BasicAck(3, False)]


@pytest.mark.parametrize(
    ("requeue", "said"), [(None, m.BasicAck), (True, m.BasicNack), (False, m.BasicNack)], ids=["ack", "nack", "reject"]
)
def test_what_the_broker_took_back_is_settled_as_the_application_settles_what_it_has(
    requeue: bool | None, said: type[m.Method]
) -> None:
    """x-consumer-timeout: the application is slow, not gone. Acked for it, the message would be lost if it fails."""
    wire = Wire(Audit(10))
    first = wire.given(1, "a")
    assert wire.comes(2, "a", redelivered=True) is None
    assert wire.said() == []
    if requeue is None:
        wire.settling.ack(first, multiple=False)
    else:
        wire.settling.refuse(first, multiple=False, requeue=requeue)
    told = cast(list[Any], wire.said())
    assert [(type(each), each.delivery_tag) for each in told] == [(said, 1), (said, 2)]
    assert [getattr(each, "requeue", None) for each in told] == [requeue, requeue]


def test_what_the_broker_took_back_twice_stands_in_by_its_last_delivery() -> None:
    wire = Wire(Audit(10))
    first = wire.given(1, "a")
    for tag in (2, 3):
        assert wire.comes(tag, "a", redelivered=True) is None
    assert wire.said() == [m.BasicAck(2, False)], "it is not open any more, or one that was sent twice"
    wire.settling.ack(first, multiple=False)
    assert wire.said() == [m.BasicAck(1, False), m.BasicAck(3, False)]
    wire.settling.ack(wire.given(4, "b"), multiple=True)
    assert wire.said() == [m.BasicAck(4, True)], "nothing is left that would have to be spared"


def test_what_the_broker_took_back_and_gave_to_another_channel_is_acked_there() -> None:
    audit = Audit(10)
    here, there = Wire(audit), Wire(audit)
    first = here.given(1, "a")
    assert there.comes(1, "a", redelivered=True) is None
    there.settling.ack(there.given(2, "b"), multiple=True)
    assert there.said() == [m.BasicAck(2, False)], "not what is in hand here"
    here.settling.ack(first, multiple=False)
    assert (here.said(), there.said()) == ([m.BasicAck(1, False)], [m.BasicAck(1, False)])


def test_each_reader_of_a_stream_sees_each_message() -> None:
    """It gives them the same message, and again to one who goes back."""
    wire = Wire(Audit(10))
    for tag in (1, 2):
        delivery = wire.comes(tag, "a", headers={"x-stream-offset": 7})
        assert delivery is not None
        assert wire.comes(tag + 10, "a", headers={"x-stream-offset": 7}) is not None
        wire.settling.ack(delivery.delivery_tag, multiple=False)
    assert wire.said() == [m.BasicAck(1, False), m.BasicAck(2, False)]


def test_the_same_id_in_another_queue_is_another_message() -> None:
    wire = Wire(Audit(10))
    wire.settling.ack(wire.given(1, "a"), multiple=False)
    assert wire.comes(2, "a", queue="other") is not None


def test_all_up_to_a_tag_are_settled_once() -> None:
    """What stands in for an earlier delivery is among them, and is not acked a second time."""
    wire = Wire(Audit(10))
    wire.given(1, "a")
    wire.settling.next_connection()
    wire.comes(1, "a", redelivered=True)
    last = wire.given(2, "b")
    wire.settling.ack(last, multiple=True)
    assert wire.said() == [m.BasicAck(2, True)]


def test_a_tag_of_zero_stands_for_all() -> None:
    wire = Wire(Audit(10))
    wire.given(1, "a")
    wire.given(2, "b")
    wire.settling.ack(0, multiple=True)
    assert wire.said() == [m.BasicAck(0, True)]
    assert wire.comes(3, "a", redelivered=True) is None


def test_what_is_delivered_to_another_channel_is_acked_there() -> None:
    audit = Audit(10)
    here, there = Wire(audit), Wire(audit)
    first = here.given(1, "a")
    for wire in (here, there):
        wire.settling.next_connection()
    assert there.comes(1, "a", redelivered=True) is None
    here.settling.ack(first, multiple=False)
    assert (here.said(), there.said()) == ([], [m.BasicAck(1, False)])


@pytest.mark.feature("S3-08")
def test_what_another_channel_settles_together_leaves_out_what_is_in_hand_here() -> None:
    """Or it would be lost if it is then given back here."""
    audit = Audit(10)
    here, there = Wire(audit), Wire(audit)
    first = here.given(1, "a")
    for wire in (here, there):
        wire.settling.next_connection()
    there.given(1, None)
    assert there.comes(2, "a", redelivered=True) is None
    there.given(3, "b")
    there.settling.ack(there.given(4, None), multiple=False)
    there.settling.ack(there.given(5, "c"), multiple=True)
    assert there.said() == [m.BasicAck(4, False), *(m.BasicAck(tag, False) for tag in (1, 3, 5))]
    there.given(6, "d")
    there.settling.refuse(0, multiple=True, requeue=True)
    assert there.said() == [m.BasicNack(6, False, True)]
    here.settling.refuse(first, multiple=False, requeue=True)
    assert (here.said(), there.said()) == ([], [m.BasicNack(2, False, True)])
    there.settling.ack(there.given(7, "e"), multiple=True)
    assert there.said() == [m.BasicAck(7, True)]


@pytest.mark.feature("S3-08")
def test_what_is_to_be_seen_again_has_no_tag_any_more() -> None:
    """A channel recovers, with a second delivery among what it was given."""
    audit = Audit(10)
    here, there = Wire(audit), Wire(audit)
    first = here.given(1, "a")
    here.settling.next_connection()
    assert there.comes(1, "a", redelivered=True) is None
    there.given(2, "b")
    there.settling.end()
    there.settling.ack(there.given(3, "b"), multiple=True)
    assert there.said() == [m.BasicAck(3, True)]
    here.settling.ack(first, multiple=False)
    assert (here.said(), there.said()) == ([], [])
    assert there.comes(4, "a", redelivered=True) is None
    assert there.said() == [m.BasicAck(4, False)]


def test_what_the_application_has_not_seen_is_let_through_again() -> None:
    wire = Wire(Audit(10))
    delivery = wire.comes(1, "a")
    assert delivery is not None
    wire.settling.let_go([delivery])
    wire.settling.next_connection()
    assert wire.comes(1, "a", redelivered=True) is not None


def test_the_audit_forgets_the_oldest() -> None:
    wire = Wire(Audit(2))
    for number, name in enumerate("abc", 1):
        wire.settling.ack(wire.given(number, name), multiple=False)
    assert [wire.comes(number, name) is None for number, name in enumerate("bca", 4)] == [True, True, False]


def test_queues_that_come_and_go_do_not_fill_the_memory() -> None:
    audit = Audit(10)
    wire = Wire(audit)
    for number in range(MOST_QUEUES + 50):
        delivery = wire.comes(number + 1, "a", queue=f"temporary {number}")
        assert delivery is not None
        wire.settling.ack(delivery.delivery_tag, multiple=False)
    assert len(audit._settled) == MOST_QUEUES
    assert audit.outcome("temporary 0", "a", redelivered=True) is None
    assert audit.outcome(f"temporary {MOST_QUEUES}", "a", redelivered=True) == "ack"
