"""Third-party clients against a broker on a free port. Every test here has the mark `compat`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import leveret
from tests.compat.rabbitmq_with_stomp import RabbitMQWithStomp
from tests.support.application import broker, module_broker, pytest_generate_tests
from tests.support.guest_login import GUEST_LOGIN
from tests.support.programs import missing

__all__ = ["broker", "module_broker", "pytest_generate_tests"]
HERE = Path(__file__).parent
Connect = Callable[..., pika.BlockingConnection]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)


@pytest.fixture
def connect(leveret_broker: leveret.Broker) -> Iterator[Connect]:
    """Opens pika connections (keywords become parameters) and closes those that are open at the end."""
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


# ---- both brokers


@pytest.fixture(scope="session")
def one_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQWithStomp]:
    """One for all tests, because it takes seconds to start."""
    if not RabbitMQWithStomp.is_installed():
        missing("rabbitmq-server is not installed (`make foreign` installs it)")
    folder: Path = tmp_path_factory.mktemp("rabbitmq")
    with RabbitMQWithStomp(folder) as broker:
        yield broker


@pytest.fixture(scope="session")
def rabbitmq_url(request: pytest.FixtureRequest) -> str:
    """A RabbitMQ that these tests start; LEVERET_RABBITMQ_URL names a running one that is used by nothing else."""
    running = os.environ.get("LEVERET_RABBITMQ_URL")
    return running or str(request.getfixturevalue("one_rabbitmq").amqp_url)


@pytest.fixture(scope="module")
def leveret_url() -> Iterator[str]:
    with leveret.Broker(GUEST_LOGIN) as broker:
        yield broker.amqp_url


@pytest.fixture(params=["rabbitmq", "leveret"])
def url(request: pytest.FixtureRequest) -> str:
    """Of each broker in turn: a test that uses it runs once with each and must observe the same."""
    return str(request.getfixturevalue(f"{request.param}_url"))
