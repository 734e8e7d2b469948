"""What lives on when a failover: connection is cut, and what becomes of messages that were under way."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Properties, Unroutable
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, taken, told
from tests.support.failover_connection import Line, answered, bodies_in, one_of, play

# ---- what lives on


@pytest.mark.feature("S3-08")
def test_everything_lives_on_when_the_connection_is_cut(leveret_broker: leveret.Broker) -> None:
    """It connects again by itself; topology, consumers and confirms are as before."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_exchange("prices", "topic", auto_delete=True)
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.bind_queue(queue, "prices", "eu.#")
        await channel.confirm_select()
        consumer = await channel.consume(queue)
        await channel.publish(b"one", "prices", "eu.oats")
        assert await taken(consumer, 1) == [b"one"]
        await line.cut()
        assert line.kinds == ["lost", "reconnecting", "reconnected"]
        await channel.publish(b"two", "prices", "eu.oats")
        assert await taken(consumer, 1) == [b"two"]
        assert (await channel.declare_queue(queue, passive=True)).consumer_count == 1
        await channel.publish(b"three", "", queue)  # by the name that it had at first
        assert await taken(consumer, 1) == [b"three"]

    play(leveret_broker, story)
    assert leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues)) == []


@pytest.mark.feature("S3-08")
def test_a_broker_that_is_stopped_for_good_is_replaced_by_the_next(leveret_broker: leveret.Broker) -> None:
    """The topology is declared at the other broker, and the consumer goes on there."""

    async def work(first: leveret.Broker) -> None:
        async with failing_over(first.amqp_url, leveret_broker.amqp_url) as (connection, channel, _):
            await channel.declare_queue("orders", durable=True)
            await channel.declare_exchange("shop", "fanout")
            await channel.declare_exchange("audit", "fanout")
            await channel.bind_exchange("shop", "audit")
            await channel.bind_queue("orders", "shop")
            await channel.confirm_select()
            consumer = await channel.consume("orders")
            await channel.publish(b"here", "audit")
            assert await taken(consumer, 1) == [b"here"]
            loop = asyncio.get_running_loop()
            await told(connection, "reconnected", lambda: loop.run_in_executor(None, first.stop))
            await channel.publish(b"there", "audit")
            assert await taken(consumer, 1) == [b"there"]

    with leveret.Broker() as first:
        run(lambda: work(first))
    assert leveret_broker.vhost().get("orders") is None


def test_what_was_undone_is_not_done_again(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = line.channel
        for name in ("kept", "deleted"):
            await channel.declare_queue(name)
        await channel.bind_queue("kept", "amq.fanout")
        await channel.unbind_queue("kept", "amq.fanout")
        consumer = await channel.consume("kept")
        await consumer.cancel()
        await channel.delete_queue("deleted")
        await line.cut()
        await channel.publish(b"to nobody", "amq.fanout")
        await answered(channel)
        found = await channel.declare_queue("kept", passive=True)
        assert (found.message_count, found.consumer_count) == (0, 0)

    play(leveret_broker, story)
    assert leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues)) == ["kept"]


@pytest.mark.feature("S3-18")
def test_the_prefetch_is_as_before(leveret_broker: leveret.Broker) -> None:
    """It bounds what comes after a reconnect too."""

    async def story(line: Line) -> int:
        channel = line.channel
        await channel.declare_queue("q")
        await channel.qos(3)
        consumer = await channel.consume("q")
        await line.cut()
        for number in range(20):
            await channel.publish(b"%d" % number, routing_key="q")
        await channel.declare_queue("q", passive=True)
        return len(consumer.waiting)

    assert play(leveret_broker, story) == 3


def test_a_queue_that_is_there_without_deduplication_is_taken_as_it_is(leveret_broker: leveret.Broker) -> None:
    leveret_broker.vhost().declare_queue("old", durable=True)

    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (_, channel, _):
            assert (await channel.declare_queue("old", durable=True)).queue == "old"
            assert not channel.is_closed

    run(work)


# ---- messages of publishers


@pytest.mark.feature("S3-08")
def test_what_is_not_confirmed_is_sent_again_in_order(leveret_broker: leveret.Broker) -> None:
    """Without confirms of the application, and also what it publishes while there is no connection."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        line.proxy.stall()
        for number in range(5):
            channel.send(b"%d" % number, routing_key="q")
        await told(line.connection, "lost", line.proxy.cut)
        for number in range(5, 10):
            channel.send(b"%d" % number, routing_key="q")
        await told(line.connection, "reconnected", line.proxy.resume)
        await channel.declare_queue("q", passive=True)

    play(leveret_broker, story)
    assert bodies_in(leveret_broker, "q") == [b"%d" % number for number in range(10)]


@pytest.mark.feature("S3-08")
def test_a_message_whose_confirm_was_lost_is_in_the_queue_once(leveret_broker: leveret.Broker) -> None:
    """The client gives it an id and declares that the queue takes each id once."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
            failing_over(leveret_broker.amqp_url) as (_, other, _),
        ):
            await channel.declare_queue("q")
            await channel.confirm_select()
            proxy.half_close()
            confirm = channel.send(b"once", routing_key="q")
            assert confirm is not None
            consumer = await other.consume("q")
            assert (await one_of(consumer)).body == b"once"  # it is there, and the publisher does not know it
            await consumer.cancel()
            assert not confirm.done()
            await told(connection, "reconnected", proxy.cut)
            await confirm

    run(work)
    assert bodies_in(leveret_broker, "q") == [b"once"]  # from the other connection, which has closed without an ack


