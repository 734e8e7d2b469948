"""What is refused, and what goes wrong in the application's own code, harms nobody else on the session."""

from __future__ import annotations

import asyncio
import logging

import pytest

import leveret
from leveret.client.jms import (
    AckMode,
    ConnectionFactory,
    IllegalState,
    InvalidDestination,
    Message,
    MessageConsumer,
    Queue,
    TextMessage,
    Topic,
)
from leveret.errors import NotFound
from tests.support.jms_harness import JmsHarness, play

Broker = leveret.Broker


async def still_works(world: JmsHarness, consumer: MessageConsumer) -> None:
    """It has its session, and the message that it holds."""
    await world.put("still")
    assert await world.bodies(consumer, 1) == [b"still"]
    consumer.session.acknowledge()
    assert await world.counts(consumer.session) == (0, 0)


def test_a_durable_subscription_in_use_is_refused_and_the_session_lives(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await (await world.session()).create_durable_subscriber(Topic("t"), "s")
        consumer = await world.consumer(AckMode.CLIENT)
        with pytest.raises(IllegalState, match="'subscription:me:s' already has a consumer, and allows only one"):
            await consumer.session.create_durable_subscriber(Topic("t"), "s")
        await still_works(world, consumer)

    play(leveret_broker, scene, client_id="me")


@pytest.mark.feature("S3-19")
def test_a_durable_subscription_that_is_pulled_from_is_in_use_too(leveret_broker: Broker) -> None:
    """The broker sees no consumer between two receives; the connection does."""

    async def scene(world: JmsHarness) -> None:
        session, other = await world.session(), await world.session()
        pulls = await session.create_consumer(Topic("t"), subscription="s", prefetch=0)
        for topic in ("t", "another"):
            with pytest.raises(IllegalState, match="'subscription:me:s' already has a consumer, and allows only one"):
                await other.create_consumer(Topic(topic), subscription="s", prefetch=0)
        with pytest.raises(IllegalState, match="'s' of client 'me' has a consumer: close it"):
            await other.unsubscribe("s")
        await pulls.close()
        pulls = await other.create_consumer(Topic("t"), subscription="s", prefetch=0)
        await other.close()
        again = await session.create_durable_subscriber(Topic("t"), "s")
        with pytest.raises(NotFound):  # which ends the session
            await session.channel.declare_queue("nowhere", passive=True)
        assert again.problem is not None
        other = await world.session()
        await (await other.create_durable_subscriber(Topic("t"), "s")).close()
        await other.unsubscribe("s")

    play(leveret_broker, scene, client_id="me")


def test_a_subscription_that_could_not_be_made_is_not_in_use(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        async with await ConnectionFactory(leveret_broker.amqp_url, client_id="me").create_connection() as elsewhere:
            await (await elsewhere.create_session()).create_durable_subscriber(Topic("t"), "s")
            for topic in ("t", "another"):
                with pytest.raises(IllegalState, match="has a consumer"):
                    await session.create_durable_subscriber(Topic(topic), "s")
        await session.create_durable_subscriber(Topic("t"), "s")

    play(leveret_broker, scene, client_id="me")


@pytest.mark.feature("S3-19")
def test_an_exclusive_pull_is_refused(leveret_broker: Broker) -> None:
    """It is no consumer between two receives, so others could be served then."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        with pytest.raises(IllegalState, match=r"consumer\.exclusive of 'q' needs a prefetch of at least 1"):
            await session.create_consumer(Queue("q?consumer.exclusive=true&consumer.prefetchSize=0"))

    play(leveret_broker, scene)


def test_a_queue_of_another_connection_is_refused_and_the_session_lives(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        consumer = await world.consumer(AckMode.CLIENT)
        async with await ConnectionFactory(leveret_broker.amqp_url).create_connection() as other:
            theirs = await (await other.create_session()).create_temporary_queue()
            with pytest.raises(InvalidDestination, match="belongs to another connection"):
                await consumer.session.create_consumer(Queue(theirs.name))
        await still_works(world, consumer)

    play(leveret_broker, scene)


def test_a_temporary_queue_is_not_deleted_under_its_consumer(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        queue = await session.create_temporary_queue()
        consumer = await session.create_consumer(queue)
        with pytest.raises(IllegalState, match="has a consumer: close it"):
            await queue.delete()
        await (await session.create_producer(queue)).send(TextMessage("still there"))
        assert await world.bodies(consumer, 1) == [b"still there"]
        await consumer.close()
        await queue.delete()
        with pytest.raises(InvalidDestination, match="was deleted"):
            await session.create_consumer(queue)

    play(leveret_broker, scene)


@pytest.mark.parametrize("name", ["q", "q?consumer.noLocal=true"])
def test_no_local_is_for_topics(leveret_broker: Broker, name: str) -> None:
    async def scene(world: JmsHarness) -> None:
        with pytest.raises(InvalidDestination, match="noLocal needs a topic"):
            await (await world.session()).create_consumer(Queue(name), no_local="?" not in name)

    play(leveret_broker, scene)


def test_a_long_name_of_a_subscription_is_refused_by_name(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        with pytest.raises(InvalidDestination, match="1 to 255 bytes"):
            await (await world.session()).create_durable_subscriber(Topic("t"), "s" * 250)

    play(leveret_broker, scene, client_id="me")


@pytest.mark.feature("S1-07", "S1-09")
def test_a_mode_may_be_a_plain_number(leveret_broker: Broker) -> None:
    """As ActiveMQ's users write them."""

    async def scene(world: JmsHarness) -> None:
        session = await world.connection.create_session(0)  # type: ignore[arg-type]
        await (await session.create_producer(Queue("q"))).send(TextMessage("a"))
        await session.commit()
        assert await world.counts(session) == (1, 0)
        assert (await world.connection.create_session(2)).ack_mode is AckMode.CLIENT  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="9 is not a valid AckMode"):
            await world.connection.create_session(9)  # type: ignore[arg-type]

    play(leveret_broker, scene)


@pytest.mark.feature("S1-06", "S1-08")
def test_a_listener_to_acks_that_raises_stops_nothing(leveret_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:

    async def scene(world: JmsHarness) -> None:
        caplog.set_level(logging.CRITICAL, "leveret.client.jms")
        got: list[object] = []
        session = await world.session()
        session.ack_listeners.insert(0, lambda _: 1 // 0)  # type: ignore[arg-type]
        await world.put("a", "b")
        await session.create_consumer(Queue("q"), listener=lambda message: got.append(message.body))
        await world.until(lambda: world.acks == [("STANDARD", [b"a"]), ("STANDARD", [b"b"])])
        assert await world.counts(session) == (0, 0)

    play(leveret_broker, scene)


@pytest.mark.feature("S3-09")
def test_an_exception_listener_that_raises_keeps_the_news_from_nobody(
    leveret_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:

    async def scene(world: JmsHarness) -> None:
        caplog.set_level(logging.CRITICAL, "leveret.client.jms")
        told: list[str] = []
        world.connection.exception_listener = lambda _: 1 // 0  # type: ignore[assignment]
        world.connection.client.listeners.append(lambda happening: told.append(happening.kind))
        world.connection.client._transport.abort()  # type: ignore[union-attr]
        async with asyncio.timeout(60):
            while told != ["lost"]:
                await asyncio.sleep(0)

    play(leveret_broker, scene)


@pytest.mark.feature("S1-08", "S3-14")
def test_a_consumer_that_its_listener_closes_is_forgotten(leveret_broker: Broker) -> None:
    """Its message is acked as the listener returns; what was behind it goes back."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()

        async def listen(message: Message) -> None:
            await consumer.close()

        await world.put("a", "b")
        consumer = await session.create_consumer(Queue("q"))
        consumer.listener = listen
        await world.until(lambda: world.acks == [("STANDARD", [b"a"])])
        assert await world.counts(session) == (1, 0)
        assert session._consumers == []

    play(leveret_broker, scene)


@pytest.mark.parametrize("reply_to", ["topic://", "queue://"])
@pytest.mark.feature("S3-21")
def test_a_place_for_answers_without_a_name_is_none(leveret_broker: Broker, reply_to: str) -> None:
    """Whatever another client has written there, the listener gets the message and those behind it."""

    async def scene(world: JmsHarness) -> None:
        got: list[tuple[object, object]] = []
        await world.consumer(listener=lambda message: got.append((message.body, message.reply_to)))
        await world.put("a", reply_to=reply_to, content_type="text/plain")
        await world.put("b", reply_to="q", content_type="text/plain")
        await world.until(lambda: len(got) == 2)
        assert got == [("a", None), ("b", Queue("q"))]

    play(leveret_broker, scene)
