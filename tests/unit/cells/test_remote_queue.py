"""A queue of another cell, as clients see it."""

from __future__ import annotations

import pytest

from leveret.session.run_frames import MOST_RUN
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicNack,
    BasicReturn,
    ChannelCloseOk,
    ConfirmSelect,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)
from leveret.wire.properties import Properties
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client, Content


def contents(client: Client) -> list[Content]:
    return [what for what in client.heard() if isinstance(what, Content)]


def bodies(number: int) -> list[bytes]:
    return [b"%d" % n for n in range(number)]


def test_messages_arrive_in_order_with_their_address(pair: CellPair, client: Client) -> None:
    pair.here.vhost.declare_exchange("logs", "topic")
    client.feed(b"".join(client.published("", "q", body) for body in bodies(50)))
    assert pair.home.queue("q").ready == 50
    there = pair.home.client()
    there.consume("q", no_ack=True)
    got = contents(there)
    assert [each.body for each in got] == bodies(50)
    assert {(each.method.exchange, each.method.routing_key) for each in got} == {("", "q")}


@pytest.mark.parametrize("length", [2_000, 10_000], ids=["in a run", "in ordinary frames"])
def test_a_large_message_and_its_properties_arrive_unchanged(pair: CellPair, client: Client, length: int) -> None:
    body = bytes(range(256)) * length  # several frames
    sent: dict[str, object] = {"headers": {"CC": ["other"], "x-delay": 5}, "user_id": "guest", "message_id": "7"}
    pair.here.vhost.declare_queue("other")
    client.publish("q", body, **sent)
    there = pair.home.client()
    (got,) = [there.get("q")]
    assert got is not None
    assert got.body == body
    assert got.properties == Properties(**sent)  # type: ignore[arg-type]
    assert pair.here.queue("other").ready == 1


def test_large_and_small_messages_keep_their_order(pair: CellPair, client: Client) -> None:
    sent = [b"1", bytes(MOST_RUN + 1), b"2", bytes(MOST_RUN), b"3"]
    client.ask(ConfirmSelect())
    client.publish("q", *sent)
    client.publish("q", b"4", bytes(MOST_RUN), b"5", expiration="100000", priority=2)
    assert max(ack.delivery_tag for ack in client.heard() if isinstance(ack, BasicAck)) == 8
    client.consume("q")
    held = contents(client)
    assert [each.body for each in held] == [*sent, b"4", bytes(MOST_RUN), b"5"]
    assert [each.properties.expiration for each in held][-1] == "100000"
    client.nack(held[-1].tag, multiple=True)
    again = contents(client)
    assert [each.body for each in again] == [each.body for each in held]
    assert all(each.redelivered for each in again)


def test_messages_of_many_addresses_travel_together(pair: CellPair, client: Client) -> None:
    pair.here.vhost.declare_exchange("many", "topic")
    client.ask(QueueBind("q", "many", "#"))
    keys = [f"key {number % 7}" for number in range(30)]
    client.feed(b"".join(client.published("many", key, key.encode()) for key in keys))
    client.consume("q", no_ack=True)
    got = contents(client)
    assert [each.body.decode() for each in got] == keys
    assert [(each.method.exchange, each.method.routing_key) for each in got] == [("many", key) for key in keys]


