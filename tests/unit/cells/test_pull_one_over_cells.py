"""x-pull-one on a queue of another cell: as on one of the own cell, one message and then the cancel."""

from __future__ import annotations

import pytest

from leveret.wire.methods import BasicCancel, BasicConsume, BasicConsumeOk
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client, Content
from tests.unit.queues.test_pull_one import PULL, spoken

ACKS = pytest.mark.parametrize("no_ack", [False, True], ids=["acks", "no acks"])


@ACKS
def test_one_message_then_the_cancel(pair: CellPair, client: Client, no_ack: bool) -> None:
    client.publish("q", b"1", b"2", b"3")
    client.send(BasicConsume("q", "mine", no_ack=no_ack, arguments=PULL))
    answer, delivery, cancel = client.heard()
    assert answer == BasicConsumeOk("mine")
    assert isinstance(delivery, Content)
    assert (delivery.body, cancel) == (b"1", BasicCancel("mine", nowait=True))
    home = pair.home.queue("q")
    assert (len(home.consumers), home.ready, home.unacked) == (0, 2, 0 if no_ack else 1)
    assert home.counters.delivered == 1


@ACKS
def test_an_empty_queue_is_waited_for(pair: CellPair, client: Client, no_ack: bool) -> None:
    client.consume("q", no_ack=no_ack, arguments=PULL)
    assert (spoken(client), len(pair.home.queue("q").consumers)) == ([], 1)
    client.publish("q", b"1", b"2", b"3")
    assert spoken(client) == [b"1", "basic.cancel"]
    assert (len(pair.home.queue("q").consumers), client.count("q")) == (0, 2)


@ACKS
def test_pulls_get_the_messages_in_their_order(client: Client, no_ack: bool) -> None:
    bodies = [b"%d" % number for number in range(6)]
    client.publish("q", *bodies)
    got: list[object] = []
    for _ in bodies[::2]:  # the second is on its way while the first one is cancelled
        client.send(*[BasicConsume("q", tag, no_ack=no_ack, nowait=True, arguments=PULL) for tag in ("a", "b")])
        got += spoken(client)
    assert [each for each in got if each != "basic.cancel"] == bodies


def test_others_are_not_kept_waiting_by_a_pull(pair: CellPair, client: Client) -> None:
    """It prefetches no more than its message."""
    client.consume("q", "pull", arguments=PULL)
    other = pair.home.client()
    other.consume("q", "push")
    client.publish("q", b"1", b"2", b"3")
    assert (spoken(client), other.bodies()) == ([b"1", "basic.cancel"], [b"2", b"3"])


def test_its_message_is_settled_after_it_has_left(pair: CellPair, client: Client) -> None:
    client.publish("q", b"1", b"2")
    client.consume("q", arguments=PULL)
    client.nack(1)
    client.consume("q", arguments=PULL)
    deliveries = [what for what in client.heard() if isinstance(what, Content)]
    assert [(each.body, each.redelivered) for each in deliveries] == [(b"1", False), (b"1", True)]
    client.ack(2)
    assert (pair.home.queue("q").unacked, client.count("q")) == (0, 1)


def test_a_pull_with_a_selector(client: Client) -> None:
    client.publish("q", b"1")
    client.publish("q", b"2", b"3", headers={"colour": "red"})
    client.consume("q", arguments={**PULL, "x-selector": "colour = 'red'"})
    assert spoken(client) == [b"2", "basic.cancel"]


def test_a_pull_that_waits_continues_after_the_link_was_lost(pair: CellPair, client: Client) -> None:
    client.consume("q", arguments=PULL)
    pair.cut()
    pair.home.client().publish("q", b"1", b"2")
    pair.connect()
    assert (spoken(client), pair.home.queue("q").ready) == ([b"1", "basic.cancel"], 1)
