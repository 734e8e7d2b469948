"""How much of a queue of another cell waits in the cell of its consumer."""

from __future__ import annotations

import pytest

from leveret.cells.remote_consumer import MOST_BYTES
from leveret.cells.remote_queue import RemoteQueue
from leveret.wire.methods import BasicCancel
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client, Content


def contents(client: Client) -> list[Content]:
    return [each for each in client.heard() if isinstance(each, Content)]


@pytest.mark.parametrize("prefetch", [0, 1_000])
def test_large_messages_stay_in_the_home_cell_while_the_client_does_not_read(
    pair: CellPair, client: Client, prefetch: int
) -> None:
    """Its window counts messages, and would let them all come."""
    number, size = 40, 1 << 20
    producer = pair.home.client()
    for _ in range(number):
        producer.publish("q", bytes(size))
    client.qos(prefetch)
    client.socket.written.clear()
    client.session.outbox.set_writable(False)
    client.consume("q")
    queue = pair.here.vhost.queues["q"]
    assert isinstance(queue, RemoteQueue)
    (remote,) = queue.lanes.values()
    assert remote.bytes <= MOST_BYTES + 4 * size
    assert pair.here.broker.gauge.used >= remote.bytes > MOST_BYTES
    client.session.outbox.set_writable(True)
    pair.here.rest()
    assert len(contents(client)) == number
    assert (remote.bytes, pair.home.queue("q").unacked) == (0, number)
    client.ack(number, multiple=True)
    producer.publish("q", b"next")
    pair.here.rest()
    assert [each.body for each in contents(client)] == [b"next"]


def test_returned_deliveries_do_not_block_acks_while_the_home_cell_has_an_alarm(pair: CellPair, client: Client) -> None:
    other = pair.here.client()
    client.publish("q", b"held")
    other.consume("q", "holder")
    (held,) = contents(other)
    other.send(BasicCancel("holder", nowait=True))
    client.publish("q", *[b"%d" % number for number in range(10)])
    client.qos(1, shared=True)
    client.consume("q")
    pair.home.broker.set_alarm("memory", "for a test")
    client.send(BasicCancel("tag", nowait=True))
    other.ack(held.tag)
    assert (pair.home.queue("q").ready, pair.home.queue("q").unacked) == (9, 1)
