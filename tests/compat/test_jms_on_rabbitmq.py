"""leveret.client.jms against RabbitMQ, beside Leveret: what the broker does not do, the client does, or says so.

Length: one scene after the other, each on both brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from leveret.client import Channel
from leveret.client.jms import (
    AckMode,
    Connection,
    ConnectionFactory,
    InvalidSelector,
    Layout,
    Message,
    MessageConsumer,
    Queue,
    RedeliveryPolicy,
    Topic,
    Unsupported,
    blocking,
)
from leveret.client.jms.messages import MapMessage, TextMessage
from tests.support.chaos_proxy import ChaosProxy

SECONDS = 20.0


class World:
    """A started connection, a channel beside it, and names that nobody else has."""

    def __init__(self, connection: Connection, channel: Channel, name: str) -> None:
        self.connection = connection
        self.channel = channel
        self.queue = Queue(name)
        self.topic = Topic(name)

    async def send(self, *texts: str, to: Queue | Topic | None = None, **properties: Any) -> None:
        session = await self.connection.create_session()
        producer = await session.create_producer(to or self.queue)
        for text in texts:
            message = session.create_text_message(text)
            message.properties.update(properties)
            await producer.send(message)
        await session.close()

    async def left(self) -> list[str]:
        """What is in the queue, which is empty then."""
        found = []
        while (fetched := await self.channel.get(self.queue.name, no_ack=True)) is not None:
            found.append(fetched.body.decode())
        return found


Scene = Callable[[World], Awaitable[None]]


@pytest.fixture
def name(url: str) -> Iterator[str]:
    """Of a queue that is gone afterwards."""
    name = f"of.a.test.{uuid4().hex}"
    yield name

    async def clear(world: World) -> None:
        await world.channel.delete_queue(name)

    play(url, name, clear)


def play(url: str, name: str, scene: Scene, **options: Any) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(SECONDS),
            await ConnectionFactory(url, client_id=name, **options).create_connection() as connection,
        ):
            await connection.start()
            await scene(World(connection, await connection.client.channel(), name))

    asyncio.run(run())


def text_of(message: Message | None) -> str:
    assert isinstance(message, TextMessage)
    return message.text


async def texts(consumer: MessageConsumer, count: int) -> list[str]:
    return [text_of(await consumer.receive()) for _ in range(count)]


# ---- acknowledging


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.DUPS_OK, AckMode.CLIENT, AckMode.INDIVIDUAL])
@pytest.mark.feature("S1-08", "S1-10")
def test_modes_of_acknowledging(url: str, name: str, mode: AckMode) -> None:
    """.S1-10: what is not acknowledged is back in its queue when the session is closed."""

    async def scene(world: World) -> None:
        await world.send("1", "2", "3")
        session = await world.connection.create_session(mode)
        consumer = await session.create_consumer(world.queue)
        first, second = await consumer.receive(), await consumer.receive()
        assert (text_of(first), text_of(second)) == ("1", "2")
        if mode is AckMode.INDIVIDUAL:
            assert second is not None
            second.acknowledge()
        await session.close()
        seen = {AckMode.CLIENT: ["1", "2", "3"], AckMode.INDIVIDUAL: ["1", "3"]}
        assert await world.left() == seen.get(mode, ["3"])

    play(url, name, scene)


@pytest.mark.feature("S1-09", "S1-19")
def test_acknowledge_is_for_all_that_came(url: str, name: str) -> None:
    """Recover() brings what was not acknowledged again, in its order and marked."""

    async def scene(world: World) -> None:
        await world.send("1", "2", "3", "4")
        session = await world.connection.create_session(AckMode.CLIENT)
        consumer = await session.create_consumer(world.queue)
        assert await texts(consumer, 1) == ["1"]
        second = await consumer.receive()
        assert second is not None
        second.acknowledge()
        assert await texts(consumer, 2) == ["3", "4"]
        await session.recover()
        again = await consumer.receive()
        assert again is not None
        assert (text_of(again), again.redelivered) == ("3", True)
        assert await texts(consumer, 1) == ["4"]
        await session.close()
        assert await world.left() == ["3", "4"]

    play(url, name, scene, redelivery=RedeliveryPolicy(initial_delay=0))


@pytest.mark.feature("S1-07", "S3-16")
def test_a_transaction_is_committed_or_rolled_back(url: str, name: str) -> None:
    """What was sent and what was received in it, together."""

    async def scene(world: World) -> None:
        await world.send("in")
        session = await world.connection.create_session(AckMode.SESSION_TRANSACTED)
        consumer, producer = await session.create_consumer(world.queue), await session.create_producer(world.queue)
        assert await texts(consumer, 1) == ["in"]
        await producer.send(session.create_text_message("never"))
        await session.rollback()
        again = await consumer.receive()
        assert again is not None
        assert (text_of(again), again.redelivered) == ("in", True)
        await producer.send(session.create_text_message("out"))
        await session.commit()
        assert await texts(consumer, 1) == ["out"]
        await session.close()  # without a commit
        assert await world.left() == ["out"]

    play(url, name, scene, redelivery=RedeliveryPolicy(initial_delay=0))


@pytest.mark.feature("S3-21")
def test_a_listener_that_fails_gets_it_again_and_then_the_dead_letters_do(url: str, name: str) -> None:
    """Counted by the client; the queue's dead letter exchange takes what is poisonous."""

    async def scene(world: World) -> None:
        dead = (await world.channel.declare_queue(exclusive=True)).queue
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        await world.channel.declare_queue(name, durable=True, arguments=arguments)
        counts: list[int] = []

        def fail(message: Message) -> None:
            counts.append(message.delivery_count)
            raise ValueError("the test's own")

        session = await world.connection.create_session()
        poisoned = asyncio.Event()
        session.ack_listeners.append(lambda event: poisoned.set() if event.type.name == "POISON" else None)
        await session.create_consumer(world.queue, listener=fail)
        await world.send("poison")
        await poisoned.wait()
        assert counts == [1, 2, 3]
        letters = await world.channel.consume(dead)
        delivery = await letters.next()
        assert delivery is not None
        assert delivery.body == b"poison"

    play(url, name, scene, redelivery=RedeliveryPolicy(initial_delay=0, maximum_redeliveries=2))


