"""What a channel makes of methods that cross, without a socket."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from leveret.client.channel import NO_PROPERTIES, Channel
from leveret.client.connection import Connection
from leveret.client.errors import ClientError, Closed, PeerError, error_of_close
from leveret.client.messages import Delivery
from leveret.errors import AccessRefused, LoginRefused, NotFound
from leveret.wire.frames import content_frames, decode_method, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsumeOk,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties, encode_properties


class Wire:
    """A connection that writes down what is said."""

    frame_max = 4096
    is_congested = False

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.said.append(data)

    def forget(self, channel: Channel) -> None:
        self.forgotten = channel

    def methods(self) -> list[Method]:
        return [decode_method(frame[7:-1]) for frame in self.said]


def channel_on(wire: Wire) -> Channel:
    return Channel(cast(Connection, wire), 1)


def test_a_close_waits_for_its_turn_behind_open_questions() -> None:
    async def live() -> None:
        channel = channel_on(Wire())
        asked = asyncio.create_task(channel.declare_queue("q"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(channel.close())
        await asyncio.sleep(0)
        channel.heard(QueueDeclareOk("q"))
        channel.heard(ChannelCloseOk())
        await closing
        assert (await asked).queue == "q"
        with pytest.raises(Closed):
            await channel.declare_queue("q")

    asyncio.run(live())


def test_closes_that_cross_end_both_and_tell_why_the_question_was_refused() -> None:
    async def live() -> None:
        wire = Wire()
        channel = channel_on(wire)
        asked = asyncio.create_task(channel.declare_queue("q", passive=True))
        await asyncio.sleep(0)
        closing = asyncio.create_task(channel.close())
        await asyncio.sleep(0)
        channel.heard(ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10))
        channel.heard(ChannelCloseOk())
        await closing
        with pytest.raises(NotFound, match=r"^no queue 'q'"):
            await asked
        assert wire.methods()[-1] == ChannelCloseOk()
        assert wire.forgotten is channel

    asyncio.run(live())


def test_flow_is_agreed_to_and_a_delivery_for_nobody_goes_back() -> None:
    async def live() -> None:
        wire = Wire()
        channel = channel_on(wire)
        channel.heard(ChannelFlow(False))
        assert wire.methods() == [ChannelFlowOk(False)]
        channel.deliver(Delivery(channel, "unknown", 5, False, "", "", b"\0\0", b""))
        nack = wire.methods()[-1]
        assert (nack.NAME, nack.delivery_tag, nack.requeue) == ("basic.nack", 5, True)  # type: ignore[attr-defined]

    asyncio.run(live())


def test_what_comes_for_somebody_who_has_gone_is_given_back() -> None:
    async def live() -> None:
        wire = Wire()
        channel = channel_on(wire)
        for asking in (channel.get("q"), channel.consume("q")):
            gone = asyncio.create_task(asking)
            await asyncio.sleep(0)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
        channel.heard_content(BasicGetOk(7, False, "", "q", 0), b"\0\0", b"for nobody")
        channel.heard(BasicConsumeOk("tag"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert wire.methods()[2:] == [BasicNack(7, False, True), BasicCancel("tag", False)]
        channel.end(Closed("over"))

    asyncio.run(live())


def test_a_message_becomes_the_frames_that_the_codec_would_make() -> None:
    async def live() -> None:
        channel = channel_on(Wire())
        properties, none = Properties(content_type="text/plain", headers={"a": 1}), NO_PROPERTIES
        assert channel.encoded(b"x", "e", "k", none, False).endswith(content_frames(1, b"\0\0", b"x", 4096))
        for body in (b"", b"short", bytes(4088), bytes(4089), bytes(10_000)):
            for key, mandatory in (("k", False), ("k", True), ("other", True)):
                expected = method_frame(1, BasicPublish("e", key, mandatory))
                expected += content_frames(1, encode_properties(properties), body, 4096)
                assert channel.encoded(body, "e", key, properties, mandatory) == expected

    asyncio.run(live())


def test_an_error_of_the_broker_has_a_type_by_its_code_and_by_what_it_closes() -> None:
    assert type(error_of_close(403, "ACCESS_REFUSED - no", "channel")) is AccessRefused
    assert type(error_of_close(403, "ACCESS_REFUSED - no", "connection")) is LoginRefused
    unknown = error_of_close(599, "its own", "channel")
    assert type(unknown) is PeerError
    assert (unknown.code, str(unknown)) == (599, "its own")


def test_what_is_published_while_confirms_are_being_asked_for_is_counted() -> None:
    """The broker numbers it, too: else each later message would be taken for safe by the confirm of the one before."""

    async def live() -> None:
        channel = channel_on(Wire())
        selecting = asyncio.create_task(channel.confirm_select())
        await asyncio.sleep(0)
        first = channel.send(b"first")
        channel.heard(ConfirmSelectOk())
        await selecting
        second = channel.send(b"second")
        channel.heard(BasicAck(1, False))
        assert first is not None
        assert second is not None
        assert (first.done(), second.done()) == (True, False)

    asyncio.run(live())


def test_confirms_that_are_asked_for_twice_begin_once() -> None:
    async def live() -> None:
        channel = channel_on(Wire())
        both = [asyncio.create_task(channel.confirm_select()) for _ in range(2)]
        await asyncio.sleep(0)
        confirm = channel.send(b"")
        for _ in range(sum(isinstance(each, ConfirmSelect) for each in decoded(channel))):
            channel.heard(ConfirmSelectOk())
        await asyncio.gather(*both)
        channel.heard(BasicAck(1, False))
        assert confirm is not None
        assert confirm.done()

    asyncio.run(live())


def decoded(channel: Channel) -> list[Method]:
    wire = cast(Wire, channel.connection)
    return [decode_method(frame[7:-1]) for frame in wire.said if b"\x00\x3c\x00\x28" not in frame]


def test_headers_that_do_not_fit_into_a_frame_are_refused() -> None:
    """AMQP cannot split them, and the broker would close the connection."""

    async def live() -> None:
        wire = Wire()
        channel = channel_on(wire)
        with pytest.raises(
            ClientError, match="properties of the message would need a frame of 5036 bytes, above the negotiated 4096"
        ):
            channel.send(b"", properties=Properties(headers={"much": "x" * 5_000}))
        with pytest.raises(
            ClientError, match=r"queue\.declare would need a frame of 5031 bytes, above the negotiated 4096"
        ):
            await channel.declare_queue("q", arguments={"much": "x" * 5_000})
        assert wire.said == []

    asyncio.run(live())
