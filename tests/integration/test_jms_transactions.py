"""Transactions of JMS sessions against a broker on a socket."""

from __future__ import annotations

import pytest

import leveret
from leveret.client.jms import (
    AckMode,
    IllegalState,
    InvalidDestination,
    Message,
    Producer,
    Queue,
    RedeliveryPolicy,
    Session,
    TextMessage,
)
from leveret.client.jms.destinations import named_in_reply_to
from leveret.wire.fields import Table
from tests.support.jms_harness import JmsHarness, play

Broker = leveret.Broker
AT_ONCE = RedeliveryPolicy(initial_delay=0)
TRANSACTED = AckMode.SESSION_TRANSACTED


async def send(session: Session, text: str, queue: str = "out") -> None:
    producer = await session.create_producer(Queue(queue))
    await producer.send(session.create_text_message(text))


@pytest.mark.feature("S1-07", "S3-16")
def test_acks_and_sends_take_effect_at_the_commit(leveret_broker: Broker) -> None:

    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        consumer = await world.consumer(TRANSACTED)
        session = consumer.session
        assert await world.bodies(consumer, 1) == [b"a"]
        await send(session, "answer")
        assert await world.counts(session) == (0, 2)
        assert await world.counts(session, "out") == (0, 0)
        assert not world.acks
        await session.commit()
        assert world.acks == [("STANDARD", [b"a"])]
        assert await world.counts(session) == (0, 1)
        assert await world.counts(session, "out") == (1, 0)

    play(leveret_broker, scene)


@pytest.mark.feature("S1-14", "S1-18", "S3-15")
def test_a_rollback_forgets_the_sends_and_delivers_again_in_order(leveret_broker: Broker) -> None:

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        consumer = await world.consumer(TRANSACTED)
        session = consumer.session
        assert await world.bodies(consumer, 2) == [b"a", b"b"]
        await send(session, "never")
        await session.rollback()
        assert world.acks == [("REDELIVERED", [b"a", b"b"])]
        message = await consumer.receive()
        assert message is not None
        assert message.redelivered
        assert await world.bodies(consumer, 2) == [b"b", b"c"]
        await session.commit()
        assert await world.counts(session) == (0, 0)
        assert await world.counts(session, "out") == (0, 0)

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.feature("S1-18")
def test_what_was_not_committed_comes_again_elsewhere(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a")
        consumer = await world.consumer(TRANSACTED)
        await world.bodies(consumer, 1)
        await send(consumer.session, "never")
        await consumer.session.close()
        other = await world.consumer()
        assert await world.bodies(other, 1) == [b"a"]
        assert await world.counts(other.session, "out") == (0, 0)

    play(leveret_broker, scene)


@pytest.mark.feature("S3-15")
def test_a_rollback_waits_for_the_delay_of_the_policy(leveret_broker: Broker) -> None:
    """By the scheduler; one second unless told otherwise."""

    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        consumer = await world.consumer(TRANSACTED)
        await world.bodies(consumer, 1)
        await consumer.session.rollback()
        assert await consumer.receive_no_wait() is None  # b waits behind a
        world.clock.advance(1)
        assert await world.bodies(consumer, 2) == [b"a", b"b"]

    play(leveret_broker, scene)


@pytest.mark.feature("S3-16", "S3-23")
def test_transactions_are_per_session(leveret_broker: Broker) -> None:
    """Two consumers of one session share its transaction; another session has its own."""

    async def scene(world: JmsHarness) -> None:
        for queue in ("one", "two", "three"):
            await world.put(queue, queue=queue)
        shared, alone = await world.session(TRANSACTED), await world.session(TRANSACTED)
        one, two = [await shared.create_consumer(Queue(name)) for name in ("one", "two")]
        three = await alone.create_consumer(Queue("three"))
        for consumer in (one, two, three):
            await world.bodies(consumer, 1)
        await alone.rollback()
        await shared.commit()
        assert [await world.counts(shared, name) for name in ("one", "two", "three")] == [(0, 0), (0, 0), (0, 1)]
        assert await world.bodies(three, 1) == [b"three"]

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.feature("S1-12", "S1-20")
def test_poison_leaves_in_a_transaction_of_its_own(leveret_broker: Broker) -> None:
    """After the rollback, and not undone by the next one."""

    async def scene(world: JmsHarness) -> None:
        await world.channel.declare_queue("dead")
        dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await world.channel.declare_queue("q", durable=True, arguments=dead)
        world.channel.send(b"bad", "", "q")
        consumer = await world.consumer(TRANSACTED)
        session = consumer.session
        for _ in range(7):
            assert await world.bodies(consumer, 1) == [b"bad"]
            await session.rollback()
        await session.rollback()
        assert world.acks[-1] == ("POISON", [b"bad"])
        assert await world.counts(session) == (0, 0)
        assert await world.counts(session, "dead") == (1, 0)

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.parametrize("ends_with", ["commit", "rollback"])
def test_a_consumer_that_is_closed_within_a_transaction(leveret_broker: Broker, ends_with: str) -> None:
    """What it had handed over is a part of the transaction; the rest goes back when that ends."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        consumer = await world.consumer(TRANSACTED)
        session = consumer.session
        await world.bodies(consumer, 1)
        await consumer.close()
        await getattr(session, ends_with)()
        assert await world.counts(session) == ((2, 0) if ends_with == "commit" else (3, 0))
        other = await world.consumer()
        assert await world.bodies(other, 2) == ([b"b", b"c"] if ends_with == "commit" else [b"a", b"b"])

    play(leveret_broker, scene)


def test_a_transacted_listener_commits_and_rolls_back(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(TRANSACTED)
        got: list[bytes] = []

        async def listen(message: Message) -> None:
            assert message.delivery is not None
            got.append(message.delivery.body)
            if got == [b"a", b"b"]:
                await session.rollback()
            elif message.delivery.body == b"b":
                await session.commit()

        await world.put("a", "b")
        await session.create_consumer(Queue("q"), listener=listen)
        await world.until(lambda: ("STANDARD", [b"a", b"b"]) in world.acks)
        assert got == [b"a", b"b", b"a", b"b"]
        assert await world.counts(session) == (0, 0)

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.feature("S1-11")
def test_a_transaction_may_be_larger_than_the_prefetch(leveret_broker: Broker) -> None:
    """The window moves on, and all of it can be rolled back, and committed."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcdefg")
        consumer = await world.consumer(TRANSACTED, prefetch=2)
        for end in ("rollback", "commit"):
            assert b"".join(await world.bodies(consumer, 7)) == b"abcdefg"
            await getattr(consumer.session, end)()
        assert await world.counts(consumer.session) == (0, 0)

    play(leveret_broker, scene, redelivery=AT_ONCE)


