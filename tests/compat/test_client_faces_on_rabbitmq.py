"""Above the channel, against RabbitMQ: questions that overtake each other, threads, failover and fanout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from queue import Queue
from uuid import uuid4

import pytest

from leveret.client import (
    Channel,
    Closed,
    Connection,
    Nacked,
    Properties,
    TransactionRolledBack,
    Unroutable,
    blocking,
    connect,
)
from leveret.errors import NotFound
from tests.support.chaos_proxy import ChaosProxy
from tests.support.client_scenarios import PATIENCE, in_thread, live, queue_with, run
from tests.support.failover_client import QUICK, failing_over, taken, told

COUNT = 400  # messages through a line that is cut


@pytest.fixture
def name(url: str) -> Iterator[str]:
    """Of a queue that is gone afterwards."""
    name = f"of a test {uuid4().hex}"
    yield name

    async def clear(connection: Connection) -> None:
        await (await connection.channel()).delete_queue(name)

    live(url, clear)


# ---- questions that overtake each other


@pytest.mark.feature("S3-05")
def test_answers_that_overtake_find_their_questions(url: str) -> None:
    """RabbitMQ answers consumes and cancels later than what was asked behind them on the channel."""

    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queues = [(await channel.declare_queue(exclusive=True)).queue for _ in range(5)]
        for number in range(10):
            consumers, _, declared, fetched, _ = await asyncio.gather(
                asyncio.gather(*(channel.consume(queue) for queue in queues)),
                channel.qos(10 + number),
                channel.declare_queue(queues[-1], passive=True),
                channel.get(queues[0]),
                channel.declare_exchange("amq.topic", "topic", passive=True),
            )
            assert declared.queue == queues[-1]
            assert fetched is None
            for queue, consumer in zip(queues, consumers, strict=True):  # each has its own tag
                channel.send(queue.encode(), "", queue)
                assert await taken(consumer, 1) == [queue.encode()]
            *_, purged = await asyncio.gather(
                *(consumer.cancel() for consumer in consumers), channel.qos(5), channel.purge_queue(queues[0])
            )
            assert purged == 0
        assert channel.consumers == {}

    live(url, story)


def test_a_close_that_crosses_the_brokers_own(url: str) -> None:
    async def story(connection: Connection) -> None:
        for _ in range(5):
            channel = await connection.channel()
            consumer = await channel.consume((await channel.declare_queue(exclusive=True)).queue)
            refused, cancelled, closed = await asyncio.gather(
                channel.declare_queue("no such queue", passive=True),
                consumer.cancel(),
                channel.close(),
                return_exceptions=True,
            )
            assert isinstance(refused, NotFound)
            assert isinstance(cancelled, NotFound | Closed | None)
            assert closed is None
        await (await connection.channel()).qos(1)

    live(url, story)


# ---- threads


def test_the_blocking_face(url: str) -> None:
    with blocking.connect(url) as connection:
        channel = connection.channel()
        channel.confirm_select()
        limits = {"x-max-length": 3, "x-overflow": "reject-publish"}
        queue = channel.declare_queue(exclusive=True, arguments=limits).queue
        answers = [channel.send(b"%d" % number, "", queue) for number in range(3)]
        assert [each.result(PATIENCE) for each in answers if each is not None] == [None] * 3
        with pytest.raises(Nacked):
            channel.publish(b"full", "", queue)
        with pytest.raises(Unroutable):
            channel.publish(b"lost", "", "nowhere", mandatory=True)
        first = channel.get(queue)
        assert first is not None
        first.nack()
        with channel.consume(queue) as consumer:
            bodies = []
            for message in consumer:
                message.ack()
                bodies.append(message.body)
                if len(bodies) == 3:
                    break
        assert bodies == [b"0", b"1", b"2"]
        with pytest.raises(NotFound):
            channel.declare_queue("no such queue", passive=True)


def test_callbacks_in_a_thread(url: str) -> None:
    with blocking.connect(url) as connection:
        channel = connection.channel()
        queue = queue_with(channel, b"1", b"2")
        got: Queue[object] = Queue()
        channel.consume(queue, lambda message: (message.ack(), got.put(message.body)))
        thread = in_thread(got, channel.start_consuming)
        assert [got.get(timeout=PATIENCE) for _ in range(2)] == [b"1", b"2"]
        channel.stop_consuming()
        thread.join(PATIENCE)
        assert not thread.is_alive()


# ---- failover


@pytest.mark.feature("S3-08")
def test_each_message_reaches_the_application_once_through_cuts(url: str, name: str) -> None:
    """RabbitMQ's queues take twice what is sent twice: the client knows the ids."""

    async def story() -> None:
        plan = [8_000 + 3_000 * (number % 5) for number in range(12)]
        async with (
            ChaosProxy(url, cut_plan=plan) as proxy,
            failing_over(proxy.url) as (_, sending, _),
            failing_over(proxy.url) as (_, receiving, _),
        ):
            await sending.declare_queue(name, durable=True)
            await sending.confirm_select()
            await receiving.qos(50)
            consumer = await receiving.consume(name)
            receiver = asyncio.ensure_future(taken(consumer, COUNT))
            kept = Properties(delivery_mode=2)
            confirms = [sending.send(b"%d" % number, "", name, kept) for number in range(COUNT)]
            await asyncio.gather(*(confirm for confirm in confirms if confirm is not None))
            came = await receiver
            assert sorted(came, key=int) == [b"%d" % number for number in range(COUNT)]
            assert await consumer.next(0.05) is None
            assert proxy.cuts >= 5

    run(story)


