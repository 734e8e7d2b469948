"""Other people's clients against a broker of their own on a free port. Every test here carries the mark `compat`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import leveret

HERE = Path(__file__).parent
Connect = Callable[..., pika.BlockingConnection]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)


@pytest.fixture
def connect(leveret_broker: leveret.Broker) -> Iterator[Connect]:
    """Opens pika connections (keywords become parameters) and closes those that are still open at the end."""
    opened: list[pika.BlockingConnection] = []

    def connect(**parameters: object) -> pika.BlockingConnection:
        wanted = pika.URLParameters(leveret_broker.amqp_url)
        for name, value in parameters.items():
            setattr(wanted, name, value)
        opened.append(pika.BlockingConnection(wanted))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: Connect) -> pika.BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()
