"""Brokers on free ports, and peers that use them over a socket or in the process.

`broker` is the application fixture (tests/support/application.py), by default one for each module. `leveret_broker` is
the fixture that Leveret provides for pytest, a broker for each test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import leveret
from leveret.embedded_vhost import EmbeddedVhost
from leveret.errors import AmqpError, BrokerStopped
from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from tests.support.application import Choice, broker, module_broker, pytest_generate_tests
from tests.support.command_line import Cli
from tests.support.http_api import HttpApi
from tests.support.management_api import ManagementApi, as_guest
from tests.support.peers import LocalPeer, NetworkPeer, Peer
from tests.support.raw_client import RawClient

__all__ = ["broker", "module_broker", "pytest_generate_tests"]
NewPeer = Callable[[], Peer]


@pytest.fixture
def leveret_broker(request: pytest.FixtureRequest) -> Iterator[leveret.Broker]:
    """As Leveret provides it, with the clock that the mark `broker` chooses."""
    clock = Choice.of(request.node).clock
    with leveret.Broker() if clock is None else leveret.Broker(clock=clock()) as running:
        yield running


@pytest.fixture(params=["network", "process"])
def new_peer(request: pytest.FixtureRequest, leveret_broker: leveret.Broker) -> Iterator[NewPeer]:
    """Creates peers of one kind; a test that uses it runs once with each kind."""
    made: list[Peer] = []

    def new_peer() -> Peer:
        network = request.param == "network"
        made.append(NetworkPeer(leveret_broker.amqp_url) if network else LocalPeer(leveret_broker))
        return made[-1]

    yield new_peer
    for peer in made:
        with suppress(BrokerStopped, AmqpError):
            peer.close()


@pytest.fixture
def peer(new_peer: NewPeer) -> Peer:
    return new_peer()


@pytest.fixture
def network(leveret_broker: leveret.Broker) -> Iterator[NetworkPeer]:
    peer = NetworkPeer(leveret_broker.amqp_url)
    yield peer
    peer.close()


@pytest.fixture
def local(leveret_broker: leveret.Broker) -> LocalPeer:
    return LocalPeer(leveret_broker)


# ---- raw frames


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[RawClient]:
    with RawClient.open(broker.amqp_url, channels=2) as made:
        yield made


@pytest.fixture(scope="module")
def bystander(module_broker: leveret.Broker) -> Iterator[RawClient]:
    """A connection with an exclusive queue that stays open through all errors of the module."""
    with RawClient.open(module_broker.amqp_url) as made:
        made.call(QueueDeclare("bystander's", exclusive=True), QueueDeclareOk)
        yield made
        made.close()


# ---- over HTTP, the command line and in the process


@pytest.fixture
def api(broker: leveret.Broker) -> HttpApi:
    return HttpApi(broker.http_url)


@pytest.fixture
def vhost(broker: leveret.Broker) -> EmbeddedVhost:
    return broker.vhost()


@pytest.fixture
def admin(broker: leveret.Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.fixture
def cli(broker: leveret.Broker, tmp_path: Path) -> Cli:
    return Cli(broker.http_url, tmp_path)
