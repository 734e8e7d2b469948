"""aio-pika: robust connections, confirms, iterators and its ready-made patterns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, QueueEmpty
from aio_pika.patterns import RPC, Master

import leveret
from tests.compat.waiting import soon


def run(broker: leveret.Broker, scenario: Callable[[AbstractRobustConnection], Awaitable[None]]) -> None:
    async def live() -> None:
        async with asyncio.timeout(30):
            connection = await aio_pika.connect_robust(broker.amqp_url, reconnect_interval=0.05)
            async with connection:
                await scenario(connection)

    asyncio.run(live())


@pytest.mark.feature("S4-47", "S4-52")
def test_the_queue_iterator_gives_messages_that_process_acks(leveret_broker: leveret.Broker) -> None:

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        queue = await channel.declare_queue("jobs", auto_delete=True)
        for number in range(20):
            await channel.default_exchange.publish(aio_pika.Message(str(number).encode()), "jobs")
        seen = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    seen.append(int(message.body))
                if len(seen) == 20:
                    break
        assert seen == list(range(20))

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-55")
def test_a_message_whose_processing_fails_is_rejected_or_requeued(leveret_broker: leveret.Broker) -> None:

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue("fragile")
        await channel.default_exchange.publish(aio_pika.Message(b"hot"), "fragile")
        first = await queue.get()
        with pytest.raises(ZeroDivisionError):
            async with first.process(requeue=True):
                raise ZeroDivisionError
        second = await queue.get()
        assert second.redelivered
        with pytest.raises(ZeroDivisionError):
            async with second.process(requeue=False):
                raise ZeroDivisionError
        with pytest.raises(QueueEmpty):
            await queue.get()

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-58", "S4-74")
def test_a_thousand_confirms_at_once_are_all_resolved(leveret_broker: leveret.Broker) -> None:

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue("bulk")
        publish = channel.default_exchange.publish
        await asyncio.gather(*(publish(aio_pika.Message(str(number).encode()), "bulk") for number in range(1000)))
        assert (await queue.declare()).message_count == 1000

    run(leveret_broker, scenario)


@pytest.mark.feature("S0-08", "S0-13")
def test_an_unroutable_message_raises_where_returns_raise(leveret_broker: leveret.Broker) -> None:
    """Aio-pika publishes as mandatory."""

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"lost"), "nobody")

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-40", "S4-45")
def test_a_topic_exchange_leads_by_pattern(leveret_broker: leveret.Broker) -> None:

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("events", aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "user.*.created")
        for key in ("user.7.created", "user.7.deleted", "user.created"):
            await exchange.publish(aio_pika.Message(key.encode()), key, mandatory=False)
        assert (await queue.get(no_ack=True)).body == b"user.7.created"
        assert await queue.get(fail=False) is None

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-09")
def test_headers_and_properties_survive_the_way(leveret_broker: leveret.Broker) -> None:

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        headers = {"text": "a", "number": 2**40, "flag": True, "list": [1, 2], "table": {"x": 1}, "none": None}
        sent = aio_pika.Message(
            b"body",
            headers=headers,
            content_type="text/plain",
            correlation_id="c",
            message_id="m",
            priority=3,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            expiration=60,
            app_id="test",
            type="kind",
        )
        await channel.default_exchange.publish(sent, queue.name)
        got = await queue.get(no_ack=True)
        assert got.headers == headers
        assert (got.content_type, got.correlation_id, got.message_id) == ("text/plain", "c", "m")
        assert (got.priority, got.delivery_mode, got.expiration) == (3, 2, 60)
        assert (got.app_id, got.type) == ("test", "kind")

    run(leveret_broker, scenario)


def test_a_priority_queue_gives_the_most_urgent_first(leveret_broker: leveret.Broker) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue("ranked", arguments={"x-max-priority": 10})
        for priority in (1, 10, 5):
            await channel.default_exchange.publish(aio_pika.Message(b"", priority=priority), "ranked")
        assert [(await queue.get(no_ack=True)).priority for _ in range(3)] == [10, 5, 1]

    run(leveret_broker, scenario)


def test_a_message_expires_by_its_own_time(leveret_broker: leveret.Broker) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue("brief")
        await channel.default_exchange.publish(aio_pika.Message(b"short", expiration=1.5), "brief")
        await channel.default_exchange.publish(aio_pika.Message(b"long", expiration=100), "brief")
        await asyncio.get_running_loop().run_in_executor(None, leveret_broker.clock.advance, 2)
        assert (await queue.get(no_ack=True)).body == b"long"
        assert await queue.get(fail=False) is None

    run(leveret_broker, scenario)


def test_a_transaction_publishes_all_or_nothing(leveret_broker: leveret.Broker) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue("ledger")
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"kept"), "ledger")
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(aio_pika.Message(b"undone"), "ledger")
        await transaction.rollback()
        assert (await queue.get(no_ack=True)).body == b"kept"
        assert await queue.get(fail=False) is None

    run(leveret_broker, scenario)


def test_the_rpc_pattern_calls_and_carries_errors_back(leveret_broker: leveret.Broker) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def fail() -> None:
        raise ValueError("no such luck")

    async def scenario(connection: AbstractRobustConnection) -> None:
        rpc = await RPC.create(await connection.channel())
        await rpc.register("multiply", multiply, auto_delete=True)
        await rpc.register("fail", fail, auto_delete=True)
        answers = await asyncio.gather(*(rpc.call("multiply", {"x": number, "y": 2}) for number in range(50)))
        assert answers == [number * 2 for number in range(50)]
        with pytest.raises(ValueError, match="no such luck"):
            await rpc.call("fail")
        await rpc.close()

    run(leveret_broker, scenario)


def test_the_master_pattern_hands_tasks_to_workers(leveret_broker: leveret.Broker) -> None:
    done: list[int] = []

    async def work(*, number: int) -> None:
        done.append(number)

    async def scenario(connection: AbstractRobustConnection) -> None:
        master = Master(await connection.channel())
        worker = await master.create_worker("numbers", work, auto_delete=True)
        for number in range(10):
            await master.create_task("numbers", {"number": number})
        await soon(lambda: len(done) == 10)
        await worker.close()
        assert sorted(done) == list(range(10))

    run(leveret_broker, scenario)


def test_a_robust_connection_comes_back_after_the_server_closed_it(leveret_broker: leveret.Broker) -> None:
    """Queue, binding and consumer are declared anew by the client, which the broker must take as it comes."""

    async def scenario(connection: AbstractRobustConnection) -> None:
        loop = asyncio.get_running_loop()
        channel = await connection.channel()
        exchange = await channel.declare_exchange("steady", aio_pika.ExchangeType.FANOUT)
        queue = await channel.declare_queue("mine", exclusive=True)
        await queue.bind(exchange)
        seen: list[bytes] = []

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                seen.append(message.body)

        await queue.consume(take)
        await exchange.publish(aio_pika.Message(b"before"), "")
        await soon(lambda: seen == [b"before"])
        returned = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: returned.set())

        def hang_up() -> None:
            for live in list(leveret_broker.node.broker.registry.connections):
                live.force_close("closed by a test")

        await loop.run_in_executor(None, leveret_broker.call, hang_up)
        await asyncio.wait_for(returned.wait(), 10)
        await exchange.publish(aio_pika.Message(b"after"), "")
        await soon(lambda: seen == [b"before", b"after"])

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-07", "S4-81")
def test_a_declare_that_differs_closes_the_channel_which_then_reopens(leveret_broker: leveret.Broker) -> None:

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        await channel.declare_queue("strict", durable=True)
        other = await connection.channel()
        with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable'"):
            await other.declare_queue("strict", durable=False)
        assert (await channel.declare_queue("strict", passive=True)).name == "strict"

    run(leveret_broker, scenario)
