"""Topics: patterns, durable subscriptions, selectors, noLocal, temporary destinations."""

from __future__ import annotations

import pytest

import leveret
from leveret.client.jms import (
    AckMode,
    IllegalState,
    InvalidDestination,
    InvalidSelector,
    Layout,
    MessageConsumer,
    Queue,
    Topic,
)
from leveret.client.jms.messages import Message, TextMessage
from tests.support.jms_harness import JmsHarness, play

CLIENT_FILTERS = Layout(broker_selects=False)
"""As with a broker that has no selectors."""


async def send(world: JmsHarness, topic: str, text: str, **properties: int | str) -> Message:
    session = await world.session()
    message = TextMessage(text)
    message.properties.update(properties)
    await (await session.create_producer(Topic(topic))).send(message)
    await session.close()
    return message


async def text(consumer: MessageConsumer) -> str:
    message = await consumer.receive()
    assert isinstance(message, TextMessage)
    return message.text


def queues(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: sorted(broker.node.broker.vhost("/").queues))


def exchanges(broker: leveret.Broker) -> list[str]:
    return broker.call(
        lambda: sorted(name for name in broker.node.broker.vhost("/").exchanges if name.startswith("subscription"))
    )


# ---- patterns, and subscriptions that are not durable


def test_subscribers_get_the_topics_that_their_pattern_matches(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        one = await session.create_consumer(Topic("prices.gold"))
        word = await session.create_consumer(Topic("prices.*"))
        everything = await session.create_consumer(Topic("prices.>"))
        for topic in ("prices.gold", "prices.silver", "prices.gold.london", "news"):
            await send(world, topic, topic)
        assert await text(one) == "prices.gold"
        assert [await text(word) for _ in range(2)] == ["prices.gold", "prices.silver"]
        came = [await everything.receive() for _ in range(3)]
        assert [message.destination for message in came if message] == [
            Topic("prices.gold"),
            Topic("prices.silver"),
            Topic("prices.gold.london"),
        ]
        assert [await each.receive_no_wait() for each in (one, word, everything)] == [None, None, None]

    play(leveret_broker, scene)


@pytest.mark.parametrize("prefetch", [0, 10])
def test_a_subscription_ends_with_its_consumer(prefetch: int, leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_consumer(Topic("t"), prefetch=prefetch)
        for body in ("1", "2"):  # a consumer that pulls comes and goes, its queue stays
            await send(world, "t", body)
            assert await text(consumer) == body
        assert len(queues(leveret_broker)) == 1
        await consumer.close()
        assert queues(leveret_broker) == []
        await session.create_consumer(Topic("t"))
        await session.close()
        assert queues(leveret_broker) == []

    play(leveret_broker, scene)


def test_topics_may_have_an_exchange_of_their_own(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        consumer = await (await world.session()).create_consumer(Topic("t"))
        await send(world, "t", "x")
        assert await text(consumer) == "x"
        await world.channel.declare_exchange("news", "topic", durable=True)  # else 406

    play(leveret_broker, scene, layout=Layout(topic_exchange="news"))


# ---- durable subscriptions


def test_a_durable_subscription_stores_while_nobody_consumes(leveret_broker: leveret.Broker) -> None:
    async def first(world: JmsHarness) -> None:
        session = await world.session()
        await session.create_durable_subscriber(Topic("t.>"), "audit")
        await session.close()
        await send(world, "t.a", "stored")

    async def second(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_durable_subscriber(Topic("t.>"), "audit")
        assert await text(consumer) == "stored"
        await consumer.close()
        await session.unsubscribe("audit")
        assert (queues(leveret_broker), exchanges(leveret_broker)) == ([], [])
        with pytest.raises(InvalidDestination, match="client 'me' has no durable subscription 'audit'"):
            await session.unsubscribe("audit")

    play(leveret_broker, first, client_id="me")
    assert queues(leveret_broker) == ["subscription:me:audit"]
    play(leveret_broker, second, client_id="me")


@pytest.mark.parametrize("layout", [Layout(), CLIENT_FILTERS])
def test_another_topic_or_selector_makes_a_new_subscription(layout: Layout, leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        stored = leveret_broker.vhost()
        for topic, selector in (("a", ""), ("b", ""), ("b", "k = 1"), ("b", "k = 2")):
            consumer = await session.create_durable_subscriber(Topic(topic), "s", selector)
            await consumer.close()
            assert stored.message_count("subscription:me:s") == 0, (topic, selector)
            await send(world, "a", "of a", k=2)
            await send(world, "b", "of b", k=int(selector[-1:] or "0"))
            assert stored.message_count("subscription:me:s") == 1
            again = await session.create_durable_subscriber(Topic(topic), "s", selector)  # the same: nothing is lost
            assert await text(again) == f"of {topic}"
            await send(world, topic, "dropped with the old one", k=int(selector[-1:] or "0"))
            await again.close()
        assert len(exchanges(leveret_broker)) == 1

    play(leveret_broker, scene, client_id="me", layout=layout)


def test_a_durable_subscription_has_one_consumer(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session, other = await world.session(), await world.session()
        await session.create_durable_subscriber(Topic("t"), "s")
        with pytest.raises(IllegalState, match="'s' of client 'me' has a consumer: close it"):
            await session.unsubscribe("s")
        with pytest.raises(IllegalState, match="has a consumer"):
            await session.create_durable_subscriber(Topic("another"), "s")
        with pytest.raises(IllegalState, match="already has a consumer"):
            await other.create_durable_subscriber(Topic("t"), "s")

    play(leveret_broker, scene, client_id="me")


@pytest.mark.parametrize(("client_id", "problem"), [("", "needs a client id"), ("a:b", "has a colon")])
def test_a_durable_subscription_needs_a_client_id(client_id: str, problem: str, leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        with pytest.raises(IllegalState, match=problem):
            await session.create_durable_subscriber(Topic("t"), "s")
        with pytest.raises(InvalidDestination, match="is not a topic"):
            await session.create_consumer(Queue("q"), subscription="s")

    play(leveret_broker, scene, client_id=client_id)


# ---- selectors and noLocal


@pytest.mark.feature("S1-16", "S1-28")
def test_what_a_selector_does_not_match_is_never_stored(leveret_broker: leveret.Broker) -> None:
    """S1-28: the broker selects at the binding."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_durable_subscriber(Topic("t"), "s", "weight > 5")
        await consumer.close()
        await send(world, "t", "light", weight=1)
        await send(world, "t", "heavy", weight=10)
        assert leveret_broker.vhost().message_count("subscription:me:s") == 1
        consumer = await session.create_durable_subscriber(Topic("t"), "s", "weight > 5")
        assert await text(consumer) == "heavy"

    play(leveret_broker, scene, client_id="me")


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT])
@pytest.mark.feature("S1-16")
def test_without_selectors_at_the_broker_the_stored_copy_is_removed(
    mode: AckMode, leveret_broker: leveret.Broker
) -> None:
    """An ack of type UNMATCHED; the application sees nothing of it."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session(mode)
        consumer = await session.create_durable_subscriber(Topic("t"), "s", "weight > 5")
        await send(world, "t", "light", weight=1)
        await send(world, "t", "heavy", weight=10)
        assert await text(consumer) == "heavy"
        assert ("UNMATCHED", [b"light"]) in world.acks
        session.acknowledge()
        await session.close()
        assert leveret_broker.vhost().message_count("subscription:me:s") == 0

    play(leveret_broker, scene, client_id="me", layout=CLIENT_FILTERS)


@pytest.mark.parametrize("layout", [Layout(), CLIENT_FILTERS])
@pytest.mark.parametrize("name", ["", "durable"])
def test_no_local_leaves_out_what_its_own_connection_sent(
    layout: Layout, name: str, leveret_broker: leveret.Broker
) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_consumer(Topic("t"), "k = 1", no_local=True, subscription=name)
        plain = await session.create_consumer(Topic("t"))
        by_option = await session.create_consumer(Topic("t?consumer.noLocal=true"))
        await send(world, "t", "mine", k=1)
        await world.channel.publish(b"theirs", "amq.topic", "t", _with_k(1))
        await world.channel.publish(b"not wanted", "amq.topic", "t", _with_k(2))
        await world.channel.publish(b"last", "amq.topic", "t", _with_k(1))
        assert await world.bodies(consumer, 2) == [b"theirs", b"last"]
        assert await world.bodies(plain, 2) == [b"mine", b"theirs"]
        assert await world.bodies(by_option, 1) == [b"theirs"]

    play(leveret_broker, scene, client_id="it's me", layout=layout)


def _with_k(value: int) -> leveret.client.Properties:
    return leveret.client.Properties(headers={"k": value})


def test_a_wrong_selector_is_refused_before_the_broker_is_asked(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        with pytest.raises(InvalidSelector, match=r"'a = AND' cannot be read: .* position 5"):
            await session.create_consumer(Topic("t"), "a = AND")
        assert queues(leveret_broker) == []

    play(leveret_broker, scene)


def test_a_queue_on_a_broker_without_selectors_cannot_be_selected_from(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        with pytest.raises(InvalidSelector, match="consumer of queue 'q' cannot have a selector"):
            await session.create_consumer(Queue("q"), "a = 1")

    play(leveret_broker, scene, layout=CLIENT_FILTERS)


# ---- temporary destinations


def test_temporary_destinations_live_as_long_as_their_connection(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        queue, topic = await session.create_temporary_queue(), await session.create_temporary_topic()
        from_queue, from_topic = await session.create_consumer(queue), await session.create_consumer(topic)
        free = await session.create_producer()
        await free.send(TextMessage("to the queue"), queue)
        await free.send(TextMessage("to the topic"), topic)
        assert [await text(from_queue), await text(from_topic)] == ["to the queue", "to the topic"]
        gone = await session.create_temporary_queue()
        await gone.delete()
        assert gone.name not in queues(leveret_broker)
        with pytest.raises(InvalidDestination, match="of another connection, or was deleted"):
            await session.create_consumer(gone)
        await session.close()
        assert queue.name in queues(leveret_broker)

    play(leveret_broker, scene)
    assert queues(leveret_broker) == []


def test_only_its_connection_consumes_from_a_temporary_destination(leveret_broker: leveret.Broker) -> None:
    async def outer(world: JmsHarness) -> None:
        queue = await (await world.session()).create_temporary_queue()
        async with await world.connection.factory.create_connection() as other:
            session = await other.create_session()
            with pytest.raises(InvalidDestination, match="of another connection"):
                await session.create_consumer(queue)
            await (await session.create_producer(queue)).send(TextMessage("everybody may send"))
        assert leveret_broker.call(lambda: leveret_broker.node.broker.vhost("/").queues[queue.name].ready) == 1

    play(leveret_broker, outer)