# ---- selectors and topics


@pytest.mark.feature("S1-28")
def test_selectors_on_queues_are_leverets(rabbitmq_url: str) -> None:
    """RabbitMQ would hand over everything: the client says so at once."""

    async def scene(world: World) -> None:
        session = await world.connection.create_session()
        with pytest.raises(InvalidSelector):
            await session.create_consumer(world.queue, "colour = 'red'")
        with pytest.raises(Unsupported):
            await (await session.create_producer(world.queue)).send(session.create_text_message(""), delivery_delay=1)

    play(rabbitmq_url, uuid4().hex, scene)


def test_selectors_on_topics(url: str) -> None:
    """At RabbitMQ the client looks, and what does not match leaves the subscription."""

    async def scene(world: World) -> None:
        session = await world.connection.create_session()
        red = await session.create_consumer(world.topic, "colour = 'red'")
        everything = await session.create_consumer(world.topic)
        for colour in ("blue", "red", "green", "red"):
            await world.send(colour, to=world.topic, colour=colour)
        assert await texts(red, 2) == ["red", "red"]
        assert await texts(everything, 4) == ["blue", "red", "green", "red"]
        assert await red.receive_no_wait() is None

    play(url, uuid4().hex, scene)


def test_a_durable_subscription_stores_while_its_consumer_is_away(url: str) -> None:
    async def scene(world: World) -> None:
        session = await world.connection.create_session()
        for expected in (["1"], ["2", "3"]):
            subscriber = await session.create_durable_subscriber(world.topic, "audit")
            if expected == ["1"]:
                await world.send("1", to=world.topic)
            assert await texts(subscriber, len(expected)) == expected
            await subscriber.close()
            await world.send("2", "3", to=world.topic)
        other = Topic(f"{world.topic.name}.other")
        moved = await session.create_durable_subscriber(other, "audit")  # begins anew
        await world.send("of the old topic", to=world.topic)
        await world.send("4", to=other)
        assert await texts(moved, 1) == ["4"]
        await moved.close()
        await session.unsubscribe("audit")

    play(url, uuid4().hex, scene)


def test_no_local_and_wildcards(url: str) -> None:
    async def scene(world: World) -> None:
        session = await world.connection.create_session()
        consumer = await session.create_consumer(Topic(f"{world.topic.name}.>"), no_local=True)
        await world.send("ours", to=Topic(f"{world.topic.name}.a.b"))
        await world.channel.confirm_select()
        await world.channel.publish(b"theirs", "amq.topic", f"{world.topic.name}.a")
        message = await consumer.receive()
        assert message is not None
        assert message.delivery is not None
        assert message.delivery.body == b"theirs"

    play(url, uuid4().hex, scene)


# ---- temporary destinations, requests, browsing


def test_temporary_queues_and_requests(url: str, name: str) -> None:
    async def scene(world: World) -> None:
        session, service = await world.connection.create_session(), await world.connection.create_session()
        temporary = await session.create_temporary_queue()
        consumer = await session.create_consumer(temporary)
        await world.send("to the temporary one", to=temporary)
        assert await texts(consumer, 1) == ["to the temporary one"]
        await consumer.close()
        await temporary.delete()
        answering = await service.create_producer()

        async def answer(request: Message) -> None:
            assert isinstance(request, MapMessage)
            reply = service.create_map_message({"twice": 2 * int(str(request["number"]))})
            reply.correlation_id = request.correlation_id
            await answering.send(reply, request.reply_to)

        await service.create_consumer(world.queue, listener=answer)
        async with await session.create_requestor(world.queue) as requestor:
            asked = (requestor.request(session.create_map_message({"number": number}), 10) for number in range(20))
            answers = await asyncio.gather(*asked)
        assert [each["twice"] for each in answers if isinstance(each, MapMessage)] == [2 * n for n in range(20)]

    play(url, name, scene)


