"""IPv6 and both stacks at once."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

import leveret
from leveret.config import Settings
from tests.support.raw_client import RawClient

QUIET = Settings(amqp_port=0, http_port=None, stomp_port=None)


@pytest.fixture(autouse=True)
def _ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError as problem:
        pytest.skip(f"kernel: no IPv6 here ({problem})")


def names(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: [each.name for each in broker.node.broker.registry.connections])


@pytest.mark.feature("S4-56")
def test_ipv6_alone_and_its_url_and_names() -> None:
    """Addresses stand in brackets, in the URL and in the connection's name; guest may come from ::1."""
    with leveret.Broker(replace(QUIET, host=("::1",))) as broker:
        assert "@[::1]:" in broker.amqp_url
        with RawClient.open(broker.amqp_url) as client:
            client.is_alive()
            here, there = client.socket.getsockname(), client.socket.getpeername()
            assert names(broker) == [f"[::1]:{here[1]} -> [::1]:{there[1]}"]
            client.close()


def test_both_stacks_listen_on_one_port() -> None:
    with leveret.Broker(replace(QUIET, host=("127.0.0.1", "::1"))) as broker:
        other = broker.amqp_url.replace("127.0.0.1", "[::1]")
        assert other != broker.amqp_url
        with RawClient.open(broker.amqp_url) as four, RawClient.open(other) as six:
            four.is_alive()
            six.is_alive()
            assert sorted(name.split(":")[0] for name in names(broker)) == ["127.0.0.1", "["]


def test_every_address_of_both_stacks() -> None:
    """``::`` takes IPv6 only where the system says so; an IPv4 peer inside IPv6 is still this machine to guest."""
    with leveret.Broker(replace(QUIET, host=("0.0.0.0", "::"))) as broker:
        for host in ("127.0.0.1", "[::1]"):
            with RawClient.open(broker.amqp_url.replace("127.0.0.1", host)) as client:
                client.is_alive()
