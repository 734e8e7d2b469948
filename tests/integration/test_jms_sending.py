"""Sends that are not waited for, and sends that are waited for so long and no longer, against a broker on a socket."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Nacked
from leveret.client.jms import AckMode, IllegalState, InvalidDestination, Queue, Sending, TextMessage
from leveret.client.jms.destinations import Queue as Place
from leveret.errors import LoginRefused
from tests.support.jms_harness import JmsHarness, play

Broker = leveret.Broker
AHEAD = "?jms.useAsyncSend=true"


@pytest.mark.feature("S3-05")
def test_async_sends_are_not_waited_for_and_all_arrive(leveret_broker: Broker) -> None:
    """Confirms are awaited beside; the close of the session waits for them."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        producer = await session.create_producer(Queue("q"))
        await producer.send(TextMessage("opens the channel"))
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        count()
        for number in range(50):
            await producer.send(TextMessage(str(number)))
        assert turns == 1  # nobody else had a turn: nothing was waited for
        assert session.outgoing._ahead
        await session.close()
        assert not session.outgoing._ahead
        assert await world.counts(await world.session()) == (51, 0)

    play(leveret_broker, scene, leveret_broker.amqp_url + AHEAD)


def test_the_exception_listener_hears_of_async_sends_that_failed(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        heard: list[Exception] = []
        world.connection.exception_listener = heard.append
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await world.channel.declare_queue("full", durable=True, arguments=full)  # type: ignore[arg-type]
        producer = await (await world.session()).create_producer()
        await producer.send(TextMessage("fits"), Queue("full"))
        await producer.send(TextMessage("does not"), Queue("full"))
        await world.until(lambda: len(heard) == 1)
        assert isinstance(heard[0], Nacked)
        await producer.send(TextMessage("an answer"), Place("nowhere", is_ours=False))
        await world.until(lambda: len(heard) == 2)
        assert isinstance(heard[1], InvalidDestination)

    play(leveret_broker, scene, sending=Sending(is_async=True))


def test_the_exception_listener_hears_of_async_sends_that_fail_as_the_connection_closes(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await world.channel.declare_queue("full", durable=True, arguments=full)  # type: ignore[arg-type]
        heard: list[Exception] = []
        async with await world.connection.factory.create_connection() as connection:
            connection.exception_listener = heard.append
            producer = await (await connection.create_session()).create_producer(Queue("full"))
            for text in ("fits", "does not", "nor this"):
                await producer.send(TextMessage(text))
        assert [type(problem) for problem in heard] == [Nacked, Nacked]

    play(leveret_broker, scene, sending=Sending(is_async=True))


def test_an_async_send_to_a_queue_that_was_deleted_makes_it_again(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        producer = await session.create_producer(Queue("q"))
        await producer.send(TextMessage("gone"))
        await world.until(lambda: not session.outgoing._ahead)
        await world.channel.delete_queue("q")
        await producer.send(TextMessage("kept"))
        await session.close()
        assert await world.counts(await world.session()) == (1, 0)

    play(leveret_broker, scene, sending=Sending(is_async=True))


@pytest.mark.feature("S1-07")
def test_a_transaction_sends_as_ever(leveret_broker: Broker) -> None:

    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.SESSION_TRANSACTED)
        await (await session.create_producer(Queue("q"))).send(TextMessage("a"))
        assert await world.counts(session) == (0, 0)
        await session.commit()
        assert await world.counts(session) == (1, 0)

    play(leveret_broker, scene, sending=Sending(is_async=True))


def test_a_send_that_is_not_confirmed_in_time_is_an_error(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        producer = await (await world.session()).create_producer(Queue("q"))
        await producer.send(TextMessage("in time"))
        channel = producer.outgoing._confirmed
        assert channel is not None
        channel._settle = lambda *_, **__: None  # type: ignore[method-assign]
        with pytest.raises(TimeoutError, match=r"not confirmed a message for 'q' within 0\.05 s"):
            await producer.send(TextMessage("late"))

    play(leveret_broker, scene, leveret_broker.amqp_url + "?jms.sendTimeout=50")


def test_producers_may_do_without_timestamps(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        await (await session.create_producer(Queue("q"))).send(TextMessage("a"))
        message = await (await session.create_consumer(Queue("q"))).receive()
        assert message is not None
        assert message.timestamp == 0

    play(leveret_broker, scene, leveret_broker.amqp_url + "?jms.disableTimeStampsByDefault=true")


def test_what_makes_no_sense_is_refused() -> None:
    for terms in ({"timeout": 0.0}, {"timeout": 1.0, "is_async": True}):
        with pytest.raises(IllegalState, match="timeout"):
            Sending(**terms)  # type: ignore[arg-type]


@pytest.mark.feature("S3-08", "S4-63")
def test_a_login_beside_several_brokers(leveret_broker: Broker) -> None:
    """As ActiveMQ's users give it, to the factory or with each connection."""

    async def scene(world: JmsHarness) -> None:
        assert world.connection.client.address.user == "guest"

    plain = leveret_broker.amqp_url.replace(f"guest:{leveret_broker.password}@", "")
    uri = f"failover:({plain})?maxReconnectAttempts=1"
    play(leveret_broker, scene, f"{uri}&jms.userName=guest&jms.password={leveret_broker.password}")
    with pytest.raises(LoginRefused):
        play(leveret_broker, scene, uri, user="guest", password="wrong")
