"""Requests and their answers: many at once, none mixed up, none waited for in vain."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client.errors import Closed, ConnectionLost
from leveret.client.jms import AckMode, IllegalState, InvalidDestination, Queue, Session, Topic
from leveret.client.jms.messages import Message, TextMessage
from leveret.errors import AmqpError
from tests.support.jms_harness import JmsHarness, play


async def answering(session: Session, queue: str = "squares") -> None:
    """A service: the square of each number, the answers in another order than the requests."""
    send = await session.create_producer()

    async def answer(message: Message) -> None:
        assert isinstance(message, TextMessage)
        answer = session.create_text_message(str(int(message.text) ** 2))
        answer.correlation_id = message.correlation_id
        await send.send(answer, message.reply_to)

    await session.create_consumer(Queue(queue), listener=answer)


def test_many_requests_at_once_get_their_own_answers(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        for _ in range(3):  # three at work: answers come in any order
            await answering(await world.session())
        requestor = await (await world.session()).create_requestor(Queue("squares"))
        answers = await asyncio.gather(*(requestor.request(TextMessage(f"{n}"), 20) for n in range(50)))
        assert [answer.body for answer in answers] == [f"{n * n}" for n in range(50)]
        queues = leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues))
        assert queues == ["squares"]  # nothing is stored for answers

    play(leveret_broker, scene)


def test_a_service_may_be_transacted_and_answer_with_its_commit(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.SESSION_TRANSACTED)
        consumer = await session.create_consumer(Queue("service"))
        requestor = await (await world.session()).create_requestor(Queue("service"))
        asked = asyncio.ensure_future(requestor.request(TextMessage("ping"), 20))
        request = await consumer.receive()
        assert request is not None
        answer = session.create_text_message("pong")
        answer.correlation_id = request.correlation_id
        await (await session.create_producer()).send(answer, request.reply_to)
        await session.channel.declare_queue("service", passive=True)  # the broker has the answer by now
        assert not asked.done()
        await session.commit()
        assert (await asked).body == "pong"

    play(leveret_broker, scene)


def test_a_request_that_nobody_answers_times_out_and_leaves_the_queue(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        requestor = await (await world.session()).create_requestor(Queue("silent"))
        with pytest.raises(TimeoutError, match=r"queue 'silent' within 0\.05 s: does it have a consumer"):
            await requestor.request(TextMessage("hello?"), 0.05)
        leveret_broker.clock.advance(1)
        assert leveret_broker.vhost().message_count("silent") == 0

    play(leveret_broker, scene)


def test_a_late_or_foreign_answer_disturbs_nobody(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_consumer(Queue("service"))
        send = await session.create_producer()
        requestor = await session.create_requestor(Queue("service"))
        asked = asyncio.ensure_future(requestor.request(TextMessage("1"), 20))
        request = await consumer.receive()
        assert request is not None
        for correlation_id in ("", "of somebody else", request.correlation_id, request.correlation_id):
            answer = TextMessage(f"for {correlation_id}")
            answer.correlation_id = correlation_id
            await send.send(answer, request.reply_to)
        assert (await asked).body == f"for {request.correlation_id}"

    play(leveret_broker, scene)


def test_answers_may_go_to_a_temporary_queue_or_a_topic(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        service = await session.create_consumer(Queue("service"))
        send = await session.create_producer()
        for place in (await session.create_temporary_queue(), Topic("answers.me")):
            answers = await session.create_consumer(place)
            request = TextMessage("?")
            request.reply_to = place
            await send.send(request, Queue("service"))
            came = await service.receive()
            assert came is not None
            assert came.reply_to == place
            await send.send(TextMessage("!"), came.reply_to)
            answer = await answers.receive()
            assert answer is not None
            assert answer.body == "!"

    play(leveret_broker, scene)


def test_who_waits_for_an_answer_learns_that_the_connection_is_gone(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_consumer(Queue("service"))
        requestor = await session.create_requestor(Queue("service"))
        asked = asyncio.ensure_future(requestor.request(TextMessage("?"), 20))
        await consumer.receive()
        await asyncio.to_thread(leveret_broker.stop)
        with pytest.raises((AmqpError, ConnectionLost)):
            await asked

    play(leveret_broker, scene)


def test_who_waits_for_an_answer_learns_that_the_requestor_was_closed(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        consumer = await session.create_consumer(Queue("service"))
        requestor = await session.create_requestor(Queue("service"))
        asked = asyncio.ensure_future(requestor.request(TextMessage("?")))
        await consumer.receive()
        await requestor.close()
        with pytest.raises(Closed):
            await asked

    play(leveret_broker, scene)


def test_a_requestor_that_is_closed_asks_no_more(leveret_broker: leveret.Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        with pytest.raises(InvalidDestination, match="requests can only be sent to queues"):
            await session.create_requestor(Topic("t"))
        async with await session.create_requestor(Queue("q")) as requestor:
            pass
        with pytest.raises(IllegalState, match="closed"):
            await requestor.request(TextMessage("?"))

    play(leveret_broker, scene)
