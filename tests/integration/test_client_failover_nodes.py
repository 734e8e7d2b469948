"""Failover connections that learn the other nodes of a cell from the broker."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import leveret
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, told


def announce(broker: leveret.Broker, *proxies: ChaosProxy) -> None:
    nodes = [f"amqp://127.0.0.1:{urlsplit(proxy.url).port}" for proxy in proxies]
    broker.call(lambda: broker.node.broker.announced.update(cluster_name="cell", cluster_nodes=nodes))


def test_a_node_that_was_announced_is_tried_when_the_given_one_is_gone(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        url = leveret_broker.amqp_url
        async with ChaosProxy(url) as given, ChaosProxy(url) as other, ChaosProxy(url) as third:
            announce(leveret_broker, given, other)
            async with failing_over(given.url) as (connection, channel, _):
                assert connection.server_properties["cluster_name"] == "cell"
                announce(leveret_broker, third)  # from the next connection on
                await given.refuse()
                await told(connection, "reconnected", given.cut)
                assert (other.accepted, third.accepted) == (1, 0)
                await channel.declare_queue("q")
                await other.refuse()
                await told(connection, "reconnected", other.cut)
                assert (other.accepted, third.accepted) == (1, 1)

    run(work)


def test_announced_nodes_are_not_tried_if_that_is_turned_off(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        url = leveret_broker.amqp_url
        async with ChaosProxy(url) as given, ChaosProxy(url) as other:
            announce(leveret_broker, other)
            options = "&updateURIsSupported=false"
            async with failing_over(given.url, options=options) as (connection, _, kinds):
                await given.refuse()
                await told(connection, "attempt failed", given.cut)
                while kinds.count("attempt failed") < 5:
                    await asyncio.sleep(0)
                assert other.accepted == 0

    run(work)
