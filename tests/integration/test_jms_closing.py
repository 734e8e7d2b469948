"""A close that is given up half way, since a listener takes long, can be called again and finishes its work."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client.jms import AckMode, IllegalState, Layout, Message, Queue, TextMessage, Topic, blocking
from tests.support.jms_harness import JmsHarness, play


@pytest.mark.parametrize("what", ["consumer", "session"])
@pytest.mark.feature("S3-17")
def test_a_close_that_was_given_up_is_finished_by_the_next(leveret_broker: leveret.Broker, what: str) -> None:
    """Then everything is back in the queue, and nobody is subscribed."""

    async def scene(world: JmsHarness) -> None:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def listen(message: Message) -> None:
            entered.set()
            await leave.wait()

        await world.put(*"abc")
        session = await world.session(AckMode.AUTO)
        consumer = await session.create_consumer(Queue("q"), listener=listen)
        await entered.wait()
        end = consumer.close if what == "consumer" else session.close
        closing = asyncio.ensure_future(end())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        leave.set()
        await world.until(lambda: world.acks == [("STANDARD", [b"a"])])
        await end()
        await world.subscribed(0)
        other = await world.consumer()
        assert await world.bodies(other, 2) == [b"b", b"c"]

    play(leveret_broker, scene)


@pytest.mark.feature("S1-10")
def test_a_lazy_session_says_what_it_owes_as_its_connection_closes(leveret_broker: leveret.Broker) -> None:
    """What the application had does not come again; what it had not does, in its order."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcd")
        async with await world.connection.factory.create_connection() as lazy:
            await lazy.start()
            consumer = await (await lazy.create_session(AckMode.DUPS_OK)).create_consumer(Queue("q"))
            await world.bodies(consumer, 2)
        other = await world.consumer()
        assert await world.bodies(other, 2) == [b"c", b"d"]

    play(leveret_broker, scene)


def test_a_session_keeps_nothing_of_what_was_closed(leveret_broker: leveret.Broker) -> None:
    """A session that lives for months and looks into a queue now and then does not grow."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        for _ in range(5):
            async with await session.create_browser(Queue("q")), await session.create_requestor(Queue("q")):
                pass
        assert len(session._with_channels) <= 2
        assert len(world.connection.client.listeners) == 1

    play(leveret_broker, scene)


def test_a_connection_does_not_remember_each_topic_that_it_sent_to(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        producer = await (await world.session()).create_producer()
        for number in range(20):
            await producer.send(TextMessage("x"), Topic(f"users.{number}"))
        assert len(world.connection.registrar._ready) <= 1

    play(leveret_broker, scene, layout=Layout(topic_exchange="news"))


@pytest.mark.feature("S1-02")
def test_a_consumer_that_cannot_have_its_listener_is_closed(leveret_broker: leveret.Broker) -> None:
    """A pull is for receive()."""
    with blocking.ConnectionFactory(leveret_broker.amqp_url).create_connection() as connection:
        session = connection.create_session()
        with pytest.raises(IllegalState, match="prefetch 0"):
            session.create_consumer(Topic("t"), prefetch=0, listener=print)
        assert session.core._consumers == []
