"""Pushed ahead of the application, or pulled one by one: against a broker on a socket."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client.jms import AckMode, IllegalState, Queue
from tests.support.jms_harness import JmsHarness, body_of, play

Broker = leveret.Broker


@pytest.mark.feature("S3-18")
def test_at_most_the_prefetch_is_pushed_ahead(leveret_broker: Broker) -> None:
    """1000 unless told otherwise; more come only after acks."""

    async def scene(world: JmsHarness) -> None:
        await world.channel.declare_queue("q", durable=True)
        for number in range(1005):
            world.channel.send(b"%d" % number, "", "q")
        usual = await world.consumer()
        await world.until(lambda: len(usual.unconsumed) == 1000)
        assert await world.counts(usual.session) == (5, 1000)
        await world.bodies(usual, 2)
        assert await world.counts(usual.session) == (3, 1000)

    play(leveret_broker, scene)


def test_prefetch_is_chosen_by_call_destination_or_factory(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        assert (await session.create_consumer(Queue("q"))).prefetch == 7
        named = Queue("q?consumer.prefetchSize=3")
        assert (await session.create_consumer(named)).prefetch == 3
        assert (await session.create_consumer(named, prefetch=0)).prefetch == 0
        with pytest.raises(IllegalState, match="prefetch 0"):
            await session.create_consumer(named, prefetch=0, listener=print)

    play(leveret_broker, scene, prefetch=7)


@pytest.mark.feature("S1-05", "S3-19", "S3-20")
def test_pull_takes_one_message_per_request(leveret_broker: Broker) -> None:
    """Nothing waits in the client, so who comes later finds the whole backlog."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcd")
        first = await world.consumer(AckMode.CLIENT, prefetch=0)
        assert await world.counts(first.session) == (4, 0)
        assert await world.bodies(first, 1) == [b"a"]
        assert await world.counts(first.session) == (3, 1)
        second = await world.consumer(prefetch=0)
        assert body_of(await second.receive_no_wait()) == b"b"
        assert await world.bodies(first, 1) == [b"c"]
        assert await world.bodies(second, 1) == [b"d"]
        assert await second.receive_no_wait() is None

    play(leveret_broker, scene)


@pytest.mark.feature("S1-05")
def test_pull_waits_at_the_broker_when_the_queue_is_empty(leveret_broker: Broker) -> None:
    """One message answers the request; what follows it stays in the queue. Nobody polls."""

    async def scene(world: JmsHarness) -> None:
        consumer = await world.consumer(prefetch=0)
        asked = asyncio.ensure_future(consumer.receive())
        await world.subscribed()
        await world.put("a", "b")
        assert body_of(await asked) == b"a"
        assert await world.counts(consumer.session) == (1, 0)
        assert (await world.channel.declare_queue("q", passive=True)).consumer_count == 0

    play(leveret_broker, scene)


@pytest.mark.parametrize("is_leveret", [True, False], ids=["x-pull-one", "qos 1 and cancel"])
@pytest.mark.feature("S3-19")
def test_pull_works_without_the_brokers_help_too(leveret_broker: Broker, is_leveret: bool) -> None:
    """Against a broker that does not know x-pull-one the consumer is cancelled after its message."""

    async def scene(world: JmsHarness) -> None:
        world.connection.registrar.is_leveret = is_leveret
        consumer = await world.consumer(AckMode.CLIENT, prefetch=0)
        for name in ("a", "b"):
            asked = asyncio.ensure_future(consumer.receive())
            await world.subscribed()
            await world.put(name, f"{name} behind")
            assert body_of(await asked) == name.encode()
            assert await world.bodies(consumer, 1) == [f"{name} behind".encode()]
            await world.subscribed(0)

    play(leveret_broker, scene)


def test_a_pull_that_is_given_up_is_taken_back(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        consumer = await world.consumer(prefetch=0)
        asked = asyncio.ensure_future(consumer.receive())
        await world.subscribed()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await world.subscribed(0)
        await world.put("a")
        assert await world.counts(consumer.session) == (1, 0)
        assert await world.bodies(consumer, 1) == [b"a"]

    play(leveret_broker, scene)


@pytest.mark.feature("S1-28")
def test_a_selector_chooses_from_a_queue(leveret_broker: Broker) -> None:
    """Pushed and pulled; what is not wanted stays for others."""

    async def scene(world: JmsHarness) -> None:
        for colour in ("red", "blue", "red"):
            await world.put(colour, headers={"colour": colour})
        pushed = await world.consumer(selector="colour = 'blue'")
        assert await world.bodies(pushed, 1) == [b"blue"]
        pulled = await world.consumer(selector="colour = 'red'", prefetch=0)
        assert body_of(await pulled.receive_no_wait()) == b"red"
        assert await world.bodies(pulled, 1) == [b"red"]
        assert await pulled.receive_no_wait() is None

    play(leveret_broker, scene)
