"""What the broker refuses comes as an error of its own type with the reply code, and harms nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import leveret
from leveret.client import Channel, Closed, Connection, ConnectionLost, connect
from leveret.errors import (
    AccessRefused,
    AmqpError,
    ConnectionForced,
    LoginRefused,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from tests.support.client_scenarios import live, run

Refused = Callable[[Channel], Awaitable[object]]


async def declare_otherwise(channel: Channel) -> None:
    await channel.declare_queue("errors.q", exclusive=True)
    await channel.declare_queue("errors.q", exclusive=True, arguments={"x-max-length": 1})


async def ack_what_was_not_delivered(channel: Channel) -> None:
    channel.ack(99)
    await channel.qos(1)  # the ack is not answered: whoever asks next learns it


REFUSED: dict[str, tuple[Refused, type[AmqpError], int, str]] = {
    "no queue": (lambda c: c.declare_queue("nope", passive=True), NotFound, 404, "^no queue 'nope' in vhost '/'"),
    "no exchange": (lambda c: c.declare_exchange("nope", passive=True), NotFound, 404, "no exchange 'nope'"),
    "other arguments": (declare_otherwise, PreconditionFailed, 406, "x-max-length"),
    "unknown tag": (ack_what_was_not_delivered, PreconditionFailed, 406, "unknown delivery tag 99"),
    "reserved name": (lambda c: c.declare_queue("amq.mine"), AccessRefused, 403, "amq.mine"),
    "exclusive of another": (lambda c: c.declare_queue("errors.held", passive=True), ResourceLocked, 405, "held"),
    "consume from nothing": (lambda c: c.consume("nope"), NotFound, 404, "no queue 'nope'"),
    "get from nothing": (lambda c: c.get("nope"), NotFound, 404, "no queue 'nope'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_error_of_a_channel_closes_it_alone(broker: leveret.Broker, case: str) -> None:
    call, kind, code, text = REFUSED[case]

    async def story(connection: Connection) -> None:
        async with await connect(broker.amqp_url) as other:
            await (await other.channel()).declare_queue("errors.held", exclusive=True)
            channel, bystander = await connection.channel(), await connection.channel()
            ends: list[Exception] = []
            channel.on_close = ends.append
            with pytest.raises(kind, match=text) as caught:
                await call(channel)
            assert caught.value.code == code
            assert ends == [caught.value]
            with pytest.raises(kind):
                channel.send(b"x")  # the reason stays
            await bystander.qos(1)
            await (await connection.channel()).qos(1)

    live(broker.amqp_url, story)


def test_a_refused_question_ends_all_that_were_asked_behind_it(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        asked = (channel.qos(1), channel.declare_queue("nope", passive=True), channel.qos(2))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), NotFound, NotFound]

    live(broker.amqp_url, story)


def test_an_error_of_the_connection_ends_everything_on_it(broker: leveret.Broker) -> None:
    """530: a tag that is in use already."""

    async def story(connection: Connection) -> None:
        channel, other = await connection.channel(), await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        consumer = await channel.consume(queue, tag="same")
        waiting = asyncio.create_task(consumer.next())
        with pytest.raises(NotAllowed) as caught:
            await channel.consume(queue, tag="same")
        assert caught.value.code == 530
        with pytest.raises(NotAllowed):
            await other.qos(1)
        with pytest.raises(NotAllowed):
            await waiting
        assert connection.is_closed

    live(broker.amqp_url, story)


def test_a_login_that_is_refused_names_no_password(broker: leveret.Broker) -> None:
    async def story() -> None:
        with pytest.raises(LoginRefused) as caught:
            await connect(broker.amqp_url.replace("guest:guest", "guest:wr0ng"))
        assert caught.value.code == 403
        assert "wr0ng" not in str(caught.value)

    run(story)


def test_a_vhost_that_is_not_there(broker: leveret.Broker) -> None:
    async def story() -> None:
        with pytest.raises(NotAllowed, match="nowhere") as caught:
            await connect(broker.amqp_url.replace("%2F", "nowhere"))
        assert caught.value.code == 530

    run(story)


def test_nobody_there() -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLost, match=r"no connection to amqp://guest@127.0.0.1:1/%2F: .*'127.0.0.1', 1"):
            await connect("amqp://127.0.0.1:1")

    run(story)


def test_a_broker_that_stops_says_so_to_all_who_wait() -> None:
    async def story() -> None:
        running = leveret.Broker()
        running.start()
        connection = await connect(running.amqp_url)
        happened: list[str] = []
        connection.listeners.append(lambda happening: happened.append(happening.kind))
        channel = await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        consumer = await channel.consume(queue)
        waiting = asyncio.create_task(consumer.next())
        await asyncio.sleep(0)
        await asyncio.to_thread(running.stop)
        with pytest.raises(ConnectionForced) as caught:
            await waiting
        assert caught.value.code == 320
        assert connection.is_closed
        await connection.close()
        assert happened == ["lost"]

    run(story)


def test_who_gives_up_waiting_for_a_channel_leaves_none_behind(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        opening = asyncio.create_task(connection.channel())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        numbers = {(await connection.channel()).number for _ in range(2)}
        assert numbers in ({1, 2}, {2, 3}, {1, 3})
        await connection.close()
        with pytest.raises(Closed):
            await connection.channel()

    live(broker.amqp_url, story)
