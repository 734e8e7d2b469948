"""Confirms, returns and what a publisher learns of a queue that takes no more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import leveret
from leveret.client import Closed, Connection, Nacked, Properties, Returned, Unroutable
from leveret.config import Settings
from tests.support.client_scenarios import live


def test_a_confirm_comes_when_the_message_is_in_its_queue(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.confirm_select()  # once is enough, and twice no error
        queue = (await channel.declare_queue(exclusive=True)).queue
        other = await connection.channel()
        for number in range(1, 6):
            await channel.publish(b"x", routing_key=queue, properties=Properties(delivery_mode=2))
            assert (await other.declare_queue(queue, passive=True)).message_count == number

    live(broker.amqp_url, story)


def test_thousands_may_be_unconfirmed_at_once(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        assert channel.confirms is not None
        queue = (await channel.declare_queue(exclusive=True)).queue
        confirms = [channel.send(str(n).encode(), "", queue) for n in range(10_000)]
        assert channel.confirms.open == 10_000
        await channel.confirms.all_settled()
        assert all(confirm is not None and confirm.result() is None for confirm in confirms)
        consumer = await channel.consume(queue, no_ack=True)
        bodies = [(await consumer.__anext__()).body for _ in range(10_000)]
        assert bodies == [str(n).encode() for n in range(10_000)]

    live(broker.amqp_url, story)


def test_a_full_queue_that_rejects_publishes_is_told_by_a_nack(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
        queue = (await channel.declare_queue(exclusive=True, arguments=arguments)).queue
        sent = [channel.send(b"x", "", queue) for _ in range(4)]
        outcomes = await asyncio.gather(*(each for each in sent if each is not None), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), type(None), Nacked, Nacked]
        with pytest.raises(Nacked, match="publish it again"):
            await channel.publish(b"x", routing_key=queue)
        await channel.purge_queue(queue)
        await channel.publish(b"x", routing_key=queue)

    live(broker.amqp_url, story)


def test_a_mandatory_message_that_no_queue_takes_is_an_error_with_the_message(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        queue = (await channel.declare_queue(exclusive=True)).queue
        returned: list[Returned] = []
        channel.on_return = returned.append
        sent = [channel.send(b"x", "", key, mandatory=True) for key in (queue, "nowhere", queue, "nowhere")]
        outcomes = await asyncio.gather(*(each for each in sent if each is not None), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), Unroutable, type(None), Unroutable]
        problem = outcomes[1]
        assert isinstance(problem, Unroutable)
        assert (problem.returned.reply_code, problem.returned.body) == (312, b"x")
        assert "key 'nowhere'" in str(problem)
        assert [message.body for message in returned] == [b"x", b"x"], "who waits and who listens is told"
        await channel.publish(b"x", routing_key="nowhere")  # not mandatory: nobody minds

    live(broker.amqp_url, story)


def test_who_waits_until_all_is_settled_is_told_of_what_failed(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        assert channel.confirms is not None
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = (await channel.declare_queue(exclusive=True, arguments=arguments)).queue
        for _ in range(3):
            channel.send(b"x", "", queue)
        with pytest.raises(Nacked):
            await channel.confirms.all_settled()
        channel.send(b"x", "", "nowhere", mandatory=True)
        with pytest.raises(Unroutable, match="key 'nowhere'"):
            await channel.confirms.all_settled()
        await channel.confirms.all_settled()
        with pytest.raises(Nacked):
            await channel.publish(b"x", "", queue)
        await channel.confirms.all_settled()  # its publisher has heard it
        await channel.purge_queue(queue)
        channel.send(b"x", "", queue)
        await channel.confirms.all_settled()

    live(broker.amqp_url, story)


def test_of_two_messages_that_differ_in_their_headers_the_right_one_came_back(tmp_path: Path) -> None:
    """The one that has a queue is open for longer: it waits for the disk."""

    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_queue("green", durable=True)
        await channel.declare_exchange("by.colour", "headers")
        await channel.bind_queue("green", "by.colour", arguments={"x-match": "all", "colour": "green"})
        sent = [
            channel.send(
                b"paint", "by.colour", "", Properties(delivery_mode=2, headers={"colour": colour}), mandatory=True
            )
            for colour in ("green", "red", "green", "red")
        ]
        outcomes = await asyncio.gather(*(each for each in sent if each is not None), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), Unroutable, type(None), Unroutable]

    settings = Settings(amqp_port=0, http_port=None, https_port=None, stomp_port=None, data_dir=tmp_path)
    with leveret.Broker(settings) as running:
        live(running.amqp_url, story)


def test_without_confirms_returns_go_to_the_channels_callback(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        returned: list[Returned] = []
        channel.on_return = returned.append
        assert channel.send(b"y", "", "nowhere", Properties(headers={"h": 1}), mandatory=True) is None
        await channel.qos(1)
        (message,) = returned
        assert (message.reply_text, message.routing_key, message.body) == ("NO_ROUTE", "nowhere", b"y")
        assert message.headers == {"h": 1}

    live(broker.amqp_url, story)


def test_what_is_not_confirmed_when_the_channel_ends_fails_with_its_reason(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        confirm = channel.send(b"x", "no such exchange", "key")
        assert confirm is not None
        with pytest.raises(leveret.errors.NotFound, match="no exchange 'no such exchange'"):
            await confirm
        late = await connection.channel()
        await late.confirm_select()
        open_ = late.send(b"x", "", "nowhere")
        assert open_ is not None
        await connection.close()
        assert open_.done()
        assert open_.exception() is None or isinstance(open_.exception(), Closed)

    live(broker.amqp_url, story)


def test_a_publisher_without_confirms_waits_while_the_broker_takes_nothing() -> None:
    """The memory alarm stops reading: what is sent piles up in the client until it is congested."""

    async def story(connection: Connection) -> None:
        happened: list[str] = []
        is_blocked = asyncio.Event()
        connection.listeners.append(lambda happening: happened.append(happening.kind))
        connection.listeners.append(lambda happening: is_blocked.set() if happening.kind == "blocked" else None)
        channel = await connection.channel()
        await channel.declare_queue("filled")
        running.call(lambda: setattr(running.node.broker.memory, "high_watermark", 10_000))
        channel.send(bytes(20_000), "", "filled")  # raises the alarm
        await channel.qos(1)
        channel.send(b"", "", "filled")  # blocks the connection
        await is_blocked.wait()
        assert connection.is_blocked
        while not connection.is_congested:
            channel.send(bytes(1 << 20), "", "filled")
            await asyncio.sleep(0)
        publishing = asyncio.create_task(channel.publish(b"last", routing_key="filled"))
        await asyncio.sleep(0)
        assert not publishing.done()
        running.call(lambda: setattr(running.node.broker.memory, "high_watermark", 1 << 40))
        running.vhost().purge_queue("filled")
        await publishing
        await channel.qos(1)
        assert not connection.is_blocked
        assert happened == ["blocked", "unblocked"]

    with leveret.Broker() as running:
        live(running.amqp_url, story)
