"""A connection moves to the cell of the queue that it uses first, and its client does not notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.session.connection_moves import MOST_REST, STAY
from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueBind,
    TxSelect,
)
from tests.support.cell_cluster import CellCluster
from tests.support.cell_pair import CellPair
from tests.support.passed_connections import Passing
from tests.support.peer_pair import Client, Content


@pytest.fixture
def pair() -> CellPair:
    pair = CellPair()
    pair.declare("q")
    pair.here.vhost.declare_queue("local")
    return pair


@pytest.fixture
def passing(pair: CellPair) -> Passing:
    passing = pair.here.broker.cells.mover = Passing(pair.here, home=pair.home)
    return passing


def test_a_publisher_moves_with_its_channels(pair: CellPair, passing: Passing) -> None:
    client = pair.here.client()
    client.open_channel(7)
    assert client.ask(ConfirmSelect(), 7) == ConfirmSelectOk()
    client.feed(b"".join(client.published("", "q", b"%d" % number, 7) for number in range(3)))
    pair.home.rest()
    assert passing.moved == [client]
    assert client.hear() == [(7, BasicAck(3, multiple=True))]
    assert pair.home.queue("q").ready == 3
    client.publish("q", b"3")  # on the other channel, without confirms
    assert (pair.home.queue("q").ready, client.hear()) == (4, [])
    assert client.count("q") == 4
    assert client.session.user.name == "guest"


def test_a_consumer_moves_with_its_prefetch(pair: CellPair, passing: Passing) -> None:
    pair.home.client().publish("q", *[b"%d" % number for number in range(5)])
    client = pair.here.client()
    client.qos(3)
    client.send(BasicConsume("q", "tag"))
    pair.home.rest()
    assert passing.moved == [client]
    answer, *deliveries = client.heard()
    assert answer == BasicConsumeOk("tag")
    assert [each.body for each in deliveries if isinstance(each, Content)] == [b"0", b"1", b"2"]
    client.ack(3, multiple=True)
    assert client.bodies() == [b"3", b"4"]


def test_nothing_of_a_connection_that_moved_is_left(pair: CellPair, passing: Passing) -> None:
    client = pair.here.client()
    client.publish("q", b"1")
    pair.here.advance(1)
    assert [each.name for each in pair.here.broker.registry.connections] == []
    pair.home.rest()
    client.vanish()
    assert pair.home.queue("q").ready == 1


def used_a_local_queue(client: Client) -> None:
    client.publish("local", b"0")


def consumes(client: Client) -> None:
    client.consume("local")


def has_an_exclusive_queue(client: Client) -> None:
    client.declare("own", exclusive=True)


def has_a_transaction(client: Client) -> None:
    client.ask(TxSelect())


def has_fetched(client: Client) -> None:
    client.publish("local", b"0")
    client.get("local")


@pytest.mark.parametrize(
    "before", [used_a_local_queue, consumes, has_an_exclusive_queue, has_a_transaction, has_fetched]
)
def test_a_connection_with_state_stays(pair: CellPair, passing: Passing, before: Callable[[Client], None]) -> None:
    client = pair.here.client()
    before(client)
    client.consume("q", "late")
    client.publish("q", b"1")
    assert passing.moved == []


def test_a_publish_that_leads_to_several_queues_moves_nothing(pair: CellPair, passing: Passing) -> None:
    pair.declare("other")
    client = pair.here.client()
    pair.here.vhost.declare_exchange("all", "fanout")
    for queue in ("q", "other"):
        client.ask(QueueBind(queue, "all", ""))
    client.feed(client.published("all", "", b"1"))
    assert passing.moved == []
    assert (pair.home.queue("q").ready, pair.home.queue("other").ready) == (1, 1)


@pytest.mark.parametrize("properties", [{STAY: True}, {}])
def test_a_client_can_ask_to_stay(pair: CellPair, passing: Passing, properties: Table) -> None:
    client = pair.here.stranger()
    client.log_in()
    client.session.client_properties = properties
    client.open_channel(1)
    client.publish("q", b"1")
    pair.home.rest()
    assert (passing.moved == []) == bool(properties)
    assert pair.home.queue("q").ready == 1


def test_a_connection_that_cannot_be_passed_is_served_here(pair: CellPair, passing: Passing) -> None:
    passing.is_refused = True
    client = pair.here.client()
    client.ask(ConfirmSelect())
    client.publish("q", b"1", b"2")
    assert client.heard() == [BasicAck(2, multiple=True)]
    assert pair.home.queue("q").ready == 2


def test_a_connection_does_not_move_to_a_cell_that_is_away(pair: CellPair, passing: Passing) -> None:
    """A cell that is hung may still accept sockets."""
    pair.cut()
    client = pair.here.client()
    client.ask(ConfirmSelect())
    client.publish("q", b"1")
    assert passing.moved == []
    pair.here.advance(10)
    assert client.heard() == [BasicNack(1, multiple=False, requeue=False)]


@pytest.mark.parametrize("is_away", [True, False])
def test_a_connection_moves_while_definitions_follow(is_away: bool) -> None:
    """Without the first cell, the other one may lack what the client has declared."""
    cells = CellCluster(3)
    cells[1].client().declare("q")
    passing = cells[2].broker.cells.mover = Passing(cells[2], c2=cells[1])
    if is_away:
        cells.cut(cells[2], cells[0])
    client = cells[2].client()
    client.publish("q", b"1")
    cells.rest()
    assert (passing.moved == []) == is_away
    assert cells[1].queue("q").ready == 1


def test_too_much_input_is_not_passed(pair: CellPair, passing: Passing) -> None:
    client = pair.here.client()
    client.publish("q", *[bytes(1000)] * (MOST_REST // 1000 + 1))
    assert passing.moved == []
    assert pair.home.queue("q").ready == MOST_REST // 1000 + 1


def test_frames_around_the_first_publish_are_handled_once(pair: CellPair, passing: Passing) -> None:
    """All in one read: what comes before is handled here, the publish and what follows there."""
    client = pair.here.stranger()
    client.log_in()
    frames = [(ChannelOpen(), 1), (BasicQos(0, 9), 1), (ConfirmSelect(), 1)]
    before = b"".join(method_frame(channel, method) for method, channel in frames)
    after = method_frame(2, ChannelOpen())
    client.feed(before + client.published("", "q", b"1") + after + client.published("", "q", b"2"))
    pair.home.rest()
    assert passing.moved == [client]
    names = [what.NAME for what in client.heard() if isinstance(what, Method)]
    assert names == [
        "channel.open-ok",
        "basic.qos-ok",
        "confirm.select-ok",
        "basic.ack",
        "channel.open-ok",
        "basic.ack",
    ]
    assert pair.home.queue("q").ready == 2
