"""What another cell does while the first one, which changes the definitions of all, does not run."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pika
import pytest

from tests.support.cell_clients import CellClient, clients_by_cell
from tests.support.cell_node import Cell, CellNode, until
from tests.support.nats_servers import NatsServers

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def cells(own_servers: NatsServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CellNode]]:
    """One node for each of two cells."""
    with Cell(tmp_path_factory.mktemp("cells"), own_servers, "main", "--cells", "2", nodes=2) as both:
        for node, name in zip(both.nodes, ("c1", "c2"), strict=True):
            node._arguments += ["--cell", name]
        yield dict(zip(("c1", "c2"), both.nodes, strict=True))


def declare_when_it_is_back(client: CellClient, queue: str) -> None:
    """A declaration waits for 10 seconds; a machine that is busy may take longer to start a node."""
    deadline = time.monotonic() + 60
    while True:
        try:
            client.connection.channel().queue_declare(queue, durable=True)
            return
        except pika.exceptions.ChannelClosedByBroker as refused:
            if refused.reply_code != 406 or time.monotonic() > deadline:
                raise


@pytest.mark.timeout(400)
def test_a_cell_waits_for_its_first_definitions_and_then_works_without_the_first_cell(
    cells: dict[str, CellNode],
) -> None:
    first, other = cells["c1"], cells["c2"]
    other.start()  # it has no users: nothing can be done with it yet
    other.wait_for(" claimed ")
    assert not other.times_leading
    other.signal(signal.SIGTERM)
    assert other.wait() == 0

    first.start()
    other.start()
    for node in (first, other):
        node.wait_for("is ready as")
    with clients_by_cell(other.url, "c2") as clients:
        for queue in ("q", "deleted meanwhile"):
            clients["c2"].channel.queue_declare(queue, durable=True)
        clients["c2"].publisher().basic_publish("", "q", b"kept", PERSISTENT, mandatory=True)

    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    other.kill()
    other.start()
    other.wait_for("the first cell cannot be reached: its last changes are not known here")
    until(lambda: other.leads, 60, other.log)
    with clients_by_cell(other.url, "c2") as clients:
        assert clients["c2"].channel.basic_get("q", auto_ack=True)[2] == b"kept"
        clients["c2"].channel.queue_delete("deleted meanwhile")
        first.start()
        declare_when_it_is_back(clients["c2"], "declared when it is back")
    until(lambda: first.leads, 60, first.log)
    with clients_by_cell(first.url, "c1") as clients:
        assert clients["c1"].channel.queue_declare("declared when it is back", passive=True).method.message_count == 0
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'deleted meanwhile'"):
            clients["c1"].channel.queue_declare("deleted meanwhile", passive=True)
