"""The JMS face over a connection that comes back by itself: nothing of it has to be made anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import leveret
from leveret.client import ConnectionLost
from leveret.client.jms import Connection, ConnectionFactory, MessageConsumer, Queue, TextMessage, Topic
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import told

PATIENCE = 30


@asynccontextmanager
async def through(broker: leveret.Broker) -> AsyncIterator[tuple[Connection, ChaosProxy]]:
    async with asyncio.timeout(PATIENCE), ChaosProxy(broker.amqp_url) as proxy:
        factory = ConnectionFactory(f"failover:({proxy.url})?initialReconnectDelay=1", client_id="me")
        async with await factory.create_connection() as connection:
            await connection.start()
            yield connection, proxy


async def text(consumer: MessageConsumer) -> str:
    message = await consumer.receive()
    assert isinstance(message, TextMessage)
    return message.text


@pytest.mark.feature("S3-08")
def test_producers_consumers_and_subscriptions_live_on(leveret_broker: leveret.Broker) -> None:
    """Also temporary destinations keep their names, and a message that was received is not seen twice."""

    async def work() -> None:
        async with through(leveret_broker) as (connection, proxy):
            session = await connection.create_session()
            temporary = await session.create_temporary_queue()
            durable = await session.create_durable_subscriber(Topic("t.>"), "s", "k = 1")
            places = {
                Queue("q"): await session.create_consumer(Queue("q")),
                temporary: await session.create_consumer(temporary),
                Topic("t.a"): durable,
                Topic("t.b.c"): durable,
            }
            send = await session.create_producer()
            for life in ("first", "second", "third"):
                for place, consumer in places.items():
                    message = session.create_text_message(f"{life} for {place.name}")
                    message.properties["k"] = 1
                    await send.send(message, place)
                    assert await text(consumer) == f"{life} for {place.name}"
                await told(connection.client, "reconnected", proxy.cut)

    asyncio.run(work())


def test_who_waits_for_an_answer_is_told_and_can_ask_again(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with through(leveret_broker) as (connection, proxy):
            session = await connection.create_session()
            requests = await session.create_consumer(Queue("service"))
            requestor = await session.create_requestor(Queue("service"))
            asked = asyncio.ensure_future(requestor.request(session.create_text_message("1")))
            assert await text(requests) == "1"
            await told(connection.client, "reconnected", proxy.cut)
            with pytest.raises(ConnectionLost):
                await asked
            asked = asyncio.ensure_future(requestor.request(session.create_text_message("2")))
            request = await requests.receive()
            assert request is not None
            answer = session.create_text_message("yes")
            answer.correlation_id = request.correlation_id
            await (await session.create_producer()).send(answer, request.reply_to)
            assert (await asked).body == "yes"

    asyncio.run(work())
