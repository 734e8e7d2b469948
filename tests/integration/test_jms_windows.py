"""What a consumer may still be sent: the window moves on whatever keeps messages unacked, and nothing piles up."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Properties
from leveret.client.errors import TransactionRolledBack
from leveret.client.jms import AckMode, Layout, Message, Queue, RedeliveryPolicy, TextMessage, Topic
from tests.support.jms_harness import JmsHarness, body_of, play

Broker = leveret.Broker
AT_ONCE = RedeliveryPolicy(initial_delay=0)
TRANSACTED = AckMode.SESSION_TRANSACTED


@pytest.mark.feature("S1-11", "S1-16")
def test_unmatched_messages_of_a_transaction_do_not_use_up_the_window(leveret_broker: Broker) -> None:
    """Their acks wait for the commit, and what the selector wants is behind them."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session(TRANSACTED)
        consumer = await session.create_consumer(Topic("t"), "colour = 'red'", prefetch=2)
        producer = await (await world.session()).create_producer(Topic("t"))
        for colour in ("blue", "blue", "blue", "red"):
            message = TextMessage(colour)
            message.properties["colour"] = colour
            await producer.send(message)
        assert await world.bodies(consumer, 1) == [b"red"]
        await session.commit()
        assert [kind for kind, _ in world.acks if kind == "UNMATCHED"] == ["UNMATCHED"] * 3
        queue = leveret_broker.node.broker.vhost("/").queues[consumer.source.queue]
        assert leveret_broker.call(lambda: (queue.ready, queue.unacked)) == (0, 0)

    play(leveret_broker, scene, layout=Layout(broker_selects=False))


@pytest.mark.feature("S1-11", "S1-17")
def test_expired_messages_of_a_transaction_do_not_use_up_the_window(leveret_broker: Broker) -> None:

    async def scene(world: JmsHarness) -> None:
        await world.put("old", "older", expiration="60000")
        await world.put("new")
        consumer = await world.consumer(TRANSACTED, prefetch=2)
        await world.until(lambda: len(consumer.unconsumed) == 2)
        world.clock.advance(65)
        assert await world.bodies(consumer, 1) == [b"new"]
        await consumer.session.commit()
        assert await world.counts(consumer.session) == (0, 0)

    play(leveret_broker, scene)


@pytest.mark.parametrize("mode", [AckMode.CLIENT, TRANSACTED])
@pytest.mark.parametrize("prefetch", [1, 3])
@pytest.mark.feature("S1-11")
def test_a_listener_that_raises_gets_the_next_one(leveret_broker: Broker, mode: AckMode, prefetch: int) -> None:
    """Where the application says what becomes of all of them, what it failed on uses up the window, too."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcde")
        got: list[bytes] = []

        def fail(message: Message) -> None:
            got.append(body_of(message))
            raise ValueError("cannot do it")

        await world.consumer(mode, prefetch=prefetch, listener=fail)
        await world.until(lambda: len(got) == 5)
        assert b"".join(got) == b"abcde"

    play(leveret_broker, scene)


@pytest.mark.feature("S1-11", "S1-18")
def test_the_window_is_known_after_a_commit_that_was_not_to_be(leveret_broker: Broker) -> None:
    """What the lost transaction had acked is unacked again, and counts."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session(TRANSACTED)
        producer = await session.create_producer(Queue("out"))
        await producer.send(session.create_text_message("lost"))
        await world.cut()
        await world.put(*"abcde")
        consumer = await session.create_consumer(Queue("q"), prefetch=2)
        assert await world.bodies(consumer, 1) == [b"a"]
        with pytest.raises(TransactionRolledBack):
            await session.commit()
        assert b"".join(await world.bodies(consumer, 5)) == b"abcde"
        await session.commit()
        assert await world.counts(session) == (0, 0)

    uri = f"failover:({leveret_broker.amqp_url})?initialReconnectDelay=1"
    play(leveret_broker, scene, uri, redelivery=AT_ONCE)