def test_browsing_leaves_everything_in_its_place(url: str, name: str) -> None:
    async def scene(world: World) -> None:
        await world.send("1", "2", "3", number=1)
        session = await world.connection.create_session()
        async with await session.create_browser(world.queue) as browser:
            assert [text_of(message) async for message in browser] == ["1", "2", "3"]
        async with await session.create_browser(world.queue, "number = 2") as browser:
            assert [message async for message in browser] == []
        assert await world.left() == ["1", "2", "3"]

    play(url, name, scene)


# ---- pull


@pytest.mark.feature("S3-19", "S3-20")
def test_pull_takes_one_message_per_request(url: str, name: str) -> None:
    """Nothing piles up in the client, nothing is lost, and nobody stays subscribed."""

    async def scene(world: World) -> None:
        session = await world.connection.create_session(AckMode.CLIENT)
        consumer = await session.create_consumer(world.queue, prefetch=0)
        for number in range(10):
            asked = asyncio.ensure_future(consumer.receive())
            await consumers_are(world, 1)  # it waits at the broker
            await world.send(f"{number}", f"{number} behind", f"{number} far behind")
            assert text_of(await asked) == f"{number}"
            assert await texts(consumer, 1) == [f"{number} behind"]
            await consumers_are(world, 0)
            other = await world.connection.create_session()
            helping = await other.create_consumer(world.queue, prefetch=0)
            assert text_of(await helping.receive_no_wait()) == f"{number} far behind"
            await other.close()
            assert await consumer.receive_no_wait() is None
            assert len(consumer.unconsumed) == 0
        await session.close()
        came = [f"{number}{where}" for number in range(10) for where in ("", " behind")]
        assert await world.left() == came  # none was acknowledged

    play(url, name, scene)


@pytest.mark.feature("S1-04")
def test_a_pull_that_is_given_up_loses_nothing(url: str, name: str) -> None:
    """Time is over, or the task is cancelled, at any moment: the message is in the queue, or received."""

    async def scene(world: World) -> None:
        session = await world.connection.create_session()
        consumer = await session.create_consumer(world.queue, prefetch=0)
        got: list[str] = []
        for number in range(20):
            asked = asyncio.ensure_future(consumer.receive(0.002 * (number % 5) if number % 2 else None))
            await asyncio.sleep(0)
            await world.send(f"{number}")
            if number % 2 == 0:
                asked.cancel()
            done, _ = await asyncio.wait([asked])
            got += [text_of(each.result()) for each in done if not each.cancelled() and each.result() is not None]
        while (message := await consumer.receive(0.5)) is not None:
            got.append(text_of(message))
        await session.close()
        assert sorted(got, key=int) == [f"{number}" for number in range(20)]
        assert await world.left() == []

    play(url, name, scene)


async def consumers_are(world: World, count: int) -> None:
    while (await world.channel.declare_queue(world.queue.name, passive=True)).consumer_count != count:
        pass


# ---- over failover, and in threads


@pytest.mark.feature("S3-08")
def test_sessions_outlive_cuts(url: str, name: str) -> None:
    """Each message once, also where the queue takes twice what is sent twice."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS), ChaosProxy(url, cut_plan=[9_000] * 8) as proxy:
            factory = ConnectionFactory(f"failover:({proxy.url})?initialReconnectDelay=1&maxReconnectDelay=50")
            async with await factory.create_connection() as connection:
                await connection.start()
                session, sending = await connection.create_session(), await connection.create_session()
                consumer = await session.create_consumer(Queue(name), prefetch=20)
                receiver = asyncio.ensure_future(texts(consumer, 100))
                producer = await sending.create_producer(Queue(name))
                for number in range(100):
                    await producer.send(sending.create_text_message(f"{number}"))
                assert sorted(await receiver, key=int) == [f"{number}" for number in range(100)]
                assert await consumer.receive(0.05) is None
                assert proxy.cuts >= 3

    asyncio.run(story())


def test_the_blocking_face(url: str, name: str) -> None:
    with blocking.ConnectionFactory(url, layout=Layout()).create_connection() as connection:
        connection.start()
        session: Any = connection.create_session(AckMode.SESSION_TRANSACTED)
        session.create_producer(Queue(name)).send(session.create_text_message("hello"))
        session.commit()
        consumer = session.create_consumer(Queue(name), prefetch=0)
        assert text_of(consumer.receive(10)) == "hello"
        session.commit()
        assert consumer.receive_no_wait() is None
        session.close()
