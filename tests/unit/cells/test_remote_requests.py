"""Requests of several clients about one queue of another cell: a refused one affects no other."""

from __future__ import annotations

from leveret.wire.methods import (
    BasicGet,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client, Content


def test_a_refused_request_leaves_what_another_client_has_fetched(pair: CellPair, client: Client) -> None:
    client.publish("q", b"1", b"2")
    held = client.get("q")
    assert held is not None
    other = pair.here.client()
    other.send(QueueDelete("q", if_empty=True))
    assert other.error() == (406, "PRECONDITION_FAILED - queue 'q' in vhost '/' is not empty")
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (1, 1)
    client.ack(held.tag)
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (1, 0)
    following = client.get("q")
    assert following is not None
    assert (following.body, following.redelivered) == (b"2", False)


def test_a_refused_request_leaves_those_that_wait_behind_it(pair: CellPair, client: Client) -> None:
    client.publish("q", b"1", b"2")
    clients = [pair.here.client() for _ in range(4)]
    for wire in pair.wires:
        wire.is_held = True
    requests = (
        QueueDeclare("q", passive=True),
        QueueDelete("q", if_empty=True),
        QueueDeclare("q", passive=True),
        QueuePurge("q"),
    )
    for each, method in zip(clients, requests, strict=True):
        each.send(method)
    assert [each.heard() for each in clients] == [[], [], [], []]
    for wire in pair.wires:
        wire.is_held = False
    pair.here.turn()
    first, refused, second, purged = [each.heard() for each in clients]
    assert first == [QueueDeclareOk("q", 2, 0)]
    assert [type(each) for each in refused] == [ChannelClose]
    assert second == [QueueDeclareOk("q", 2, 0)]
    assert purged == [QueuePurgeOk(2)]


def test_several_refused_requests_are_each_answered(pair: CellPair, client: Client) -> None:
    client.publish("q", b"1")
    clients = [pair.here.client() for _ in range(3)]
    for wire in pair.wires:
        wire.is_held = True
    for each in clients:
        each.send(QueueDelete("q", if_empty=True))
    for wire in pair.wires:
        wire.is_held = False
    pair.here.turn()
    assert [each.error()[0] for each in clients] == [406, 406, 406]
    assert client.count("q") == 1


def test_requests_behind_the_deletion_of_the_queue_are_refused(pair: CellPair, client: Client) -> None:
    """The home cell knows that it is gone, this cell does not yet."""
    clients = [pair.here.client() for _ in range(3)]
    pair.home.vhost.remove_queue(pair.home.queue("q"))
    for wire in pair.wires:
        wire.is_held = True
    clients[0].send(QueueDeclare("q", passive=True))
    clients[1].send(QueuePurge("q"))
    clients[2].send(BasicGet("q"))
    for wire in pair.wires:
        wire.is_held = False
    pair.here.turn()
    assert [each.error() for each in clients] == [(404, "NOT_FOUND - no queue 'q' in vhost '/'")] * 3


def test_what_waits_behind_a_refused_request_fails_with_the_link(pair: CellPair, client: Client) -> None:
    """It is not asked again: maybe the home cell has handled it."""
    client.publish("q", b"1")
    refused, purging = pair.here.client(), pair.here.client()
    for wire in pair.wires:
        wire.is_held = True
    refused.send(QueueDelete("q", if_empty=True))
    purging.send(QueuePurge("q"))
    pair.cut()
    text = "NOT_FOUND - home cell 'home' of queue 'q' in vhost '/' is down or inaccessible"
    assert [refused.error(), purging.error()] == [(404, text)] * 2
    pair.connect()
    got = client.get("q")
    assert isinstance(got, Content)
