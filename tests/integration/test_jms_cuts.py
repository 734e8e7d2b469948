"""JMS sessions whose connection is cut and comes back: what they held, and what becomes of their transactions."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

import leveret
from leveret.client import Properties
from leveret.client.errors import Cancelled, TransactionRolledBack
from leveret.client.jms import AckMode, Message, Queue, RedeliveryPolicy
from tests.support.jms_harness import JmsHarness, body_of, play

Broker = leveret.Broker
AT_ONCE = RedeliveryPolicy(initial_delay=0)
TRANSACTED = AckMode.SESSION_TRANSACTED


def failover(broker: Broker) -> str:
    return f"failover:({broker.amqp_url})?initialReconnectDelay=1"


@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
@pytest.mark.feature("S3-08")
def test_what_waited_in_the_client_comes_once_after_a_cut(leveret_broker: Broker, ids: bool) -> None:
    """Known by their ids, or forgotten by the client and delivered again."""

    async def scene(world: JmsHarness) -> None:
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


@pytest.mark.parametrize("looks", [True, False], ids=["asked meanwhile", "asked later"])
@pytest.mark.feature("S3-08")
def test_what_a_connection_brought_that_fell_at_once_comes_once(leveret_broker: Broker, looks: bool) -> None:
    """It was lost again while the other channels were opened; nobody was told that it had been there."""

    async def scene(world: JmsHarness) -> None:
        await world.put("a")
        consumer = await world.consumer(AckMode.CLIENT)
        await world.until(lambda: bool(consumer.unconsumed))
        client, last = cast(Any, world.connection.client), cast(Any, (await world.session()).channel)
        restore = last.restore

        async def fall(*_: object) -> None:
            last.restore = restore
            while not consumer.unconsumed:
                await asyncio.sleep(0)
            client._transport.abort()
            while client._loss is None:
                await asyncio.sleep(0)
            assert not looks or await consumer.receive_no_wait() is None
            client.refuse_lost()

        last.restore = fall
        await world.cut()
        assert last.restore == restore
        assert await world.counts(consumer.session) == (0, 1)
        assert len(consumer.unconsumed) == 1
        assert await world.bodies(consumer, 1) == [b"a"]
        assert await consumer.receive_no_wait() is None
        consumer.session.acknowledge()
        assert await world.counts(consumer.session) == (0, 0)

    play(leveret_broker, scene, failover(leveret_broker) + "&checkForDuplicates=false")


@pytest.mark.feature("S3-08")
def test_a_pull_that_waits_goes_on_after_a_cut(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
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


@pytest.mark.parametrize("is_leveret", [True, False], ids=["x-pull-one", "qos 1 and cancel"])
@pytest.mark.feature("S3-08", "S3-19")
def test_a_pull_goes_on_after_a_cut_though_a_message_is_in_hand(leveret_broker: Broker, is_leveret: bool) -> None:
    """The broker answers the request by what the application has; so the client has to ask again."""

    async def scene(world: JmsHarness) -> None:
        world.connection.registrar.is_leveret = is_leveret
        await world.put("a")
        consumer = await world.consumer(AckMode.CLIENT, prefetch=0)
        assert await world.bodies(consumer, 1) == [b"a"]
        asked = asyncio.ensure_future(world.bodies(consumer, 1))
        await world.subscribed()
        await world.cut()
        await world.put("b")
        assert await asked == [b"b"]
        consumer.session.acknowledge()
        assert await world.counts(consumer.session) == (0, 0)

    play(leveret_broker, scene, failover(leveret_broker))


def test_a_pull_whose_queue_is_deleted_after_a_cut_is_told_so(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        consumer = await world.consumer(prefetch=0)
        asked = asyncio.ensure_future(consumer.receive())
        await world.subscribed()
        await world.cut()
        await world.channel.delete_queue("q")
        with pytest.raises(Cancelled):
            await asked

    play(leveret_broker, scene, failover(leveret_broker))


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.INDIVIDUAL])
@pytest.mark.parametrize("held", [1, 2, 5])
@pytest.mark.feature("S1-11", "S3-08")
def test_the_window_moves_on_after_a_cut(leveret_broker: Broker, mode: AckMode, held: int) -> None:
    """What is in hand comes again unseen, uses up windows of the broker, and so counts."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcdefghi")
        consumer = await world.consumer(mode, prefetch=2)
        session = consumer.session
        messages = [await consumer.receive() for _ in range(held)]
        await world.cut()
        messages += [await consumer.receive() for _ in range(8 - held)]
        assert b"".join(body_of(message) for message in messages) == b"abcdefgh"
        await world.cut()
        assert await world.bodies(consumer, 1) == [b"i"]
        for message in messages:
            session.acknowledge(message)
        assert await world.counts(session) == ((0, 0) if mode is AckMode.CLIENT else (0, 1))

    play(leveret_broker, scene, failover(leveret_broker))


