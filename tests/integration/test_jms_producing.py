"""Producers: what a message is when it arrives, where it goes, and when the producer knows that it is safe."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client.errors import Nacked
from leveret.client.jms import AckMode, IllegalState, InvalidDestination, Layout, MessageFormatError, Queue, Topic
from leveret.client.jms.messages import NON_PERSISTENT, MapMessage, Message, TextMessage
from leveret.client.jms.producer import Producer
from tests.support.jms_harness import JmsHarness, play


async def producer(world: JmsHarness, queue: str | None = "q", mode: AckMode = AckMode.AUTO) -> Producer:
    session = await world.session(mode)
    return await session.create_producer(None if queue is None else Queue(queue))


async def sent_and_received(world: JmsHarness, message: Message, **terms: float) -> Message:
    await (await producer(world)).send(message, **terms)  # type: ignore[arg-type]
    back = await (await world.consumer()).receive()
    assert back is not None
    return back


@pytest.mark.feature("S3-01", "S3-02")
def test_messages_of_a_session_reach_a_consumer(leveret_broker: leveret.Broker) -> None:
    """S3-02: factory, connection, session, producer and consumer; the broker stores and delivers."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        send = await session.create_producer(session.create_queue("q"))
        texts = [session.create_text_message(f"{number}") for number in range(3)]
        table, data = session.create_map_message({"a": [1]}), session.create_bytes_message(b"\x00")
        for message in (*texts, table, data, session.create_message()):
            await send.send(message)
        assert leveret_broker.vhost().message_count("q") == 6
        consumer = await world.consumer()
        came = [await consumer.receive() for _ in range(6)]
        assert [message.body for message in came if message] == ["0", "1", "2", {"a": [1]}, b"\x00", None]

    play(leveret_broker, scene)


