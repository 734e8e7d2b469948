"""Moments at which a loss, a close and an answer cross, and a broker that takes less than the one before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import leveret
from leveret.client import ClientError, Delivery, Happening, Properties, connect
from leveret.client.publish_frames import ACK, ACK_IDS
from leveret.wire import methods as m
from leveret.wire.properties import encode_properties
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, told
from tests.support.failover_connection import Line, answered, bodies_in, one_of, play
from tests.support.guest_login import GUEST_LOGIN


def test_nothing_is_said_on_a_channel_behind_its_close(leveret_broker: leveret.Broker) -> None:
    """A second delivery crosses it, of a message that was acked: RabbitMQ ends the connection for an ack there."""
    again = encode_properties(Properties(message_id="x"))

    async def story(line: Line) -> bytes:
        channel = await line.connection.channel()
        await channel.declare_queue("q")
        consumer = await channel.consume("q")
        await channel.publish(b"", routing_key="q", properties=Properties(message_id="x"))
        (await one_of(consumer)).ack()
        await answered(channel)
        line.proxy.is_recording = True
        closing = asyncio.ensure_future(channel.close())
        await asyncio.sleep(0)  # until it is said
        channel.deliver(Delivery(channel, consumer.tag, 2, True, "", "q", again, b""))
        await closing
        await answered(line.channel)
        assert ACK(1, channel.number, 13, ACK_IDS, 2, False, 0xCE) not in bytes(line.proxy.upstream)
        return bytes(line.proxy.upstream)

    assert play(leveret_broker, story)


def test_a_channel_whose_connection_is_lost_with_the_answer_is_opened_by_the_next_one(
    leveret_broker: leveret.Broker,
) -> None:
    """Both are heard before the task that opens it goes on."""

    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (connection, other, kinds):
            await other.declare_queue("q")
            heard = connection.heard

            def lose_behind(channel: int, method: m.Method) -> None:
                heard(channel, method)
                if isinstance(method, m.ChannelOpenOk):
                    connection.heard = heard  # type: ignore[method-assign]
                    connection.lost(None)

            connection.heard = lose_behind  # type: ignore[method-assign]
            channel = await connection.channel()
            assert kinds == ["lost", "reconnecting", "reconnected"]
            await channel.confirm_select()
            await channel.publish(b"a", routing_key="q")

    run(work)
    assert bodies_in(leveret_broker, "q") == [b"a"]


def test_what_does_not_fit_into_the_frames_of_the_next_broker_fails_alone(leveret_broker: leveret.Broker) -> None:
    """Whoever asked it is told; everybody else goes on."""
    large: Any = {"x": "x" * 5_000}

    async def work(small: leveret.Broker) -> list[Happening]:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            happened: list[Happening] = []
            connection.listeners.append(happened.append)
            await channel.declare_queue("q")
            await channel.bind_queue("q", "amq.headers", "a", large)
            proxy.stall()
            asked = asyncio.ensure_future(channel.bind_queue("q", "amq.headers", "b", large))
            behind = asyncio.ensure_future(channel.declare_queue("behind"))
            proxy.lead_to(small.amqp_url)
            await told(connection, "lost", proxy.cut)
            await told(connection, "reconnected", proxy.resume)
            with pytest.raises(
                ClientError, match=r"queue.bind would need a frame of \d+ bytes, above the negotiated 4096"
            ):
                await asked
            assert (await behind).queue == "behind"
            return happened

    with leveret.Broker(replace(leveret_broker.settings, frame_max=4096)) as small:
        happened = run(lambda: work(small))
    (left,) = [each for each in happened if each.kind == "not restored"]
    assert "queue.bind could not be repeated" in left.text


# ---- attempts


def test_each_attempt_that_fails_is_told() -> None:
    """A listener that is given to connect hears them, and that it succeeded."""

    async def work(broker: leveret.Broker) -> list[Happening]:
        happened: list[Happening] = []
        uri = f"failover:(amqp://127.0.0.1:1,{broker.amqp_url})?randomize=false"
        async with await connect(uri, listeners=[happened.append]):
            return list(happened)

    with leveret.Broker() as broker:
        failed, connected = run(lambda: work(broker))
    assert (failed.kind, connected.kind) == ("attempt failed", "connected")
    assert failed.text.startswith("amqp://guest@127.0.0.1:1/%2F: no connection to")
    assert failed.problem is not None


def test_a_refused_login_is_told_though_the_attempts_go_on() -> None:
    """Another broker, which is away, might take it."""

    async def work(broker: leveret.Broker) -> str:
        refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def listen(happening: Happening) -> None:
            if "LoginRefused" in repr(happening.problem) and not refused.done():
                refused.set_result(happening.kind)

        wrong = broker.amqp_url.replace("guest:guest@", "guest:wrong@")
        connecting = asyncio.ensure_future(connect(f"failover:({wrong},amqp://127.0.0.1:1)", listeners=[listen]))
        kind = await refused
        assert not connecting.done()
        connecting.cancel()
        await asyncio.wait([connecting])
        return kind

    with leveret.Broker(replace(GUEST_LOGIN, login_failure_delay=0)) as broker:
        assert run(lambda: work(broker)) == "attempt failed"


@pytest.mark.parametrize(
    ("uri", "told_of"), [("{}", ["connected"]), ("fanout:({})", ["reconnecting", "connected"])], ids=["one", "fanout"]
)
def test_a_listener_that_is_given_to_connect_hears_of_the_first_connection(
    leveret_broker: leveret.Broker, uri: str, told_of: list[str]
) -> None:
    async def work() -> list[str]:
        kinds: list[str] = []
        address = uri.format(leveret_broker.amqp_url)
        async with await connect(address, listeners=[lambda happening: kinds.append(happening.kind)]):
            return list(kinds)

    assert run(work) == told_of