@pytest.mark.feature("S1-11", "S3-08")
def test_acks_after_a_cut_make_room(leveret_broker: Broker) -> None:
    """Of what was in hand, some of it not even delivered again yet."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcdefgh")
        consumer = await world.consumer(AckMode.INDIVIDUAL, prefetch=2)
        messages = [await consumer.receive() for _ in range(5)]
        await world.cut()
        for number in (0, 3):
            consumer.session.acknowledge(messages[number])
        assert await world.bodies(consumer, 3) == [b"f", b"g", b"h"]

    play(leveret_broker, scene, failover(leveret_broker))


@pytest.mark.feature("S3-08")
def test_a_listener_goes_on_after_a_cut(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
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
@pytest.mark.feature("S1-18", "S3-08")
def test_a_transaction_that_was_cut_is_rolled_back_as_a_whole(leveret_broker: Broker, ends_with: str) -> None:
    """Its messages come again, its sends are forgotten, and the next transaction is sound."""

    async def scene(world: JmsHarness) -> None:
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


@pytest.mark.feature("S1-18")
def test_what_came_after_the_cut_is_not_lost_with_the_transaction(leveret_broker: Broker) -> None:
    """Messages of both lives in one transaction."""

    async def scene(world: JmsHarness) -> None:
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


@pytest.mark.feature("S1-18")
def test_what_was_received_after_the_sends_were_lost_comes_again(leveret_broker: Broker) -> None:
    """The sends of the transaction went with the connection; the messages are of the new one."""

    async def scene(world: JmsHarness) -> None:
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


@pytest.mark.feature("S1-17", "S1-18")
def test_what_a_lost_commit_had_settled_aside_is_settled_nevertheless(leveret_broker: Broker) -> None:
    """The expired one of the new connection does not stay with the session."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session(TRANSACTED)
        producer = await session.create_producer(Queue("out"))
        await producer.send(session.create_text_message("lost"))
        await world.cut()
        await world.put("old", expiration="60000")
        await world.put("a")
        consumer = await session.create_consumer(Queue("q"))
        await world.until(lambda: len(consumer.unconsumed) == 2)
        world.clock.advance(65)
        assert await world.bodies(consumer, 1) == [b"a"]
        with pytest.raises(TransactionRolledBack):
            await session.commit()
        assert await world.counts(session) == (0, 1)
        assert await world.bodies(consumer, 1) == [b"a"]
        await session.commit()
        assert await world.counts(session) == (0, 0)

    play(leveret_broker, scene, failover(leveret_broker), redelivery=AT_ONCE)


@pytest.mark.parametrize("ends_with", ["commit", "rollback"])
@pytest.mark.feature("S1-17", "S1-18")
def test_what_was_to_be_settled_aside_and_was_cut_comes_again(leveret_broker: Broker, ends_with: str) -> None:
    """Nothing can be said to it; the transaction that had nothing else is sound."""

    async def scene(world: JmsHarness) -> None:
        await world.put("old", expiration="60000")
        consumer = await world.consumer(TRANSACTED)
        session = consumer.session
        await world.until(lambda: len(consumer.unconsumed) == 1)
        world.clock.advance(65)
        assert await consumer.receive_no_wait() is None
        await world.cut()
        await (session.commit() if ends_with == "commit" else session.rollback())
        assert await world.bodies(consumer, 1) == [b"old"]
        await session.commit()
        assert await world.counts(session) == (0, 0)

    play(leveret_broker, scene, failover(leveret_broker), redelivery=AT_ONCE)
