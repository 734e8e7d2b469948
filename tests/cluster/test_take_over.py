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

from tests.support.cell_node import CellNode, wait_for_leader
from tests.support.nats_servers import NatsServers, free_ports

LEASE = 3  # seconds
OPENED: list[pika.BlockingConnection] = []
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def nodes(servers: NatsServers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[CellNode]]:
    """Started, of a cell of their own."""
    cell = request.node.originalname[:60]
    ports = free_ports(3)
    made = [CellNode(tmp_path, name, port, cell, servers.urls, LEASE) for name, port in zip("abc", ports, strict=True)]
    try:
        for node in made:
            node.start()
        yield made
    finally:
        for node in made:
            node.end()
    assert not [node.log() for node in made if "Traceback" in node.log()]


def leading(nodes: list[CellNode]) -> dict[str, int]:
    return {node.name: node.times_leading for node in nodes}


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


def kill(nodes: list[CellNode], node: CellNode) -> CellNode:
    """kill -9; the node that leads next."""
    before = leading(nodes)
    node.signal(signal.SIGKILL)
    node.wait()
    return wait_for_leader(nodes, before)


def kill_while_publishing(nodes: list[CellNode], node: CellNode) -> tuple[CellNode, list[bytes], list[bytes]]:
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
    following = kill(nodes, node)
    thread.join()
    return following, sent, confirmed


def test_killed_leaders_are_replaced_and_follow_when_they_come_back(nodes: list[CellNode]) -> None:
    first = wait_for_leader(nodes, {})
    second, sent, confirmed = kill_while_publishing(nodes, first)
    found = bodies_in(second)
    assert found in (confirmed, sent[: len(confirmed) + 1])  # the last one was not confirmed: it may be there
    _, channel = open_queue(second)
    for _ in range(10):
        channel.basic_get("jobs", auto_ack=True)
    third = kill(nodes, second)  # while it settles
    rest = bodies_in(third)
    assert rest[-len(found) + 10 :] == found[10:]
    assert rest == found[-len(rest) :]
    first.start()
    second.start()
    connection, channel = open_queue(third)
    rest += publish(channel, numbered("more", 20))
    connection.close()
    before = leading(nodes)
    third.signal(signal.SIGTERM)
    fourth = wait_for_leader(nodes, before)
    assert third.wait() == 0
    assert bodies_in(fourth) == rest


def test_a_leader_that_was_stopped_confirms_nothing_more(nodes: list[CellNode]) -> None:
    old = wait_for_leader(nodes, {})
    _, channel = open_queue(old)
    confirmed = publish(channel, numbered("before", 20))
    before = leading(nodes)
    old.signal(signal.SIGSTOP)
    new = wait_for_leader(nodes, before)
    assert new is not old
    connection, other = open_queue(new)
    confirmed += publish(other, numbered("new", 20))
    connection.close()
    old.signal(signal.SIGCONT)
    assert publish(channel, [b"to the old leader"]) == []
    old.wait_for("stepping down")
    assert bodies_in(new) == confirmed
