"""JMS sessions whose connection is cut and comes back: what they held, and what becomes of their transactions."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Properties
from leveret.client.errors import TransactionRolledBack
from leveret.client.jms import AckMode, Message, Queue, RedeliveryPolicy
from tests.support.jms_world import JmsWorld, play

Broker = leveret.Broker
AT_ONCE = RedeliveryPolicy(initial_delay=0)
TRANSACTED = AckMode.SESSION_TRANSACTED


def failover(broker: Broker) -> str:
    return f"failover:({broker.amqp_url})?initialReconnectDelay=1"


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
def test_s3_08_what_waited_in_the_client_comes_once_after_a_cut(leveret_broker: Broker, ids: bool) -> None:
    """S3-08: known by their ids, or forgotten by the client and delivered again."""

    async def scene(world: JmsWorld) -> None:
        await world.channel.declare_queue("q", durable=True)
        for name in "abcd":
            leveret_broker.vhost().publish("", "q", name.encode(), Properties(message_id=name if ids else None))
        consumer = await world.consumer(AckMode.AUTO)
        assert await world.bodies(consumer, 1) == [b"a"]
        await world.counts(consumer.session)
        await world.cut()
        assert sorted(await world.bodies(consumer, 3)) == [b"b", b"c", b"d"]
        assert await world.counts(consumer.session) == (0, 0)
        assert await consumer.receive_no_wait() is None

    play(leveret_broker, scene, failover(leveret_broker))


def test_s3_08_a_pull_that_waits_goes_on_after_a_cut(leveret_broker: Broker) -> None:
    async def scene(world: JmsWorld) -> None:
        consumer = await world.consumer(prefetch=0)
        asked = asyncio.ensure_future(consumer.receive())
        while (await world.channel.declare_queue("q", passive=True)).consumer_count != 1:
            pass
        await world.cut()
        await world.put("a")
        message = await asked
        assert message is not None
        assert message.delivery is not None
        assert message.delivery.body == b"a"

    play(leveret_broker, scene, failover(leveret_broker))


def test_s3_08_a_listener_goes_on_after_a_cut(leveret_broker: Broker) -> None:
    async def scene(world: JmsWorld) -> None:
        got: list[object] = []

        def listen(message: Message) -> None:
            got.append(message.body)

        session = await world.session()
        producer = await session.create_producer(Queue("q"))
        await session.create_consumer(Queue("q"), listener=listen)
        for number in range(30):
            await producer.send(session.create_text_message(str(number)))
            if number % 10 == 5:
                await world.cut()
        await world.until(lambda: len(got) >= 30)
        assert sorted(map(str, got), key=int) == [str(number) for number in range(30)]

    play(leveret_broker, scene, failover(leveret_broker))


@pytest.mark.parametrize("ends_with", ["commit", "rollback"])
def test_a_transaction_that_was_cut_is_rolled_back_as_a_whole(leveret_broker: Broker, ends_with: str) -> None:
    """S1-18, S3-08: its messages come again, its sends are forgotten, and the next transaction is sound."""

    async def scene(world: JmsWorld) -> None:
        await world.put("a", "b", "c")
        consumer = await world.consumer(TRANSACTED, prefetch=2)
        session = consumer.session
        producer = await session.create_producer(Queue("out"))
        assert await world.bodies(consumer, 1) == [b"a"]
        await producer.send(session.create_text_message("before"))
        await world.cut()
        await producer.send(session.create_text_message("after"))
        if ends_with == "commit":
            with pytest.raises(TransactionRolledBack):
                await session.commit()
        else:
            await session.rollback()
        assert await world.bodies(consumer, 3) == [b"a", b"b", b"c"]
        await producer.send(session.create_text_message("at last"))
        await session.commit()
        assert await world.counts(session) == (0, 0)
        assert await world.counts(session, "out") == (1, 0)
        fetched = await world.channel.get("out", no_ack=True)
        assert fetched is not None
        assert fetched.body == b"at last"

    play(leveret_broker, scene, failover(leveret_broker), redelivery=AT_ONCE)


def test_what_came_after_the_cut_is_not_lost_with_the_transaction(leveret_broker: Broker) -> None:
    """S1-18: messages of both lives in one transaction."""

    async def scene(world: JmsWorld) -> None:
        await world.put("a", "b")
        consumer = await world.consumer(TRANSACTED)
        assert await world.bodies(consumer, 1) == [b"a"]
        await world.cut()
        assert await world.bodies(consumer, 2) == [b"a", b"b"]
        with pytest.raises(TransactionRolledBack):
            await consumer.session.commit()
        assert await world.bodies(consumer, 2) == [b"a", b"b"]
        await consumer.session.commit()
        assert await world.counts(consumer.session) == (0, 0)

    play(leveret_broker, scene, failover(leveret_broker), redelivery=AT_ONCE)


def test_what_was_received_after_the_sends_were_lost_comes_again(leveret_broker: Broker) -> None:
    """S1-18: the sends of the transaction went with the connection; the messages are of the new one."""

    async def scene(world: JmsWorld) -> None:
        session = await world.session(TRANSACTED)
        producer = await session.create_producer(Queue("out"))
        await producer.send(session.create_text_message("lost"))
        await world.cut()
        await world.put("a", "b")
        consumer = await session.create_consumer(Queue("q"))
        assert await world.bodies(consumer, 1) == [b"a"]
        with pytest.raises(TransactionRolledBack):
            await session.commit()
        assert await world.bodies(consumer, 2) == [b"a", b"b"]
        await session.commit()
        assert await world.counts(session) == (0, 0)
        assert await world.counts(session, "out") == (0, 0)

    play(leveret_broker, scene, failover(leveret_broker), redelivery=AT_ONCE)