@pytest.mark.parametrize("mode", [AckMode.CLIENT, TRANSACTED])
@pytest.mark.feature("S1-19", "S3-08")
def test_what_a_lost_connection_had_brought_is_forgotten(leveret_broker: Broker, mode: AckMode) -> None:
    """Without ids the broker brings it again; nothing of it stays in the client for ever."""

    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        consumer = await world.consumer(mode)
        session = consumer.session
        await world.bodies(consumer, 1)
        await world.cut()
        await (session.rollback() if mode is TRANSACTED else session.recover())
        assert sorted(await world.bodies(consumer, 2)) == [b"a", b"b"]
        await _settle(session)
        assert len(session._outstanding) == 0
        assert await world.counts(session) == (0, 0)

    async def _settle(session: object) -> None:
        if mode is TRANSACTED:
            await session.commit()  # type: ignore[attr-defined]
        else:
            session.acknowledge()  # type: ignore[attr-defined]

    uri = f"failover:({leveret_broker.amqp_url})?initialReconnectDelay=1&checkForDuplicates=false"
    play(leveret_broker, scene, uri, redelivery=AT_ONCE)


@pytest.mark.feature("S3-19", "S3-20")
def test_a_pull_that_is_given_up_as_its_message_comes_gives_it_back(leveret_broker: Broker) -> None:
    """Nothing piles up in the client, so that others can have it."""

    async def scene(world: JmsHarness) -> None:
        await world.put("a")
        consumer = await world.consumer(prefetch=0)
        asked = asyncio.ensure_future(consumer.receive())
        await asyncio.sleep(0)  # it has asked, and nothing has come yet
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        other = await world.consumer(prefetch=0)
        assert body_of(await other.receive()) == b"a"

    play(leveret_broker, scene)


@pytest.mark.feature("S3-17")
def test_a_consumer_whose_making_is_given_up_holds_nothing(leveret_broker: Broker) -> None:
    """What was pushed to it meanwhile goes back."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        session = await world.session()
        await session.create_producer(Queue("q"))
        making = asyncio.ensure_future(session.create_consumer(Queue("q")))
        await world.until(lambda: bool(session._consumers))
        await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        other = await world.consumer()
        assert sorted(await world.bodies(other, 3)) == [b"a", b"b", b"c"]
        assert not session._consumers

    play(leveret_broker, scene)


@pytest.mark.parametrize("delay", [0.0, 1.0])
@pytest.mark.feature("S1-19", "S3-15")
def test_retries_that_do_not_block_come_in_their_order_too(leveret_broker: Broker, delay: float) -> None:

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcd")
        consumer = await world.consumer(AckMode.CLIENT)
        await world.bodies(consumer, 3)
        await consumer.session.recover()
        world.clock.advance(delay)
        assert b"".join(await world.bodies(consumer, 4)) == b"abcd"

    play(leveret_broker, scene, redelivery=RedeliveryPolicy(initial_delay=delay, non_blocking=True))


@pytest.mark.feature("S3-18")
def test_each_kind_of_destination_has_its_own_prefetch(leveret_broker: Broker) -> None:
    """As the address says; a number of the destination or the call stands above it."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        assert (await session.create_consumer(Queue("q"))).prefetch == 10
        assert (await session.create_consumer(Topic("t"))).prefetch == 20
        assert (await session.create_durable_subscriber(Topic("t"), "s")).prefetch == 30
        assert (await session.create_consumer(Queue("queue://q?consumer.prefetchSize=3"))).prefetch == 3
        assert (await session.create_browser(Queue("q"))).limit == 40

    options = ["queuePrefetch=10", "topicPrefetch=20", "durableTopicPrefetch=30", "queueBrowserPrefetch=40"]
    query = "&".join(f"jms.prefetchPolicy.{option}" for option in options)
    play(leveret_broker, scene, f"{leveret_broker.amqp_url}?{query}&jms.clientID=me")


@pytest.mark.feature("S1-28")
def test_a_selector_may_stand_in_the_name(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        for colour in ("red", "blue"):
            await world.channel.declare_queue("q", durable=True)
            await world.channel.publish(colour.encode(), "", "q", Properties(headers={"colour": colour}))
        chosen = "q?consumer.selector=colour = 'blue'"
        consumer = await world.consumer(queue=chosen)
        assert await world.bodies(consumer, 1) == [b"blue"]
        browser = await consumer.session.create_browser(Queue(chosen))
        assert await browser.next() is None
        assert (await world.consumer(queue=chosen, selector="colour = 'red'")).source.arguments == {
            "x-selector": "colour = 'red'"
        }

    play(leveret_broker, scene)
