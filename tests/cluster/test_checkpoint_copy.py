"""Standbys have the leader's newest checkpoint, and a take-over begins with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.support.cell_node import Cell, CellNode, until
from tests.support.nats_servers import NatsServers

NUMBER = 40
BODY = bytes(20_000)


@pytest.fixture
def cell(servers: NatsServers, tmp_path: Path) -> Iterator[Cell]:
    with Cell(tmp_path, servers, "checkpoints", "--segment-size", "64KiB", "--log-level", "debug") as made:
        made.start()
        yield made


def checkpoints_of(node: CellNode) -> set[int]:
    return {int(path.stem) for path in (node.data / "journal").glob("*.checkpoint")}


def fill(node: CellNode) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    channel.confirm_delivery()
    for _ in range(NUMBER):
        channel.basic_publish("", "jobs", BODY, pika.BasicProperties(delivery_mode=2))
    connection.close()


def messages_in(node: CellNode) -> int:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    number: int = connection.channel().queue_declare("jobs", passive=True).method.message_count
    connection.close()
    return number


def test_a_take_over_begins_with_the_checkpoint_of_the_leader(cell: Cell) -> None:
    first = cell.leader()
    fill(first)
    standbys = cell.standbys()
    until(lambda: all(checkpoints_of(node) for node in standbys), 30, cell.logs)
    assert all(checkpoints_of(node) <= checkpoints_of(first) for node in standbys)
    first.kill()
    second = cell.leader()
    assert messages_in(second) == NUMBER
    (line,) = [line for line in second.log().splitlines() if " recovered " in line]
    assert "checkpoint=" in line, line
    (third,) = [node for node in standbys if node is not second]
    until(lambda: checkpoints_of(third) and checkpoints_of(third) <= checkpoints_of(second), 30, cell.logs)
