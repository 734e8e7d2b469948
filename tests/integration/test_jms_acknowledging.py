"""The acknowledge modes of JMS sessions, and the acks that they send, against a broker on a socket."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Properties
from leveret.client.jms import AckMode, Message, Queue
from leveret.wire.fields import Table
from tests.support.jms_harness import JmsHarness, play

Broker = leveret.Broker


@pytest.mark.feature("S1-06", "S1-08", "S1-13")
def test_auto_acks_as_receive_hands_over(leveret_broker: Broker) -> None:
    """STANDARD."""

    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        consumer = await world.consumer(AckMode.AUTO)
        assert await world.bodies(consumer, 1) == [b"a"]
        assert await world.counts(consumer.session) == (0, 1)
        assert world.acks == [("STANDARD", [b"a"])]
        assert not consumer.delivered

    play(leveret_broker, scene)


@pytest.mark.feature("S3-14", "S4-51")
def test_auto_acks_after_the_listener_has_returned(leveret_broker: Broker) -> None:
    """Until then the message is on the delivered list."""

    async def scene(world: JmsHarness) -> None:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def listen(message: Message) -> None:
            entered.set()
            await leave.wait()

        await world.put("a")
        consumer = await world.consumer(AckMode.AUTO, listener=listen)
        await entered.wait()
        assert await world.counts(consumer.session) == (0, 1)
        assert [entry.delivery.body for entry in consumer.delivered.values()] == [b"a"]
        leave.set()
        await world.until(lambda: world.acks == [("STANDARD", [b"a"])])
        assert await world.counts(consumer.session) == (0, 0)
        assert not consumer.delivered

    play(leveret_broker, scene)


@pytest.mark.feature("S1-09")
def test_client_acks_everything_that_the_session_has_delivered(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.CLIENT)
        await world.put("a1", "a2", "a3", queue="a")
        await world.put("b1", "b2", queue="b")
        first, second = [await session.create_consumer(Queue(name)) for name in "ab"]
        await world.bodies(first, 1)
        await world.bodies(second, 1)
        message = await first.receive()
        assert message is not None
        assert not world.acks
        message.acknowledge()
        assert world.acks == [("STANDARD", [b"a1", b"a2"]), ("STANDARD", [b"b1"])]
        assert await world.counts(session, "a") == (0, 1)  # those that wait in the client are not acked
        assert await world.counts(session, "b") == (0, 1)
        message.acknowledge()  # there is nothing more to say
        assert len(world.acks) == 2

    play(leveret_broker, scene)


@pytest.mark.feature("S1-10")
def test_dups_ok_acks_many_at_once_at_half_the_prefetch(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcdefgh")
        consumer = await world.consumer(AckMode.DUPS_OK, prefetch=6)
        await world.bodies(consumer, 2)
        assert not world.acks
        await world.bodies(consumer, 2)
        assert world.acks == [("STANDARD", [b"a", b"b", b"c"])]
        assert await world.counts(consumer.session) == (0, 5)  # the window moved on by three
        await consumer.close()
        assert world.acks[1:] == [("STANDARD", [b"d"])]
        assert await world.counts(consumer.session) == (4, 0)

    play(leveret_broker, scene)


@pytest.mark.feature("S1-15")
def test_individual_acks_just_this_one_message(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b", "c")
        consumer = await world.consumer(AckMode.INDIVIDUAL)
        messages = [await consumer.receive() for _ in range(3)]
        assert messages[1] is not None
        messages[1].acknowledge()
        assert world.acks == [("INDIVIDUAL", [b"b"])]
        await consumer.session.close()
        other = await world.consumer()
        assert await world.bodies(other, 2) == [b"a", b"c"]

    play(leveret_broker, scene)


@pytest.mark.feature("S1-11")
def test_the_window_moves_on_when_the_application_has_all_of_it(leveret_broker: Broker) -> None:
    """DELIVERED. The messages stay unacked; others come; never more than the prefetch waits in the client."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcdefghij")
        consumer = await world.consumer(AckMode.CLIENT, prefetch=3)
        for count in range(1, 11):
            assert await world.bodies(consumer, 1) == [b"abcdefghij"[count - 1 : count]]
            assert len(consumer.unconsumed) <= 3
        assert [bodies for kind, bodies in world.acks if kind == "DELIVERED"] == [
            [b"a", b"b", b"c"],
            [b"a", b"b", b"c", b"d", b"e", b"f"],
            [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"],
        ]
        assert await world.counts(consumer.session) == (0, 10)
        await world.subscribed(1)  # the old ones are cancelled
        consumer.session.acknowledge()
        assert await world.counts(consumer.session) == (0, 0)

    play(leveret_broker, scene)


@pytest.mark.feature("S1-17")
def test_what_expired_in_the_client_is_not_handed_over(leveret_broker: Broker) -> None:
    """EXPIRED. The persistent one goes to the dead letters, the other one is gone."""

    async def scene(world: JmsHarness) -> None:
        dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await world.channel.declare_queue("dead")
        await world.channel.declare_queue("q", durable=True, arguments=dead)
        for name, mode in (("kept", 2), ("light", 1)):
            await world.channel.publish(name.encode(), "", "q", Properties(expiration="60000", delivery_mode=mode))
        await world.channel.publish(b"fresh", "", "q", Properties(expiration="70000"))
        consumer = await world.consumer(AckMode.CLIENT)
        await world.until(lambda: len(consumer.unconsumed) == 3)
        world.clock.advance(65)
        assert await world.bodies(consumer, 1) == [b"fresh"]
        assert world.acks == [("EXPIRED", [b"kept"]), ("EXPIRED", [b"light"])]
        assert await world.counts(consumer.session, "dead") == (1, 0)
        fetched = await world.channel.get("dead", no_ack=True)
        assert fetched is not None
        assert fetched.body == b"kept"

    play(leveret_broker, scene)
