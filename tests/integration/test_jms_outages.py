"""What a JMS application hears while its broker is away: times hold, errors arrive, and nothing hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from unittest.mock import patch

import pytest

import leveret
from leveret.client import ConnectionLost
from leveret.client.jms import AckMode, MessageConsumer, Queue, Sending, Session, TextMessage, Topic
from tests.support.jms_outage import Outage, before_an_outage

Broker = leveret.Broker
AT_ONCE = 8.0  # seconds, of which an outage has more


async def text(consumer: MessageConsumer) -> object:
    message = await consumer.receive()
    assert message is not None
    return message.body


async def send(session: Session, *texts: str) -> None:
    producer = await session.create_producer(Queue("q"))
    for each in texts:
        await producer.send(TextMessage(each))


# ---- receive


@pytest.mark.feature("S3-19")
def test_a_pull_keeps_its_time_in_an_outage(leveret_broker: Broker) -> None:
    async def work() -> None:
        async with before_an_outage(leveret_broker) as outage:
            session = await outage.connection.create_session()
            consumer = await session.create_consumer(Queue("q"), prefetch=0)
            await outage.begin()
            async with asyncio.timeout(AT_ONCE):
                assert await consumer.receive(timeout=0.01) is None
                assert await consumer.receive_no_wait() is None
            await outage.end()
            await send(session, "a")
            assert await text(consumer) == "a"

    asyncio.run(work())


@pytest.mark.feature("S3-19")
def test_a_pull_that_an_outage_overtakes_is_over(leveret_broker: Broker) -> None:
    """The broker was asked, and will not answer."""

    async def work() -> None:
        async with before_an_outage(leveret_broker) as outage:
            session = await outage.connection.create_session()
            consumer = await session.create_consumer(Queue("q"), prefetch=0)
            outage.proxy.stall()
            asked = asyncio.ensure_future(consumer.receive_no_wait())
            await asyncio.sleep(0)
            await outage.begin()
            async with asyncio.timeout(AT_ONCE):
                assert await asked is None
            outage.proxy.resume()
            await outage.end()
            await send(session, "a")
            assert await text(consumer) == "a"

    asyncio.run(work())


@pytest.mark.feature("S3-08")
def test_who_waits_for_a_pull_is_told_that_there_is_no_broker(leveret_broker: Broker) -> None:
    """After the time that the address gives; the next receive() is another matter."""

    async def work() -> None:
        async with before_an_outage(leveret_broker, "&timeout=20") as outage:
            session = await outage.connection.create_session()
            consumer = await session.create_consumer(Queue("q"), prefetch=0)
            await outage.begin()
            for _ in range(2):
                async with asyncio.timeout(AT_ONCE):
                    with pytest.raises(ConnectionLost, match="no connection"):
                        await consumer.receive()
            await outage.end()
            await send(session, "a")
            assert await text(consumer) == "a"

    asyncio.run(work())


@pytest.mark.feature("S1-11")
def test_a_window_that_could_not_move_in_an_outage_moves_after_it(leveret_broker: Broker) -> None:
    async def work() -> None:
        async with before_an_outage(leveret_broker, "&timeout=20") as outage:
            await send(await outage.connection.create_session(), *"abcd")
            consumer = await (await outage.connection.create_session(AckMode.CLIENT)).create_consumer(
                Queue("q"), prefetch=2
            )
            assert await text(consumer) == "a"
            outage.proxy.stall()
            assert await text(consumer) == "b"  # and the window moves, or would
            await outage.begin()
            outage.proxy.resume()
            waits = asyncio.ensure_future(text(consumer))
            with pytest.raises(ConnectionLost):
                await consumer.session.channel.qos(1)  # the same as the window has heard by then
            await outage.end()
            assert await waits == "c"
            assert await text(consumer) == "d"

    asyncio.run(work())


def test_a_request_keeps_its_time_in_an_outage(leveret_broker: Broker) -> None:
    async def work() -> None:
        async with before_an_outage(leveret_broker) as outage:
            requestor = await (await outage.connection.create_session()).create_requestor(Queue("q"))
            await outage.begin()
            async with asyncio.timeout(AT_ONCE):
                with pytest.raises(TimeoutError, match="no reply to the request on queue 'q'"):
                    await requestor.request(TextMessage("a"), timeout=0.01)

    asyncio.run(work())


# ---- close


async def _everything(outage: Outage) -> Session:
    """A session with each kind of what has something to say to the broker at its end."""
    session = await outage.connection.create_session()
    await session.create_consumer(Topic("t"))
    await session.create_consumer(Queue("q"))
    await session.create_consumer(Queue("q"), prefetch=0)
    browser, requestor = await session.create_browser(Queue("q")), await session.create_requestor(Queue("q"))
    await browser.next()
    with pytest.raises(TimeoutError):
        await requestor.request(TextMessage("?"), timeout=0.01)
    return session


def test_a_connection_closes_in_an_outage(leveret_broker: Broker) -> None:
    async def work() -> None:
        async with before_an_outage(leveret_broker) as outage:
            for _ in range(2):
                await _everything(outage)
            await outage.begin()
            async with asyncio.timeout(AT_ONCE):
                await outage.connection.close()

    asyncio.run(work())


@pytest.mark.parametrize("what", ["a subscriber", "a consumer", "a pull", "a session"])
@patch("leveret.client.jms.connection.CLOSE_SECONDS", 0.01)
def test_what_closes_in_an_outage_waits_a_while_and_is_gone_after_it(leveret_broker: Broker, what: str) -> None:
    async def work() -> None:
        async with before_an_outage(leveret_broker) as outage:
            await send(await outage.connection.create_session(), "a")
            session = await outage.connection.create_session(AckMode.CLIENT)
            subscriber = await session.create_consumer(Topic("t"))
            consumer = await session.create_consumer(Queue("q"))
            pull = await session.create_consumer(Queue("other"), prefetch=0)
            waits = asyncio.ensure_future(pull.receive())
            close: dict[str, Callable[[], Awaitable[None]]] = {
                "a subscriber": subscriber.close,
                "a consumer": consumer.close,
                "a pull": pull.close,
                "a session": session.close,
            }
            assert await text(consumer) == "a"
            await outage.begin()
            async with asyncio.timeout(AT_ONCE):
                await close[what]()
            await outage.end()
            await _gone(leveret_broker, outage, what, subscriber.source.queue)
            waits.cancel()

    asyncio.run(work())


async def _gone(broker: Broker, outage: Outage, what: str, subscription: str) -> None:
    """No subscription and no consumer of a closed one is left at the broker, sooner or later."""
    queues = broker.node.broker.vhost("/").queues
    probe = await outage.connection.client.channel()

    async def consumers(queue: str) -> int:
        return (await probe.declare_queue(queue, passive=True)).consumer_count

    if what in ("a subscriber", "a session"):
        while subscription in queues:
            await consumers("q")
    if what in ("a consumer", "a session"):
        while await consumers("q"):
            pass
    if what in ("a pull", "a session"):
        while await consumers("other"):
            pass


@patch("leveret.client.jms.producer.CLOSE_SECONDS", 0.01)
def test_a_close_tells_of_sends_that_an_outage_left_unconfirmed(leveret_broker: Broker) -> None:
    async def work() -> None:
        heard: list[Exception] = []
        async with before_an_outage(leveret_broker, sending=Sending(is_async=True)) as outage:
            outage.connection.exception_listener = heard.append
            session = await outage.connection.create_session()
            producer = await session.create_producer(Queue("q"))
            await producer.send(TextMessage("safe"))
            await asyncio.wait(session.outgoing._ahead)
            await outage.begin()
            for _ in range(3):
                await producer.send(TextMessage("not yet"))
            async with asyncio.timeout(AT_ONCE):
                await outage.connection.close()
        assert [str(problem).partition(":")[0] for problem in heard] == [
            "the broker has not confirmed 3 messages that were sent without waiting"
        ]

    asyncio.run(work())
