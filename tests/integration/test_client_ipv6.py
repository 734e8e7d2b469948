"""The client to a broker that listens on IPv6 alone, by every transport."""

from __future__ import annotations

import socket

import pytest

import leveret
from leveret.client import Connection
from leveret.config import Settings
from tests.support.client_scenarios import live


@pytest.fixture(autouse=True)
def _ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError as problem:
        pytest.skip(f"kernel: no IPv6 here ({problem})")


@pytest.mark.feature("S3-03")
def test_every_transport_reaches_an_ipv6_address() -> None:
    """It stands in brackets, also in the Host of a request."""

    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.publish(b"", "", queue, mandatory=True)

    with leveret.Broker(Settings(host=("::1",), amqp_port=0, http_port=0, stomp_port=None)) as broker:
        port = broker.http_url.rpartition(":")[2].strip("/")
        for url in (broker.amqp_url, f"ws://[::1]:{port}", f"http://[::1]:{port}", f"failover:({broker.amqp_url})"):
            live(url, story)