def test_sessions_without_transactions_have_no_commit(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.AUTO)
        for call in (session.commit, session.rollback):
            with pytest.raises(IllegalState, match="no transactions"):
                await call()
        await session.close()
        with pytest.raises(IllegalState, match="closed"):
            await session.commit()

    play(leveret_broker, scene)


@pytest.mark.feature("S1-07")
def test_a_commit_makes_a_queue_again_that_was_deleted(leveret_broker: Broker) -> None:
    """What was received is acked by then, so what was sent must not be lost."""

    async def scene(world: JmsHarness) -> None:
        await world.put("order")
        consumer = await world.consumer(TRANSACTED)
        session = consumer.session
        await send(session, "first")
        await session.commit()
        await world.channel.delete_queue("out")
        assert await world.bodies(consumer, 1) == [b"order"]
        for text in ("bill", "letter"):
            await send_on(session, text)
        await session.commit()
        assert await world.counts(session) == (0, 0)
        fetched = [await world.channel.get("out", no_ack=True) for _ in range(3)]
        assert [each and each.body for each in fetched] == [b"bill", b"letter", None]
        assert fetched[0] is not None
        assert fetched[0].properties.content_type == "text/plain"

    async def send_on(session: Session, text: str) -> None:
        await Producer(session.outgoing, Queue("out")).send(session.create_text_message(text))

    play(leveret_broker, scene)


def test_a_commit_makes_no_queue_of_a_place_for_answers_that_is_gone(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(TRANSACTED)
        await (await session.create_producer()).send(TextMessage("late"), named_in_reply_to("temporary-1"))
        with pytest.raises(InvalidDestination, match="the first for 'temporary-1'"):
            await session.commit()
        assert "temporary-1" not in leveret_broker.node.broker.vhost("/").queues

    play(leveret_broker, scene)
