"""What a failover: connection declares again after a cut, what it finds again, and what it lets rest."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Cancelled, ClientError
from leveret.client.recovering_connection import RecoveringConnection
from tests.support.failover_client import failing_over, run, taken, told
from tests.support.failover_connection import Line, answered, bodies_in, one_of, play


def queues_of(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: list(broker.node.broker.vhost("/").queues))


def exchanges_of(broker: leveret.Broker) -> list[str]:
    names = broker.call(lambda: list(broker.node.broker.vhost("/").exchanges))
    return [name for name in names if name and not name.startswith("amq.")]


def remembered(line: Line) -> tuple[int, int, int]:
    """How many exchanges, queues and bindings would be declared again."""
    assert isinstance(line.connection, RecoveringConnection)
    record = line.connection.record
    return len(list(record.exchanges())), len(list(record.queues())), len(list(record.bindings()))


# ---- messages that came before the cut


def test_messages_that_the_broker_has_forgotten_stay_for_the_application(leveret_broker: leveret.Broker) -> None:
    """Without acks the broker forgets what it delivers: what waits in the client is nowhere else."""

    async def story(line: Line) -> list[bytes]:
        channel = line.channel
        await channel.declare_queue("q")
        consumer = await channel.consume("q", no_ack=True)
        for number in range(3):
            await channel.publish(b"%d" % number, routing_key="q")
        await answered(channel)
        assert len(consumer.waiting) == 3
        await line.cut()
        await channel.publish(b"3", routing_key="q")
        return [(await one_of(consumer)).body for _ in range(4)]

    assert play(leveret_broker, story) == [b"0", b"1", b"2", b"3"]


# ---- queues that the broker named


def test_a_queue_that_the_broker_named_and_kept_is_found_again(leveret_broker: leveret.Broker) -> None:
    """With its backlog and its bindings; only one that is gone gets another name."""

    async def story(line: Line) -> None:
        channel = line.channel
        queue = (await channel.declare_queue(durable=True)).queue
        await channel.bind_queue(queue, "amq.fanout")
        await channel.confirm_select()
        await channel.publish(b"before", "amq.fanout")
        for _ in range(2):
            await line.cut()
        await channel.publish(b"after", "amq.fanout")
        assert queues_of(leveret_broker) == [queue]
        assert await taken(await channel.consume(queue), 2) == [b"before", b"after"]
        await asyncio.to_thread(leveret_broker.vhost().delete_queue, queue)
        await told(line.connection, "reconnected", line.proxy.cut)
        (other,) = queues_of(leveret_broker) or [""]
        assert other == "", "the broker said that it is gone"

    play(leveret_broker, story)


def test_a_queue_that_the_broker_named_and_lost_gets_another_name(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = line.channel
        queue = (await channel.declare_queue(durable=True)).queue
        await asyncio.to_thread(leveret_broker.vhost().delete_queue, queue)
        await line.cut()
        (other,) = queues_of(leveret_broker)
        assert other != queue
        await channel.confirm_select()
        await channel.publish(b"by its first name", routing_key=queue)
        assert bodies_in(leveret_broker, other) == [b"by its first name"]
        await line.cut()
        assert queues_of(leveret_broker) == [other]

    play(leveret_broker, story)


# ---- what the broker deletes by itself


def test_auto_delete_queues_are_forgotten_with_their_last_consumer(leveret_broker: leveret.Broker) -> None:
    """A queue for each request must not be remembered for ever, and not be brought to life by the next cut."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_exchange("replies", auto_delete=True)
        for number in range(5):
            name = f"reply.{number}"
            await channel.declare_queue(name, auto_delete=True)
            await channel.bind_queue(name, "replies", name)
            first, second = await channel.consume(name), await channel.consume(name)
            await first.cancel()
            assert remembered(line) == (1, 1, 1)
            await second.cancel()
            assert remembered(line) == (0, 0, 0)
            await channel.declare_exchange("replies", auto_delete=True)
        await channel.delete_exchange("replies")
        await line.cut()

    play(leveret_broker, story)
    assert queues_of(leveret_broker) == []
    assert exchanges_of(leveret_broker) == []


def test_auto_delete_queues_are_forgotten_with_the_channel_of_their_consumers(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        for number in range(2):
            channel = await line.connection.channel()
            await channel.declare_queue(f"q{number}", auto_delete=True)
            await channel.consume(f"q{number}")
            await line.cut()
            assert queues_of(leveret_broker) == [f"q{number}"], "a cut is not the end of its consumer"
            await channel.close()
            assert remembered(line) == (0, 0, 0)
        await line.cut()

    play(leveret_broker, story)
    assert queues_of(leveret_broker) == []


def test_a_queue_that_somebody_deleted_is_not_declared_again(leveret_broker: leveret.Broker) -> None:
    """The broker says so to its consumers."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q", durable=True)
        await channel.bind_queue("q", "amq.fanout")
        consumer = await channel.consume("q")
        await asyncio.to_thread(leveret_broker.vhost().delete_queue, "q")
        with pytest.raises(Cancelled):
            await consumer.next()
        await line.cut()

    play(leveret_broker, story)
    assert queues_of(leveret_broker) == []


def test_a_queue_from_which_one_message_was_asked_for_is_declared_again(leveret_broker: leveret.Broker) -> None:
    """The broker ends such a consumer after its message, though the queue is there."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        consumer = await channel.consume("q", arguments={"x-pull-one": True})
        await channel.publish(b"one", routing_key="q")
        (await one_of(consumer)).ack()
        with pytest.raises(Cancelled):
            await consumer.next()
        assert remembered(line) == (0, 1, 0)

    play(leveret_broker, story)


# ---- a queue without a name


def test_a_queue_without_a_name_is_the_one_that_was_declared_last(leveret_broker: leveret.Broker) -> None:
    """Also after a cut, when the broker knows of none."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        await channel.confirm_select()
        for _ in range(2):
            await channel.bind_queue("", "amq.direct")
            await channel.publish(b"a", "amq.direct", "q")
            got = await channel.get("")
            assert got is not None
            got.ack()
            await channel.unbind_queue("", "amq.direct")
            await channel.publish(b"b", "amq.direct", "q")
            assert await channel.purge_queue("") == 0
            consumer = await channel.consume("")
            assert consumer.queue == "q"
            await channel.publish(b"c", routing_key="q")
            assert await taken(consumer, 1) == [b"c"]
            await consumer.cancel()
            await line.cut()
        await channel.delete_queue("")

    play(leveret_broker, story)
    assert queues_of(leveret_broker) == []


# ---- transactions


def test_transactions_behind_a_publish_are_refused_before_anything_is_sent(leveret_broker: leveret.Broker) -> None:
    """What was published is confirmed unasked, and no channel does both."""

    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (connection, channel, _):
            await channel.declare_queue("q")
            await channel.publish(b"a", routing_key="q")
            with pytest.raises(ClientError, match="select transactions before the first publish, or on another"):
                await channel.select_transactions()
            await channel.publish(b"b", routing_key="q")
            await answered(channel)
            other = await connection.channel()
            await other.select_transactions()
            await other.publish(b"c", routing_key="q")
            await other.commit()

    run(work)
    assert bodies_in(leveret_broker, "q") == [b"a", b"b", b"c"]