def test_confirms_come_from_the_home_cell(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    pair.wires[0].is_held = True
    client.publish("q", b"1", b"2")
    assert client.heard() == []
    pair.wires[0].is_held = False
    pair.here.rest()
    assert client.heard() == [BasicAck(2, multiple=True)]


def test_a_full_queue_refuses(pair: CellPair, client: Client) -> None:
    pair.declare("full", max_length=1, overflow="reject-publish")
    client.ask(ConfirmSelect())
    client.publish("full", b"1")
    client.publish("full", b"2")
    assert [type(what) for what in client.heard()] == [BasicAck, BasicNack]


def test_what_is_published_to_a_queue_that_is_gone_is_returned_or_refused(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    client.publish("q", b"opens the channel")
    client.heard()
    pair.home.vhost.delete_queue("q")
    client.feed(client.published("", "q", b"1", mandatory=True) + client.published("", "q", b"2"))
    returned, ack, nack = client.heard()
    assert isinstance(returned, Content)
    assert isinstance(returned.method, BasicReturn)
    assert isinstance(ack, BasicAck)
    assert isinstance(nack, BasicNack)


# ---- consuming


def test_deliveries_and_acks(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(10))
    client.qos(4)
    client.consume("q")
    got = contents(client)
    assert [each.body for each in got] == bodies(4)
    assert (got[0].method.exchange, got[0].method.routing_key) == ("", "q")
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (6, 4)
    client.ack(got[1].tag)  # out of order
    client.ack(got[3].tag, multiple=True)
    assert [each.body for each in contents(client)] == bodies(10)[4:8]
    client.ack(8, multiple=True)
    client.ack(10, multiple=True)
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (0, 0)


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_consumer_without_a_limit_gets_everything(pair: CellPair, client: Client, no_ack: bool) -> None:
    sent = bodies(5_000)
    pair.home.client().publish("q", *sent)
    client.consume("q", no_ack=no_ack)
    assert client.bodies() == sent
    assert pair.home.queue("q").unacked == (0 if no_ack else 5_000)


def test_a_message_that_is_returned_is_delivered_again_in_its_place(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(3))
    client.qos(1)
    client.consume("q")
    (first,) = contents(client)
    client.nack(first.tag)
    (again,) = contents(client)
    assert (again.body, again.redelivered) == (b"0", True)
    client.ack(again.tag)
    (second,) = contents(client)
    assert (second.body, second.redelivered) == (b"1", False)


def test_a_rejected_message_is_dead_lettered_at_home(pair: CellPair, client: Client) -> None:
    pair.home.vhost.declare_queue("dead")
    pair.declare("source", dead_letter_exchange="", dead_letter_routing_key="dead")
    client.publish("source", b"bad")
    client.consume("source")
    (got,) = contents(client)
    client.nack(got.tag, requeue=False)
    assert pair.home.queue("dead").ready == 1


def test_what_a_cancelled_consumer_has_not_seen_returns_at_once(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(6))
    client.qos(3)
    client.session.outbox.set_writable(False)  # the client does not read: nothing is passed to it
    client.consume("q")
    assert pair.home.queue("q").unacked == 3
    client.send(BasicCancel("tag", nowait=True))
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (6, 0)


def test_messages_that_no_consumer_has_seen_are_not_counted_as_delivered(pair: CellPair, client: Client) -> None:
    """Those that a consumer held when it was closed are."""
    pair.home.vhost.declare_queue("dead")
    pair.declare("limited", delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    pair.home.client().publish("limited", *bodies(3))
    client.session.outbox.set_writable(False)
    for _ in range(4):
        client.consume("limited")
        assert pair.home.queue("limited").unacked == 3
        client.send(BasicCancel("tag", nowait=True))
    assert (pair.home.queue("limited").ready, pair.home.queue("dead").ready) == (3, 0)
    for _ in range(3):
        seen = pair.here.client()
        seen.consume("limited")
        assert [each.body for each in contents(seen)] == bodies(3)
        seen.vanish()
    assert (pair.home.queue("limited").ready, pair.home.queue("dead").ready) == (0, 3)


def test_what_a_cancelled_consumer_holds_stays_with_it(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(6))
    client.qos(3)
    client.consume("q")
    held = contents(client)
    client.send(BasicCancel("tag", nowait=True))
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (3, 3)
    client.ack(held[-1].tag, multiple=True)
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (3, 0)
    assert not pair.home.queue("q").consumers
    assert all(not wire.session.channels for wire in pair.wires[1:])


def test_all_that_a_vanished_client_held_returns(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(6))
    client.consume("q")
    contents(client)
    client.vanish()
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (6, 0)


def test_an_exclusive_consumer_is_refused_by_the_home_cell(pair: CellPair, client: Client) -> None:
    pair.home.client().consume("q")
    client.send(BasicConsume("q", "tag", exclusive=True))
    assert client.error() == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


def test_consume_ok_waits_for_the_home_cell(pair: CellPair, client: Client) -> None:
    pair.wires[1].is_held = True
    client.send(BasicConsume("q", "tag"))
    assert client.heard() == []
    pair.wires[1].is_held = False
    pair.here.rest()
    assert client.heard() == [BasicConsumeOk("tag")]


def test_consumers_by_priority_of_both_cells(pair: CellPair, client: Client) -> None:
    there = pair.home.client()
    there.consume("q", no_ack=True)
    client.consume("q", no_ack=True, arguments={"x-priority": 5})
    there.publish("q", *bodies(4))
    pair.here.turn()
    assert (client.bodies(), there.bodies()) == (bodies(4), [])


def test_a_consumer_hears_that_the_queue_was_deleted(pair: CellPair, client: Client) -> None:
    client.consume("q")
    pair.home.vhost.delete_queue("q")
    pair.home.turn()
    pair.here.turn()
    assert client.heard() == [BasicCancel("tag", nowait=True)]


def test_a_consumer_continues_after_the_link_was_lost(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(4))
    client.qos(2)
    client.consume("q")
    before = contents(client)
    pair.cut()
    client.ack(before[0].tag)  # nobody hears it
    pair.connect()
    got = contents(client)
    assert [(each.body, each.redelivered) for each in got][:1] == [(b"0", True)]
    client.ack(before[1].tag)
    client.ack(got[0].tag)
    assert pair.home.queue("q").ready + pair.home.queue("q").unacked == 3


# ---- requests


def test_basic_get(pair: CellPair, client: Client) -> None:
    assert client.get("q") is None
    pair.home.client().publish("q", *bodies(3))
    first = client.get("q")
    assert first is not None
    assert (first.body, first.method.message_count) == (b"0", 2)  # type: ignore[union-attr]
    client.nack(first.tag)
    again = client.get("q", no_ack=True)
    assert again is not None
    assert (again.body, again.redelivered) == (b"0", True)
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (2, 0)


def test_what_was_fetched_before_the_link_was_lost_cannot_be_acked(pair: CellPair, client: Client) -> None:
    """Delivery tags begin at 1 again: the ack would hit a message that another client has fetched meanwhile."""
    pair.home.client().publish("q", *bodies(1))
    held = client.get("q")
    assert held is not None
    pair.cut()
    pair.connect()
    other = pair.here.client()
    again = other.get("q")
    assert again is not None
    assert (again.body, again.redelivered) == (b"0", True)
    client.ack(held.tag)
    assert pair.home.queue("q").unacked == 1
    other.ack(again.tag)
    assert pair.home.queue("q").unacked == 0


def test_counts_and_purge(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(3))
    pair.home.client().consume("q", arguments={"x-priority": -1})
    assert client.declare("q", passive=True) == QueueDeclareOk("q", 0, 1)
    pair.declare("p")
    pair.home.client().publish("p", *bodies(3))
    assert client.ask(QueuePurge("p")) == QueuePurgeOk(3)
    assert pair.home.queue("p").ready == 0


REQUESTS = [QueuePurge("q"), BasicGet("q"), QueueDelete("q"), QueueDeclare("q", passive=True)]
AWAY = 404, "NOT_FOUND - home cell 'home' of queue 'q' in vhost '/' is down or inaccessible"


@pytest.mark.parametrize("method", REQUESTS, ids=lambda method: method.NAME)
def test_requests_wait_for_a_cell_that_is_away(pair: CellPair, client: Client, method: Method) -> None:
    pair.cut()
    client.send(method)
    pair.here.advance(9)
    assert client.heard() == []
    pair.connect()
    (answer,) = client.heard()
    assert isinstance(answer, Method)
    assert answer.NAME in (f"{method.NAME}-ok", f"{method.NAME}-empty")


@pytest.mark.parametrize("method", REQUESTS, ids=lambda method: method.NAME)
def test_requests_to_a_cell_that_stays_away_are_refused(pair: CellPair, client: Client, method: Method) -> None:
    pair.cut()
    client.send(method)
    pair.here.advance(10)
    assert client.error() == AWAY
    client.send(ChannelCloseOk())
    client.open_channel(1)  # the connection goes on
    client.send(method)  # refused at once: nothing was heard of the cell
    assert client.error() == AWAY


def test_a_message_for_a_client_that_is_gone_returns(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", b"1")
    pair.wires[1].is_held = True
    client.send(BasicGet("q"))
    client.vanish()
    pair.wires[1].is_held = False
    pair.here.rest()
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (1, 0)
    assert pair.here.client().get("q", no_ack=True) is not None


def test_the_prefetch_is_the_same_after_the_link_was_lost(pair: CellPair, client: Client) -> None:
    pair.home.client().publish("q", *bodies(9))
    client.qos(3)
    client.consume("q")
    held = contents(client)
    pair.cut()
    pair.connect()
    client.ack(held[-1].tag, multiple=True)  # of the link that is lost: they come again
    assert [each.body for each in contents(client)] == bodies(3)
    assert pair.home.queue("q").unacked == 3


@pytest.mark.parametrize(
    "method",
    [
        BasicConsume("q", "tag"),
        BasicGet("q"),
        QueuePurge("q"),
        QueueDelete("q"),
        QueueDeclare("q", passive=True),
        QueueBind("q", "amq.fanout", ""),
    ],
    ids=lambda method: method.NAME,
)
def test_users_need_the_same_permissions_as_for_any_queue(pair: CellPair, method: Method) -> None:
    pair.here.user("anna", allowed="none")
    client = pair.here.client("anna")
    client.send(method)
    assert client.error()[0] == 403


def test_links_are_not_counted_as_connections_of_clients(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    client.publish("q", b"hello")
    registry, counters = pair.home.broker.registry, pair.home.vhost.counters
    channels = registry.memory()
    pair.cut()
    assert (registry.opened, registry.closed, registry.channels_opened, registry.channels_closed) == (0, 0, 0, 0)
    assert (counters.confirmed, counters.confirm_wanted) == (0, 0)
    assert registry.memory() < channels  # their memory is counted
    assert pair.here.broker.registry.opened == 1


def test_the_home_cell_counts_its_queues_alone(pair: CellPair, client: Client) -> None:
    client.publish("q", b"hello")
    pair.here.vhost.remove_queue(pair.here.vhost.queues["q"])
    here = pair.here.vhost.counters
    assert (here.queues_created, here.queues_deleted, here.past_queues.received) == (0, 0, 0)
    assert pair.home.vhost.counters.queues_created == 1
