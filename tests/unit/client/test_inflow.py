"""Bytes in any slicing give the same messages; what is malformed is refused, in every slicing, and nothing hangs."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.inflow import Inflow
from leveret.errors import AmqpError, FrameError, UnexpectedFrame
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEARTBEAT_FRAME
from leveret.wire.frames import content_frames, frame, method_frame
from leveret.wire.methods import BasicAck, BasicDeliver, BasicGetOk, BasicReturn, Method
from leveret.wire.properties import Properties, encode_properties

SMALL_FRAME = 40  # so that bodies are split


class ListenerCall:
    """What was heard, by channel."""

    def __init__(self) -> None:
        self.by_channel: dict[int, list[Any]] = {}

    def heard(self, channel: int, method: Method) -> None:
        self._note(channel, method)

    def heard_content(self, channel: int, method: Method, head: bytes, body: bytes) -> None:
        self._note(channel, (method, head, body))

    def heard_delivery(
        self, channel: int, tag: str, number: int, redelivered: bool, exchange: str, key: str, head: bytes, body: bytes
    ) -> None:
        self._note(channel, (BasicDeliver(tag, number, redelivered, exchange, key), head, body))

    def _note(self, channel: int, what: Any) -> None:
        self.by_channel.setdefault(channel, []).append(what)


def frames_of(channel: int, method: Method, head: bytes | None, body: bytes) -> list[bytes]:
    if head is None:
        return [method_frame(channel, method)]
    content, cut = content_frames(channel, head, body, SMALL_FRAME), []
    while content:
        end = 8 + int.from_bytes(content[3:7], "big")
        cut.append(content[:end])
        content = content[end:]
    return [method_frame(channel, method), *cut]


names = st.text(max_size=8)
heads = st.builds(
    lambda kind, headers: encode_properties(Properties(content_type=kind, headers=headers)),
    st.none() | names,
    st.none() | st.dictionaries(names, names, max_size=2),
)
deliveries = st.builds(BasicDeliver, names, st.integers(0, 2**63), st.booleans(), names, names)
with_content = st.one_of(
    deliveries,
    st.builds(BasicReturn, st.just(312), st.just("NO_ROUTE"), names, names),
    st.builds(BasicGetOk, st.integers(0, 9), st.booleans(), names, names, st.integers(0, 9)),
)
bodies = st.binary(max_size=100)
events = st.one_of(
    st.tuples(with_content, heads, bodies),
    st.tuples(deliveries, heads, bodies),
    st.tuples(st.builds(BasicAck, st.integers(1, 99), st.booleans()), st.none(), st.just(b"")),
)


@given(st.data(), st.dictionaries(st.integers(1, 3), st.lists(events, max_size=5), min_size=1, max_size=3))
def test_any_slicing_gives_the_same_messages(data: st.DataObject, spoken: dict[int, list[Any]]) -> None:
    """Frames of channels are mixed as AMQP allows, also within messages, with heartbeats between them."""
    lines = {
        channel: [each for event in said for each in frames_of(channel, *event)] for channel, said in spoken.items()
    }
    stream = b""
    while any(lines.values()):
        channel = data.draw(st.sampled_from([one for one, left in lines.items() if left]))
        stream += lines[channel].pop(0)
        if data.draw(st.booleans()):
            stream += HEARTBEAT_FRAME
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    listening = ListenerCall()
    inflow = Inflow(listening)
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        inflow.receive(stream[start:end])
    expected = {
        channel: [method if head is None else (method, head, body) for method, head, body in said]
        for channel, said in spoken.items()
        if said
    }
    assert listening.by_channel == expected


def test_byte_by_byte_is_a_slicing_too() -> None:
    deliver = BasicDeliver("tag", 7, True, "exchange", "key")
    head = encode_properties(Properties(delivery_mode=2))
    listening = ListenerCall()
    inflow = Inflow(listening)
    for byte in b"".join(frames_of(1, deliver, head, bytes(100))):
        inflow.receive(bytes([byte]))
    assert listening.by_channel == {1: [(deliver, head, bytes(100))]}


HEAD = pack(">HHQ", 60, 0, 3) + b"\0\0"
DELIVER = method_frame(1, BasicDeliver("t", 1, False, "e", "k"))
HEADER = frame(FRAME_HEADER, 1, HEAD)
BODY = frame(FRAME_BODY, 1, b"abc")
BROKEN: dict[str, tuple[bytes, type[AmqpError]]] = {
    "no end mark": (DELIVER[:-1] + b"\0", FrameError),
    "no end mark of the header": (DELIVER + HEADER[:-1] + b"\0" + BODY, FrameError),
    "no end mark of the body": (DELIVER + HEADER + BODY[:-1] + b"\0", FrameError),
    "unknown kind": (frame(7, 1, b"abc"), FrameError),
    "an HTTP server": (b"HTTP/1.1 400 Bad Request\r\n\r\n", FrameError),
    "another version": (b"AMQP\0\0\x09\x01", FrameError),
    "too large": (pack(">BHIB", FRAME_METHOD, 1, 1 << 30, 0), FrameError),
    "a header too short": (DELIVER + frame(FRAME_HEADER, 1, b"\0\x3c"), FrameError),
    "a method too short": (frame(FRAME_METHOD, 1, b"\0\x3c"), FrameError),
    "a name beyond the frame": (
        frame(FRAME_METHOD, 1, b"\0\x3c\0\x3c\xfft" + bytes(9)) + HEADER + BODY,
        FrameError,
    ),
    "a key beyond the frame": (
        frame(FRAME_METHOD, 1, b"\0\x3c\0\x3c\x01t" + bytes(9) + b"\x01e\xffk") + HEADER + BODY,
        FrameError,
    ),
    "header without method": (HEADER, UnexpectedFrame),
    "body without method": (BODY, UnexpectedFrame),
    "body without header": (DELIVER + BODY, UnexpectedFrame),
    "two headers": (DELIVER + HEADER + HEADER, UnexpectedFrame),
    "method within a message": (DELIVER + HEADER + DELIVER, UnexpectedFrame),
    "more body than announced": (DELIVER + HEADER + frame(FRAME_BODY, 1, b"abcd"), UnexpectedFrame),
}


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize("case", BROKEN)
def test_what_is_malformed_is_refused(case: str, step: int) -> None:
    stream, error = BROKEN[case]
    inflow = Inflow(ListenerCall())
    inflow.limit = 1000
    pieces = [stream[start : start + step] for start in range(0, len(stream), step)]
    with pytest.raises(error):
        list(map(inflow.receive, pieces))


@given(st.data())
def test_damaged_bytes_raise_errors_of_the_protocol_or_nothing(data: st.DataObject) -> None:
    """Never IndexError, struct.error or an endless loop: whoever reads would not know what to do with them."""
    stream = bytearray(DELIVER + HEADER + BODY + HEARTBEAT_FRAME + DELIVER + HEADER + BODY)
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(stream)))
    inflow = Inflow(ListenerCall())
    try:
        inflow.receive(bytes(stream[:cut]))
        inflow.receive(bytes(stream[cut:]))
    except AmqpError:
        return


def test_what_is_left_of_a_message_is_forgotten_with_its_channel() -> None:
    listening = ListenerCall()
    inflow = Inflow(listening)
    inflow.receive(DELIVER + HEADER)
    inflow.forget(1)
    inflow.receive(method_frame(1, BasicAck(1)))
    assert listening.by_channel == {1: [BasicAck(1)]}
