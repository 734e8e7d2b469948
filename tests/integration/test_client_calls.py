"""Every call of the client against a broker on a socket."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Closed, Connection, Properties
from leveret.errors import NotAllowed, NotFound, Unsupported
from tests.support.client_scenarios import live


@pytest.mark.feature("S4-04")
def test_queues_are_declared_filled_purged_and_deleted(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        made = await channel.declare_queue("calls.queue", durable=True, arguments={"x-max-length": 10})
        assert (made.queue, made.message_count, made.consumer_count) == ("calls.queue", 0, 0)
        named_by_broker = await channel.declare_queue(exclusive=True, auto_delete=True)
        assert named_by_broker.queue.startswith("amq.gen")
        await channel.confirm_select()
        for _ in range(3):
            await channel.publish(b"x", routing_key="calls.queue")
        assert (await channel.declare_queue("calls.queue", passive=True)).message_count == 3
        assert await channel.purge_queue("calls.queue") == 3
        await channel.publish(b"x", routing_key="calls.queue")
        assert await channel.delete_queue("calls.queue") == 1

    live(broker.amqp_url, story)
    assert "calls.queue" not in broker.call(lambda: set(broker.node.broker.vhosts["/"].queues))


@pytest.mark.feature("S4-04")
def test_exchanges_and_queues_are_bound_and_unbound(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.declare_exchange("calls.first", "fanout")
        await channel.declare_exchange("calls.second", "topic", durable=True, auto_delete=False, internal=True)
        await channel.bind_exchange("calls.second", "calls.first")
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.bind_queue(queue, "calls.second", "a.*")
        await channel.confirm_select()

        async def arrives() -> bool:
            await channel.publish(b"through both", "calls.first", "a.b")
            return await channel.get(queue, no_ack=True) is not None

        assert await arrives()
        await channel.unbind_queue(queue, "calls.second", "a.*")
        assert not await arrives()
        await channel.bind_queue(queue, "calls.second", "#")
        await channel.unbind_exchange("calls.second", "calls.first")
        assert not await arrives()
        await channel.delete_exchange("calls.first")
        await channel.delete_exchange("calls.second", if_unused=False)

    live(broker.amqp_url, story)


@pytest.mark.feature("S4-04")
def test_messages_are_published_consumed_and_acked(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.qos(1)
        consumer = await channel.consume(queue, tag="mine")
        assert consumer.tag == "mine"
        sent = Properties(content_type="text/plain", headers={"n": 1}, delivery_mode=2, message_id="id")
        channel.send(b"one", "", queue, sent)
        channel.send(b"two", "", queue)
        one = await consumer.next()
        assert one is not None
        assert (one.body, one.exchange, one.routing_key, one.redelivered) == (b"one", "", queue, False)
        assert one.properties == sent
        assert one.headers == {"n": 1}
        assert await consumer.next(0.05) is None, "the prefetch is 1"
        one.ack()
        two = await consumer.next()
        assert two is not None
        assert two.body == b"two"
        two.reject(requeue=True)
        again = await consumer.next()
        assert again is not None
        assert (again.body, again.redelivered) == (b"two", True)
        again.nack(requeue=False)
        await consumer.cancel()
        assert (await channel.declare_queue(queue, passive=True)).message_count == 0

    live(broker.amqp_url, story)


def test_get_takes_one_and_tells_how_many_are_left(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        for body in (b"1", b"2"):
            channel.send(body, "", queue)
        first = await channel.get(queue)
        assert first is not None
        assert (first.body, first.left) == (b"1", 1)
        first.ack()
        second = await channel.get(queue)
        assert second is not None
        assert await channel.get(queue) is None
        await channel.recover()
        again = await channel.get(queue, no_ack=True)
        assert again is not None
        assert (again.body, again.redelivered) == (b"2", True)

    live(broker.amqp_url, story)


def test_transactions_take_effect_by_commit_and_none_by_rollback(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.select_transactions()
        channel.send(b"rolled back", "", queue)
        await channel.rollback()
        channel.send(b"committed", "", queue)
        assert await channel.get(queue) is None
        await channel.commit()
        message = await channel.get(queue)
        assert message is not None
        assert message.body == b"committed"
        message.ack()
        await channel.rollback()
        await channel.recover()
        again = await channel.get(queue)
        assert again is not None, "its ack was rolled back"

    live(broker.amqp_url, story)


@pytest.mark.feature("S4-05")
def test_one_connection_carries_2000_independent_channels(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channels = await asyncio.gather(*(connection.channel() for _ in range(2_000)))
        assert len({channel.number for channel in channels}) == 2_000
        queue = (await channels[0].declare_queue(exclusive=True)).queue
        for channel in channels:
            channel.send(str(channel.number).encode(), "", queue)
        await asyncio.gather(*(channel.qos(1) for channel in channels))  # each has been heard now
        assert (await channels[0].declare_queue(queue, passive=True)).message_count == 2_000
        await channels[7].close()
        with pytest.raises(Closed):
            await channels[7].qos(1)
        await channels[8].qos(1)
        assert (await connection.channel()).number == channels[7].number, "a number that is free is used again"

    live(broker.amqp_url, story)


def test_no_more_channels_than_were_agreed_on(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        for _ in range(3):
            await connection.channel()
        with pytest.raises(NotAllowed, match="all 3 channels of the connection are open: close one"):
            await connection.channel()

    live(f"{broker.amqp_url}?channel_max=3", story)


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 131_064, 131_065, 5_000_000])
@pytest.mark.parametrize("frame_max", [4096, 131_072])
def test_messages_of_any_size_pass_in_frames_of_any_size(broker: leveret.Broker, size: int, frame_max: int) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        body = (bytes(range(251)) * (size // 251 + 1))[:size]
        await channel.confirm_select()
        await channel.publish(body, routing_key=queue)
        consumer = await channel.consume(queue, no_ack=True)
        message = await consumer.next()
        assert message is not None
        assert message.body == body

    live(f"{broker.amqp_url}?frame_max={frame_max}", story)


def test_a_new_secret_is_taken(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        await connection.update_secret("guest", "the old one was about to expire")
        await connection.channel()

    live(broker.amqp_url, story)


def test_the_connection_has_the_name_of_its_address_and_knows_the_broker(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        assert connection.server_properties["product"] in ("Leveret", "RabbitMQ")
        properties = broker.call(lambda: list(broker.node.broker.registry.connections)[-1].client_properties)  # type: ignore[attr-defined]
        assert properties["connection_name"] == "orders"
        assert properties["product"] == "Leveret client"

    live(f"{broker.amqp_url}?name=orders", story)


@pytest.mark.feature("S3-05")
def test_many_questions_may_be_under_way_on_one_channel(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        made = await asyncio.gather(*(channel.declare_queue(f"many.{n}", exclusive=True) for n in range(200)))
        assert [each.queue for each in made] == [f"many.{n}" for n in range(200)]

    live(broker.amqp_url, story)


def test_a_channel_is_closed_when_its_block_is_left(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        async with await connection.channel() as channel:
            await channel.declare_queue("q", exclusive=True)
        assert channel.is_closed
        async with await connection.channel() as channel:
            with pytest.raises(NotFound):
                await channel.declare_queue("not there", passive=True)
        assert not connection.is_closed

    live(broker.amqp_url, story)


@pytest.mark.feature("S4-04")
def test_the_broker_is_asked_to_go_on_delivering_and_refuses_to_stop(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.flow(True)
        with pytest.raises(Unsupported, match="active=false"):
            await channel.flow(False)

    live(broker.amqp_url, story)


@pytest.mark.feature("S4-05")
def test_what_is_closed_refuses_every_call(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await connection.close()
        await connection.close()
        assert connection.is_closed
        assert channel.is_closed
        with pytest.raises(Closed, match="is closed"):
            await channel.declare_queue("q")
        with pytest.raises(Closed):
            channel.send(b"x")
        with pytest.raises(Closed):
            channel.ack(1)
        with pytest.raises(Closed):
            await connection.channel()

    live(broker.amqp_url, story)
