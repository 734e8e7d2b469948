"""Brokers as leaders of a cell: killed, stopped and replaced. What was confirmed is there, once, and in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.support.cell_node import Cell, CellNode
from tests.support.nats_servers import NatsServers
from tests.support.replicated_streams import messages_of, replica_streams
from tests.support.streams import Seen

OPENED: list[pika.BlockingConnection] = []
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def cell(servers: NatsServers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    """Three nodes, started."""
    with Cell(tmp_path, servers, request.node.originalname[:60]) as made:
        made.start()
        yield made


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    """Connections to close, as far as their brokers are still there."""
    yield
    while OPENED:
        with suppress(AMQPError):
            OPENED.pop().close()


def connect(node: CellNode) -> pika.BlockingConnection:
    parameters = pika.URLParameters(node.url)
    parameters.blocked_connection_timeout = 5
    OPENED.append(pika.BlockingConnection(parameters))
    return OPENED[-1]


def publish(channel: BlockingChannel, bodies: list[bytes]) -> list[bytes]:
    """One by one; those that are confirmed, up to the first that is not."""
    confirmed = []
    for body in bodies:
        try:
            channel.basic_publish("", "jobs", body, PERSISTENT)
        except AMQPError:
            break
        confirmed.append(body)
    return confirmed


def open_queue(node: CellNode) -> tuple[pika.BlockingConnection, BlockingChannel]:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    channel.confirm_delivery()
    return connection, channel


def bodies_in(node: CellNode) -> list[bytes]:
    """What is in the queue, which stays as it is."""
    connection, channel = open_queue(node)
    bodies = []
    while (got := channel.basic_get("jobs"))[0] is not None:
        bodies.append(got[2])
    connection.close()
    return bodies


def numbered(name: str, number: int) -> list[bytes]:
    return [f"{name} {n}".encode() for n in range(number)]


def kill(cell: Cell, node: CellNode) -> CellNode:
    """kill -9; the node that leads next."""
    node.kill()
    return cell.leader()


def kill_while_publishing(cell: Cell, node: CellNode) -> tuple[CellNode, list[bytes], list[bytes]]:
    """The next leader, what was sent, and what of it was confirmed."""
    _, channel = open_queue(node)
    sent, confirmed, enough = numbered("job", 5000), [], Event()

    def run() -> None:
        for body in sent:
            if publish(channel, [body]):
                confirmed.append(body)
                if len(confirmed) == 30:
                    enough.set()
            else:
                break

    thread = Thread(target=run)
    thread.start()
    assert enough.wait(30)
    following = kill(cell, node)
    thread.join()
    return following, sent, confirmed


@pytest.mark.feature("S0-05", "S0-30")
def test_killed_leaders_are_replaced_and_follow_when_they_come_back(cell: Cell) -> None:
    first = cell.leader()
    second, sent, confirmed = kill_while_publishing(cell, first)
    found = bodies_in(second)
    assert found in (confirmed, sent[: len(confirmed) + 1])  # the last one was not confirmed: it may be there
    _, channel = open_queue(second)
    for _ in range(10):
        channel.basic_get("jobs", auto_ack=True)
    third = kill(cell, second)  # while it settles
    rest = bodies_in(third)
    assert rest[-len(found) + 10 :] == found[10:]
    assert rest == found[-len(rest) :]
    first.start()
    second.start()
    connection, channel = open_queue(third)
    rest += publish(channel, numbered("more", 20))
    connection.close()
    third.signal(signal.SIGTERM)
    assert third.wait() == 0
    fourth = cell.leader()
    assert bodies_in(fourth) == rest


def test_a_leader_that_was_stopped_confirms_nothing_more(cell: Cell) -> None:
    old = cell.leader()
    _, channel = open_queue(old)
    confirmed = publish(channel, numbered("before", 20))
    old.signal(signal.SIGSTOP)
    new = cell.leader(but=old)
    connection, other = open_queue(new)
    confirmed += publish(other, numbered("new", 20))
    connection.close()
    old.signal(signal.SIGCONT)
    assert publish(channel, [b"to the old leader"]) == []
    old.wait_for("stepping down")
    assert bodies_in(new) == confirmed


STREAM = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4096}
FROM_THE_FIRST = {"x-stream-offset": "first"}


def publish_to_stream(node: CellNode, bodies: list[bytes]) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("events", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "events", body)
    connection.close()


def events_in(node: CellNode, number: int) -> list[tuple[int, bytes]]:
    """So many messages of the stream, with their offsets."""
    connection = connect(node)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1000)
    found = []
    for method, properties, body in channel.consume("events", arguments=FROM_THE_FIRST, inactivity_timeout=20):
        assert method is not None, f"only {len(found)} messages"
        found.append((properties.headers["x-stream-offset"], body))
        if len(found) == number:
            break
    connection.close()
    return found


def stored_events(node: CellNode) -> list[Seen]:
    """What is in the files of a node that is not running: with the times."""
    (messages,) = messages_of(replica_streams(node.data)).values()
    return messages


def test_streams_are_served_by_the_next_leader_and_by_the_one_before_when_it_is_back(cell: Cell) -> None:
    first = cell.leader()
    bodies = [b"event %d" % n * 20 for n in range(300)]
    publish_to_stream(first, bodies[:200])
    second = kill(cell, first)
    assert events_in(second, 200) == list(enumerate(bodies[:200]))
    killed = stored_events(first)
    publish_to_stream(second, bodies[200:])
    (other,) = [node for node in cell.nodes if node not in (first, second)]
    other.signal(signal.SIGTERM)
    assert other.wait() == 0
    first.start()
    assert kill(cell, second) is first  # it has followed meanwhile, or does so before it leads
    assert events_in(first, 300) == list(enumerate(bodies))
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    final = stored_events(first)
    assert [seen.offset for seen in final] == list(range(300))
    for messages in (killed, stored_events(second), stored_events(other)):
        assert messages == final[: len(messages)]
