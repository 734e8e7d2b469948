"""Requests over direct reply-to, and messages that are pulled, by clients in another cell than the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pika
import pytest

from leveret.client.jms import AckMode, Connection, ConnectionFactory, Queue, TextMessage
from leveret.config import Settings
from tests.integration.test_jms_request_reply import answering
from tests.support.cells_in_process import SECONDS, CellsInProcess
from tests.support.jms_harness import body_of

LOCAL = Settings(
    amqp_port=0,
    http_port=0,
    https_port=None,
    shutdown_timeout=2.0,
    queue_leader_locator="client-local",
    connections_follow_queues="off",
)
OTHERS = pytest.mark.parametrize(("near", "home"), [("c1", "c2"), ("c2", "c1")])


@pytest.fixture(scope="module")
def cells() -> Iterator[CellsInProcess]:
    with CellsInProcess(LOCAL) as running:
        yield running


async def connected(cells: CellsInProcess, cell: str, opened: AsyncExitStack) -> Connection:
    connection = await opened.enter_async_context(await ConnectionFactory(cells.url(cell)).create_connection())
    await connection.start()
    return connection


@OTHERS
def test_requests_to_a_service_in_another_cell(cells: CellsInProcess, near: str, home: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as opened:
            service, client = [await connected(cells, cell, opened) for cell in (home, near)]
            await answering(await service.create_session(), f"squares of {home}")
            requestor = await (await client.create_session()).create_requestor(Queue(f"squares of {home}"))
            answers = await asyncio.gather(*(requestor.request(TextMessage(f"{n}"), SECONDS) for n in range(20)))
            assert [answer.body for answer in answers] == [f"{n * n}" for n in range(20)]

    asyncio.run(run())


@OTHERS
def test_a_reply_to_a_requester_that_has_left_is_returned(cells: CellsInProcess, near: str, home: str) -> None:
    queue = f"late requests of {home}"
    with pika.BlockingConnection(pika.URLParameters(cells.url(home))) as connection:
        channel = connection.channel()
        channel.queue_declare(queue)
        channel.confirm_delivery()
        with pika.BlockingConnection(pika.URLParameters(cells.url(near))) as other:
            requester, replies = other.channel(), list[bytes]()
            requester.basic_consume("amq.rabbitmq.reply-to", lambda *reply: replies.append(reply[3]), auto_ack=True)
            requester.basic_publish("", queue, b"request", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
            while (request := channel.basic_get(queue, auto_ack=True))[0] is None:
                pass
            reply_to = request[1].reply_to
            channel.basic_publish("", reply_to, b"reply", mandatory=True)
            while not replies:
                other.process_data_events(SECONDS)
            assert replies == [b"reply"]
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", reply_to, b"late", mandatory=True)
        channel.basic_publish("", reply_to, b"late")


@OTHERS
@pytest.mark.parametrize("selector", [None, "colour = 'red'"])
def test_messages_of_another_cell_are_pulled_one_by_one(
    cells: CellsInProcess, near: str, home: str, selector: str | None
) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as opened:
            owner, client = [await connected(cells, cell, opened) for cell in (home, near)]
            queue, session = Queue(f"pulled from {home}"), await owner.create_session()
            producer = await session.create_producer(queue)

            async def send(text: str) -> None:
                message = TextMessage(text)
                message.properties["colour"] = "red"
                await producer.send(message)

            async with await session.create_consumer(queue, prefetch=0):  # declares it
                pulling = await client.create_session(AckMode.CLIENT)
                consumer = await pulling.create_consumer(queue, selector, prefetch=0)
            for number in range(3):
                asked = asyncio.ensure_future(consumer.receive())
                while not (await session.channel.declare_queue(queue.name, passive=True)).consumer_count:
                    pass
                await send(f"{number}")
                await send(f"{number} behind")
                for text in (f"{number}", f"{number} behind"):
                    message = await (asked if text == f"{number}" else consumer.receive())
                    assert body_of(message) == text.encode()
                    assert message is not None
                    message.acknowledge()

    asyncio.run(run())
