"""A broker that has not noticed yet that our last connection is gone, and keeps for it what is exclusive."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import leveret
from leveret.client import Happening, connect
from leveret.errors import AccessRefused, ResourceLocked
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, taken, told
from tests.support.failover_connection import Line, answered, play


async def left_open(line: Line) -> Happening:
    """The connection is lost, the broker does not know it and refuses; then it learns of it."""
    refused = await told(line.connection, "attempt failed", line.proxy.abandon)
    await told(line.connection, "reconnected", line.proxy.release)
    return refused


def test_an_exclusive_queue_is_declared_again_once_the_broker_lets_go_of_it(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("mine", exclusive=True)
        consumer = await channel.consume("mine")
        refused = await left_open(line)
        assert isinstance(refused.problem, ResourceLocked)
        assert "has not yet detected the loss of the previous connection" in refused.text
        assert "not restored" not in line.kinds
        await channel.publish(b"a", routing_key="mine")
        assert await taken(consumer, 1) == [b"a"]

    play(leveret_broker, story)


def test_an_exclusive_consumer_goes_on_once_the_broker_lets_go_of_it(leveret_broker: leveret.Broker) -> None:
    """What came to another consumer of the channel before the refusal comes again, once."""

    async def story(line: Line) -> None:
        channel = line.channel
        for name in ("shared", "q"):
            await channel.declare_queue(name)
        await channel.confirm_select()
        shared = await channel.consume("shared")
        consumer = await channel.consume("q", exclusive=True)
        await channel.publish(b"s", routing_key="shared")
        refused = await left_open(line)
        assert isinstance(refused.problem, AccessRefused)
        assert not channel.is_closed
        await channel.publish(b"a", routing_key="q")
        assert await taken(consumer, 1) == [b"a"]
        assert await taken(shared, 1) == [b"s"]
        await answered(channel)

    play(leveret_broker, story)


def test_a_channel_that_is_closed_while_the_broker_refuses_it_stays_closed(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = await line.connection.channel()
        await channel.declare_queue("q")
        consumer = await channel.consume("q", exclusive=True)
        await told(line.connection, "attempt failed", line.proxy.abandon)
        closing = asyncio.ensure_future(channel.close())
        await told(line.connection, "reconnected", line.proxy.release)
        await closing
        assert consumer.is_over
        await answered(line.channel)

    play(leveret_broker, story)


def test_what_stays_locked_is_given_up_after_two_heartbeats(leveret_broker: leveret.Broker) -> None:
    """It is somebody else's."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url, options="&nested.heartbeat=1") as (connection, channel, kinds),
            await connect(leveret_broker.amqp_url) as other,
        ):
            await channel.declare_queue("mine", exclusive=True)
            await proxy.refuse()
            await told(connection, "lost", proxy.cut)
            theirs = await other.channel()
            await theirs.declare_queue("mine", exclusive=True)
            reconnected = asyncio.ensure_future(told(connection, "reconnected", lambda: None))
            refused = await told(connection, "not restored", lambda: asyncio.ensure_future(proxy.listen()))
            assert isinstance(refused.problem, ResourceLocked)
            await reconnected
            assert kinds.count("not restored") == 1
            with pytest.raises(ResourceLocked):
                await channel.consume("mine")

    run(work)


def test_another_broker_means_what_it_says(leveret_broker: leveret.Broker) -> None:
    """It knows nothing of our last connection: nobody waits there."""

    async def work(first: leveret.Broker) -> None:
        async with (
            ChaosProxy(first.amqp_url) as proxy,
            failing_over(proxy.url, leveret_broker.amqp_url) as (connection, channel, kinds),
            await connect(leveret_broker.amqp_url) as other,
        ):
            await (await other.channel()).declare_queue("mine", exclusive=True)
            await channel.declare_queue("mine", exclusive=True)
            await proxy.refuse()
            await told(connection, "reconnected", proxy.cut)
            assert "not restored" in kinds
            assert kinds.count("attempt failed") == 1, "to the first broker"

    with leveret.Broker(replace(leveret.Broker().settings, node_name="another@machine")) as first:
        run(lambda: work(first))