def test_the_client_stamps_what_it_sends(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        message = TextMessage("x")
        message.correlation_id, message.type, message.group_id = "c", "order", "g"
        message.properties["weight"] = 3
        back = await sent_and_received(world, message, delivery_mode=NON_PERSISTENT, priority=7, time_to_live=60)
        assert back.message_id == message.message_id
        assert back.message_id.startswith("ID:")
        assert (back.delivery_mode, back.priority) == (NON_PERSISTENT, 7)
        assert back.expiration == pytest.approx(message.timestamp + 60, abs=0.002)
        assert (back.correlation_id, back.type, back.group_id) == ("c", "order", "g")
        assert dict(back.properties) == {"weight": 3}
        assert back.destination == message.destination == Queue("q")
        assert (back.delivery_count, back.redelivered) == (1, False)

    play(leveret_broker, scene)


def test_each_message_has_an_id_and_a_time_unless_they_are_switched_off(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        one, two, bare = TextMessage("1"), TextMessage("2"), TextMessage("3")
        await send.send(one)
        await send.send(two)
        send.disable_message_id = send.disable_message_timestamp = True
        await send.send(bare, time_to_live=5)
        assert one.message_id != two.message_id
        consumer = await world.consumer()
        last = [await consumer.receive() for _ in range(3)][2]
        assert last is not None
        assert (last.message_id, last.timestamp, last.expiration) == ("", 0, 0)
        assert last.delivery is not None
        assert last.delivery.properties.expiration == "5000"

    play(leveret_broker, scene)


def test_what_a_producer_is_set_to_holds_for_its_messages(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        send.delivery_mode, send.priority, send.time_to_live = NON_PERSISTENT, 9, 30
        usual, special = TextMessage("usual"), TextMessage("special")
        await send.send(usual)
        await send.send(special, priority=0)
        assert (usual.delivery_mode, usual.priority, usual.expiration - usual.timestamp) == (NON_PERSISTENT, 9, 30)
        assert (special.delivery_mode, special.priority) == (NON_PERSISTENT, 0)
        with pytest.raises(MessageFormatError, match="priority 10"):
            send.priority = 10

    play(leveret_broker, scene)


def test_a_message_dies_when_its_time_is_over(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        await send.send(TextMessage("short"), time_to_live=10)
        await send.send(TextMessage("long"), time_to_live=100)
        leveret_broker.clock.advance(11)
        assert leveret_broker.vhost().message_count("q") == 1

    play(leveret_broker, scene)


def test_a_delayed_message_comes_when_it_is_due(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        await send.send(TextMessage("later"), delivery_delay=60, time_to_live=90)
        vhost = leveret_broker.vhost()
        assert (vhost.message_count("q"), vhost.scheduled_count()) == (0, 1)
        leveret_broker.clock.advance(61)
        assert vhost.message_count("q") == 1
        back = await (await world.consumer()).receive()
        assert back is not None
        assert back.delivery_time == pytest.approx(back.timestamp + 60, abs=0.002)
        assert back.expiration == pytest.approx(back.timestamp + 90, abs=0.002)

    play(leveret_broker, scene)


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"priority": 10}, "priority 10 is not within 0 and 9"),
        ({"delivery_mode": 3}, "delivery mode 3"),
        ({"time_to_live": -1}, "negative"),
        ({"time_to_live": 5, "delivery_delay": 5}, "a message that expires after 5 s cannot be delayed by 5 s"),
    ],
)
def test_terms_that_make_no_sense_are_refused(
    terms: dict[str, int], problem: str, leveret_broker: leveret.Broker
) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        with pytest.raises(MessageFormatError, match=problem):
            await send.send(TextMessage("x"), **terms)  # type: ignore[arg-type]
        assert leveret_broker.vhost().message_count("q") == 0

    play(leveret_broker, scene)


def test_a_header_that_cannot_be_sent_is_refused_and_harms_nobody(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        long, half = TextMessage("x"), TextMessage("x")
        long.correlation_id = "x" * 256
        half.properties["a"] = "\ud800"
        with pytest.raises(MessageFormatError, match="256 bytes, at most 255"):
            await send.send(long)
        with pytest.raises(MessageFormatError, match="no UTF-8 form"):
            await send.send(half)
        await send.send(TextMessage("fine"))
        assert leveret_broker.vhost().message_count("q") == 1

    play(leveret_broker, scene)


# ---- destinations


def test_a_queue_is_declared_durable_at_its_first_use(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world, None)
        await send.send(TextMessage("x"), Queue("new"))
        same = await world.channel.declare_queue("new", durable=True, arguments={"x-max-priority": 9})  # else 406
        assert same.message_count == 1

    play(leveret_broker, scene, layout=Layout(queue_arguments={"x-max-priority": 9}))


def test_a_queue_that_is_there_with_other_arguments_is_used_as_it_is(leveret_broker: leveret.Broker) -> None:
    leveret_broker.vhost().declare_queue("theirs", arguments={"x-max-length": 5})

    async def scene(world: JmsHarness) -> None:
        send = await producer(world, "theirs")
        await send.send(TextMessage("x"))
        assert leveret_broker.vhost().message_count("theirs") == 1

    play(leveret_broker, scene)


def test_a_queue_that_was_deleted_meanwhile_is_declared_again(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        await send.send(TextMessage("gone"))
        leveret_broker.vhost().delete_queue("q")
        await send.send(TextMessage("kept"))
        assert leveret_broker.vhost().message_count("q") == 1

    play(leveret_broker, scene)


def test_an_answer_to_nowhere_is_an_error_and_no_loss(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world, None)
        with pytest.raises(InvalidDestination, match="queue 'nowhere' does not exist"):
            await send.send(TextMessage("x"), Queue("nowhere", is_ours=False))

    play(leveret_broker, scene)


def test_where_queues_are_not_declared_they_must_be_there(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        with pytest.raises(InvalidDestination, match="queue 'q' does not exist"):
            await send.send(TextMessage("x"))
        leveret_broker.vhost().declare_queue("q")
        await send.send(TextMessage("x"))
        assert leveret_broker.vhost().message_count("q") == 1

    play(leveret_broker, scene, layout=Layout(declares_queues=False))


def test_a_producer_sends_where_it_was_made_for(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send, free = await producer(world), await producer(world, None)
        with pytest.raises(InvalidDestination, match="is for Queue"):
            await send.send(TextMessage("x"), Queue("other"))
        with pytest.raises(InvalidDestination, match="has no destination"):
            await free.send(TextMessage("x"))
        with pytest.raises(InvalidDestination, match="wildcards"):
            await free.send(TextMessage("x"), Topic("a.*"))
        await free.close()
        with pytest.raises(IllegalState, match="closed"):
            await free.send(TextMessage("x"), Queue("q"))

    play(leveret_broker, scene)


def test_nothing_is_sent_after_the_session_is_closed(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        await send.send(TextMessage("x"))
        await world.connection._sessions[-1].close()
        with pytest.raises(IllegalState, match="session is closed"):
            await send.send(TextMessage("y"))

    play(leveret_broker, scene)


# ---- confirms and transactions


def test_a_message_that_the_broker_does_not_take_is_an_error(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        await send.send(TextMessage("fits"))
        with pytest.raises(Nacked):
            await send.send(TextMessage("does not"))

    layout = Layout(queue_arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    play(leveret_broker, scene, layout=layout)


@pytest.mark.feature("S1-05")
def test_a_map_without_fields_is_a_message(leveret_broker: leveret.Broker) -> None:
    """It has no length, and is received all the same."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        await (await session.create_producer(Queue("q"))).send(session.create_map_message())
        consumer = await session.create_consumer(Queue("q"))
        await world.until(lambda: bool(consumer.unconsumed))
        assert isinstance(await consumer.receive(timeout=1), MapMessage)

    play(leveret_broker, scene)


def test_many_messages_can_be_sent_at_once(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        send = await producer(world)
        await asyncio.gather(*(send.send(TextMessage(f"{number}")) for number in range(200)))
        assert leveret_broker.vhost().message_count("q") == 200
        bodies = await world.bodies(await world.consumer(), 200)
        assert bodies == [b"%d" % number for number in range(200)]

    play(leveret_broker, scene)


@pytest.mark.feature("S1-07", "S3-16")
def test_sends_of_a_transaction_are_there_at_its_commit(leveret_broker: leveret.Broker) -> None:
    """S1-07: and what was rolled back never is."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.SESSION_TRANSACTED)
        send = await session.create_producer(Queue("q"))
        await send.send(TextMessage("dropped"))
        await session.rollback()
        await send.send(MapMessage({"kept": True}))
        await session.channel.declare_queue("q", passive=True)  # the broker has it by now
        assert leveret_broker.vhost().message_count("q") == 0
        await session.commit()
        assert leveret_broker.vhost().message_count("q") == 1

    play(leveret_broker, scene)


def test_a_commit_tells_of_messages_that_no_queue_took(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.SESSION_TRANSACTED)
        send = await session.create_producer()
        await world.put(queue="stays")
        await send.send(TextMessage("2"), Queue("gone"))
        await send.send(TextMessage("3"), Queue("stays"))
        with pytest.raises(InvalidDestination, match=r"1 of the committed messages .* the first for 'gone'"):
            await session.commit()
        assert leveret_broker.vhost().message_count("stays") == 1
        await world.put(queue="gone")
        await send.send(TextMessage("4"), Queue("gone"))
        await session.commit()
        assert leveret_broker.vhost().message_count("gone") == 1

    play(leveret_broker, scene, layout=Layout(declares_queues=False))
