"""Publishes to a queue of another cell: together, under flow control, and while it is away."""

from __future__ import annotations

import pytest

from leveret.session.pending_publishes import MOST_UNRECEIVED
from leveret.wire.methods import BasicAck, BasicNack, ConfirmSelect, QueueBind
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client


def bodies(number: int) -> list[bytes]:
    return [b"%d" % n for n in range(number)]


def test_publishes_wait_for_a_cell_that_is_away_and_keep_their_order(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    pair.cut()
    for body in bodies(5):
        client.publish("q", body)
    pair.here.advance(9)
    assert client.heard() == []
    pair.connect()
    assert len([what for what in client.heard() if isinstance(what, BasicAck)]) == 5
    there = pair.home.client()
    assert [got.body for got in iter(lambda: there.get("q", no_ack=True), None)] == bodies(5)


def test_publishes_to_a_cell_that_stays_away_are_refused(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    pair.cut()
    client.publish("q", b"1")
    pair.here.advance(5)
    client.publish("q", b"2")
    pair.here.advance(5)
    assert client.heard() == [BasicNack(1, multiple=False, requeue=False)]
    pair.here.advance(5)
    assert client.heard() == [BasicNack(2, multiple=False, requeue=False)]


def test_what_was_on_its_way_when_the_link_broke_is_refused(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    client.publish("q", b"1")
    client.heard()
    pair.wires[0].is_held = True
    client.publish("q", b"2")
    pair.cut()
    assert [type(what) for what in client.heard()] == [BasicNack]


def verdicts(client: Client) -> dict[int, bool]:
    """Whether each publish was acked or nacked, by its number."""
    found: dict[int, bool] = {}
    for what in client.heard():
        assert isinstance(what, BasicAck | BasicNack)
        for number in range(1 if what.multiple else what.delivery_tag, what.delivery_tag + 1):
            found.setdefault(number, isinstance(what, BasicAck))
    return found


def test_of_a_run_exactly_the_messages_that_a_full_queue_refuses_are_nacked(pair: CellPair, client: Client) -> None:
    pair.declare("small", max_length_bytes=10, overflow="reject-publish")
    client.ask(ConfirmSelect())
    run = [b"1234", bytes(20), b"5678", bytes(30), bytes(40), b"90"]
    client.publish("small", *run)
    accepted = {number: len(body) < 10 for number, body in enumerate(run, 1)}
    assert verdicts(client) == accepted
    there = pair.home.client()
    there.consume("small", no_ack=True)
    assert there.bodies() == [b"1234", b"5678", b"90"]


def test_a_run_to_queues_of_several_cells_has_the_refusals_of_all(pair: CellPair, client: Client) -> None:
    pair.declare("there", max_length_bytes=10, overflow="reject-publish")
    pair.here.vhost.declare_queue("here", arguments={"x-max-length": 4, "x-overflow": "reject-publish"})
    for queue in ("here", "there"):
        client.ask(QueueBind(queue, "amq.fanout"))
    client.ask(ConfirmSelect())
    sizes = [1, 20, 1, 1, 1]
    client.feed(b"".join(client.published("amq.fanout", "", bytes(size)) for size in sizes))
    assert verdicts(client) == {1: True, 2: False, 3: True, 4: True, 5: False}


def test_what_was_confirmed_before_the_link_broke_stays_confirmed(pair: CellPair, client: Client) -> None:
    """The home cell confirms a part of the run at once, and the rest waits for its disk."""
    client.ask(ConfirmSelect())
    pair.wires[0].is_held = True
    client.publish("q", *bodies(4))
    (channel,) = [queue for queue in pair.cell.queues if queue.name == "q"]
    channel.publishes.confirmed(1, False, True)
    channel.publishes.confirmed(3, False, True)
    pair.cut()
    assert verdicts(client) == {1: True, 2: False, 3: True, 4: False}


def test_mandatory_publishes_to_a_cell_that_is_away_are_refused_and_not_returned(
    pair: CellPair, client: Client
) -> None:
    """They have found their queue; what was sent may even be in it. A return counts as confirmed for many clients."""
    client.ask(ConfirmSelect())
    pair.wires[0].is_held = True
    client.feed(client.published("", "q", b"on its way", mandatory=True))
    pair.cut()
    assert client.heard() == [BasicNack(1, multiple=False, requeue=False)]
    client.feed(client.published("", "q", b"waits", mandatory=True))
    pair.here.advance(10)
    assert client.heard() == [BasicNack(2, multiple=False, requeue=False)]


def test_publishes_that_are_not_confirmed_count_as_memory(pair: CellPair, client: Client) -> None:
    """While a cell is away, the memory alarm bounds what waits for it."""
    gauge, large = pair.here.broker.gauge, bytes(100_000)
    client.ask(ConfirmSelect())
    for is_away in (True, False):
        before = gauge.used
        if is_away:
            pair.cut()
        else:
            pair.wires[0].is_held = True
        for _ in range(10):
            client.publish("q", large)
        assert gauge.used - before >= 10 * len(large)
        if is_away:
            pair.connect()
        else:
            pair.cut()
        assert gauge.used == before
    client.publish("q", large)
    pair.here.advance(10)
    assert gauge.used == before


def test_large_publishes_to_a_cell_that_is_away_pause_the_publisher(pair: CellPair, client: Client) -> None:
    pair.cut()
    sent = 0
    while client.socket.reading:
        client.publish("q", bytes(1 << 20))
        sent += 1
    assert 4 <= sent <= 16
    pair.here.advance(10)
    assert client.socket.reading


def test_publishes_with_and_without_confirms_are_sent_together(pair: CellPair, client: Client) -> None:
    other = pair.here.client()
    client.ask(ConfirmSelect())
    pair.wires[0].is_held = True
    for number in range(6):
        (client if number % 3 == 1 else other).publish("q", b"%d" % number)
    assert client.heard() == []
    pair.wires[0].is_held = False
    pair.here.rest()
    assert client.heard() == [BasicAck(1), BasicAck(2)]
    there = pair.home.client()
    there.consume("q", no_ack=True)
    assert there.bodies() == bodies(6)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_publisher_without_confirms_waits_for_the_home_cell(pair: CellPair, client: Client, is_cut: bool) -> None:
    pair.wires[0].is_held = True
    client.publish("q", *bodies(MOST_UNRECEIVED))
    assert not client.socket.reading
    if is_cut:
        pair.cut()
    else:
        pair.wires[0].is_held = False
        pair.here.rest()
    assert client.socket.reading
