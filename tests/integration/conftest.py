"""A broker on a free port for each test, and peers that speak to it over a socket or in the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import leveret
from leveret.errors import AmqpError, BrokerStopped
from tests.support.peers import LocalPeer, NetworkPeer, Peer

NewPeer = Callable[[], Peer]


@pytest.fixture(params=["network", "process"])
def new_peer(request: pytest.FixtureRequest, leveret_broker: leveret.Broker) -> Iterator[NewPeer]:
    """Makes peers, all of one kind; a test that uses it runs once with each kind."""
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
