"""What goes wrong for leveret.client at RabbitMQ, beside Leveret: the same errors, with the same codes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from leveret.client import Channel, Connection, ConnectionLost, connect
from leveret.errors import AmqpError, LoginRefused, NotAllowed, NotFound, PreconditionFailed
from tests.support.client_scenarios import live, run

Play = Callable[[Channel], Coroutine[Any, Any, object]]


async def new_queue(channel: Channel) -> str:
    return (await channel.declare_queue(exclusive=True)).queue


# ---- of the connection


@pytest.mark.parametrize(
    ("part", "changed", "kind", "code"),
    [("guest:guest@", "guest:wrong@", LoginRefused, 403), ("/%2F", "/nowhere", NotAllowed, 530)],
    ids=["password", "vhost"],
)
def test_who_may_not_in_is_told_why(url: str, part: str, changed: str, kind: type[AmqpError], code: int) -> None:
    with_vhost = url if url.endswith("/%2F") else f"{url.rstrip('/')}/%2F"
    assert part in with_vhost

    async def story() -> None:
        with pytest.raises(kind) as refused:
            await connect(with_vhost.replace(part, changed))
        assert refused.value.code == code

    run(story)


def test_an_error_of_the_connection_ends_all_its_channels(url: str) -> None:
    async def story(connection: Connection) -> None:
        first, second = await connection.channel(), await connection.channel()
        waiting = asyncio.ensure_future((await second.consume(await new_queue(second))).next())
        with pytest.raises(AmqpError) as refused:
            await first.qos(1, prefetch_size=5)
        assert refused.value.code == 540
        with pytest.raises(type(refused.value)):
            await waiting
        assert connection.is_closed
        assert second.is_closed
        await connection.close()

    live(url, story)


# ---- of a channel


ERRORS: dict[str, tuple[int, Play]] = {
    "no queue": (404, lambda channel: channel.declare_queue("no such queue", passive=True)),
    "no exchange": (404, lambda channel: channel.bind_queue("", "no such exchange")),
    "nobody to consume from": (404, lambda channel: channel.consume("no such queue")),
    "a name of the broker's": (403, lambda channel: channel.declare_queue("amq.mine")),
    "another kind": (406, lambda channel: channel.declare_exchange("amq.fanout", "direct", durable=True)),
    "confirms without transactions": (406, lambda channel: _both_modes(channel)),
    "an argument": (406, lambda channel: channel.declare_queue(exclusive=True, arguments={"x-expires": -1})),
}


async def _both_modes(channel: Channel) -> None:
    await channel.confirm_select()
    await channel.select_transactions()


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_of_a_channel_has_its_code_and_ends_it_alone(url: str, name: str) -> None:
    code, provoke = ERRORS[name]

    async def story(connection: Connection) -> None:
        channel, other = await connection.channel(), await connection.channel()
        queue = await new_queue(channel)
        consumer = await channel.consume(queue)
        with pytest.raises(AmqpError) as refused:
            await provoke(channel)
        assert refused.value.code == code
        assert channel.is_closed
        with pytest.raises(type(refused.value)):
            channel.ack(1)
        with pytest.raises(type(refused.value)):
            await consumer.next()
        await new_queue(other)
        await new_queue(await connection.channel())

    live(url, story)


def test_errors_that_nobody_asked_for(url: str) -> None:
    """A publish to nowhere, an unknown tag: they end the channel, and whoever waits on it learns why."""

    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        with pytest.raises(NotFound, match="no exchange 'no such exchange'"):
            await channel.publish(b"", "no such exchange")
        channel = await connection.channel()
        ended: list[Exception] = []
        channel.on_close = ended.append
        channel.ack(7)
        with pytest.raises(PreconditionFailed, match="unknown delivery tag 7"):
            await channel.qos(1)
        assert [type(each) for each in ended] == [PreconditionFailed]

    live(url, story)


def test_a_queue_of_another_connection_is_locked(url: str) -> None:
    async def story(connection: Connection) -> None:
        queue = await new_queue(await connection.channel())
        async with await connect(url) as other:
            with pytest.raises(AmqpError) as refused:
                await (await other.channel()).declare_queue(queue, passive=True)
        assert refused.value.code == 405

    live(url, story)


def test_nobody_listens_there() -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLost, match=r"no connection to amqp://guest@127\.0\.0\.1:1/"):
            await connect("amqp://127.0.0.1:1")

    run(story)