def test_a_message_that_came_back_is_not_sent_again(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = line.channel
        await channel.confirm_select()
        with pytest.raises(Unroutable, match="message to exchange '' with routing key 'nowhere' cannot be routed"):
            await channel.publish(b"a", routing_key="nowhere", mandatory=True)
        assert channel.confirms is not None
        await channel.confirms.all_settled()
        returned: list[object] = []
        channel.on_return = returned.append
        await line.cut()
        await answered(channel)
        assert returned == []

    play(leveret_broker, story)


def test_the_id_of_the_application_is_kept(leveret_broker: leveret.Broker) -> None:
    async def work() -> tuple[str | None, str | None]:
        async with failing_over(leveret_broker.amqp_url) as (_, channel, _):
            await channel.declare_queue("q")
            await channel.publish(b"", routing_key="q", properties=Properties(message_id="mine"))
            await channel.publish(b"", routing_key="q")
            first, second = await channel.get("q"), await channel.get("q")
            assert first is not None
            assert second is not None
            return first.properties.message_id, second.properties.message_id

    mine, made = run(work)
    assert mine == "mine"
    assert made is not None
    assert made.startswith("ID:")


# ---- messages of consumers


@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.feature("S3-08")
def test_a_message_in_hand_is_not_seen_twice_and_its_ack_counts(leveret_broker: leveret.Broker, multiple: bool) -> None:
    """The ack is of an earlier connection, the message was delivered again: that one is acked."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        consumer = await channel.consume("q")
        await channel.publish(b"in hand", routing_key="q")
        delivery = await one_of(consumer)
        await line.cut()
        await channel.publish(b"next", routing_key="q")
        second = await one_of(consumer)
        assert second.body == b"next"
        if multiple:
            second.ack(multiple=True)
        else:
            delivery.ack()
            second.ack()
        await answered(channel)

    play(leveret_broker, story)
    assert bodies_in(leveret_broker, "q") == []


@pytest.mark.feature("S3-08")
def test_a_message_whose_ack_was_lost_is_not_seen_again(leveret_broker: leveret.Broker) -> None:
    """The audit acks it when it is delivered again."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        consumer = await channel.consume("q")
        for body in (b"acked", b"rejected"):
            await channel.publish(body, routing_key="q")
        first, second = await one_of(consumer), await one_of(consumer)
        line.proxy.stall()
        first.ack()
        second.reject()
        await told(line.connection, "lost", line.proxy.cut)
        await told(line.connection, "reconnected", line.proxy.resume)
        await channel.publish(b"next", routing_key="q")
        assert await taken(consumer, 1) == [b"next"]
        await answered(channel)

    play(leveret_broker, story)
    assert bodies_in(leveret_broker, "q") == []


def test_a_message_that_is_given_back_is_seen_again(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> list[tuple[bytes, bool]]:
        channel = line.channel
        await channel.declare_queue("q")
        consumer = await channel.consume("q")
        await channel.publish(b"again", routing_key="q")
        first = await one_of(consumer)
        await line.cut()
        await answered(channel)
        first.nack(requeue=True)
        second = await one_of(consumer)
        await channel.recover()
        third = await one_of(consumer)
        third.ack()
        return [(each.body, each.redelivered) for each in (first, second, third)]

    assert play(leveret_broker, story) == [(b"again", False), (b"again", True), (b"again", True)]


def test_messages_that_wait_in_the_client_come_once_and_in_order(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> list[bytes]:
        channel = line.channel
        await channel.declare_queue("q")
        consumer = await channel.consume("q")
        for number in range(10):
            await channel.publish(b"%d" % number, routing_key="q")
        begin = await taken(consumer, 3)
        await line.cut()
        return begin + await taken(consumer, 7)

    assert play(leveret_broker, story) == [b"%d" % number for number in range(10)]


def test_get_gives_the_next_message_that_is_not_in_hand(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        for body in (b"first", b"second"):
            await channel.publish(body, routing_key="q")
        first = await channel.get("q")
        assert first is not None
        await line.cut()
        second = await channel.get("q")
        assert second is not None
        assert (first.body, second.body) == (b"first", b"second")
        first.ack()
        second.ack()
        assert await channel.get("q") is None

    play(leveret_broker, story)
    assert bodies_in(leveret_broker, "q") == []