@pytest.mark.feature("S3-08")
def test_what_is_in_rabbitmqs_queue_twice_is_seen_once(url: str, name: str) -> None:
    """The confirm was lost, the message is sent again, the consumer's audit drops it."""

    async def story() -> None:
        async with (
            ChaosProxy(url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
            failing_over(url) as (_, other, _),
        ):
            await channel.declare_queue(name, durable=True)
            await channel.confirm_select()
            consumer = await other.consume(name)
            proxy.half_close()
            confirm = channel.send(b"once", "", name)
            assert confirm is not None
            assert await taken(consumer, 1) == [b"once"]  # and its publisher does not know
            await told(connection, "reconnected", proxy.cut)
            await confirm
            await channel.publish(b"next", "", name)
            assert await taken(consumer, 1) == [b"next"]
            await consumer.cancel()
            assert await other.get(name) is None

    run(story)


def test_a_message_in_hand_and_its_consumer_outlive_a_cut(url: str, name: str) -> None:
    async def story() -> None:
        async with ChaosProxy(url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            await channel.declare_queue(name)
            temporary = (await channel.declare_queue(exclusive=True)).queue
            await channel.bind_queue(temporary, "amq.topic", name)
            consumer = await channel.consume(name)
            await channel.publish(b"in hand", "", name)
            delivery = await consumer.next()
            assert delivery is not None
            await told(connection, "reconnected", proxy.cut)
            delivery.ack()
            await channel.publish(b"next", "", name)
            assert await taken(consumer, 1) == [b"next"]
            await consumer.cancel()
            assert await channel.get(name) is None
            await channel.confirm_select()
            await channel.publish(b"bound again", "amq.topic", name, mandatory=True)
            fetched = await channel.get(temporary, no_ack=True)  # by its old name
            assert fetched is not None

    run(story)


def test_a_transaction_with_a_stale_ack_is_rolled_back_as_a_whole(url: str, name: str) -> None:
    """What was published in it since the connection is back goes with it, and does not come with the next commit."""

    async def story() -> None:
        async with ChaosProxy(url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            await channel.declare_queue(name)
            await channel.select_transactions()
            channel.send(b"first", "", name)
            await channel.commit()
            delivery = await channel.get(name)
            assert delivery is not None
            await told(connection, "reconnected", proxy.cut)
            channel.send(b"never", "", name)
            delivery.ack()
            with pytest.raises(TransactionRolledBack):
                await channel.commit()
            channel.send(b"second", "", name)
            await channel.commit()
            bodies = [fetched.body for _ in range(2) if (fetched := await channel.get(name)) is not None]
            assert bodies == [b"first", b"second"]
            assert await channel.get(name) is None

    run(story)


@pytest.mark.feature("S3-08")
def test_from_leveret_to_rabbitmq_and_back(rabbitmq_url: str, leveret_url: str) -> None:
    """What Leveret's queues are declared with harms nobody at RabbitMQ."""
    name = uuid4().hex

    async def story() -> None:
        async with ChaosProxy(leveret_url) as proxy, failing_over(proxy.url) as (connection, channel, kinds):
            await channel.declare_queue(name, durable=True)
            await channel.confirm_select()
            consumer = await channel.consume(name)
            for url in (rabbitmq_url, leveret_url):
                await channel.publish(url.encode(), "", name)
                assert await taken(consumer, 1) == [url.encode()]
                proxy.lead_to(url)
                await told(connection, "reconnected", proxy.cut)
            assert "not restored" not in kinds
            await channel.delete_queue(name)

    run(story)
    live(rabbitmq_url, lambda connection: deleted(connection, name))


async def deleted(connection: Connection, queue: str) -> None:
    await (await connection.channel()).delete_queue(queue)


# ---- fanout


@asynccontextmanager
async def fanning_out(*urls: str) -> AsyncIterator[Channel]:
    async with await connect(f"fanout:({','.join(urls)})?{QUICK}") as connection:
        yield await connection.channel()


@pytest.mark.feature("S3-07")
def test_a_message_goes_to_rabbitmq_and_to_leveret(rabbitmq_url: str, leveret_url: str) -> None:
    """With one id, and confirmed when both have it."""
    name = uuid4().hex

    async def story() -> None:
        async with fanning_out(rabbitmq_url, leveret_url) as channel:
            await channel.declare_queue(name, durable=True)
            await channel.confirm_select()
            for number in range(50):
                channel.send(b"%d" % number, "", name)
            assert channel.confirms is not None
            await channel.confirms.all_settled()
            with pytest.raises(Unroutable):
                await channel.publish(b"", "", "nowhere", mandatory=True)
        ids = [await drained(url, name) for url in (rabbitmq_url, leveret_url)]
        assert len(ids[0]) == 50
        assert ids[0] == ids[1]

    run(story)


async def drained(url: str, queue: str) -> list[tuple[bytes, str | None]]:
    """Bodies and ids of all that is in the queue, which is deleted then."""
    async with await connect(url) as connection:
        channel = await connection.channel()
        found = []
        while (fetched := await channel.get(queue, no_ack=True)) is not None:
            found.append((fetched.body, fetched.properties.message_id))
        await channel.delete_queue(queue)
        return found
