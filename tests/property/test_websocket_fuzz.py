"""Any bytes on a WebSocket: a stream cut into frames comes out whole; all else ends the socket, and nothing more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from leveret.http.stream_listeners import StreamListeners
from leveret.http.websocket import WebSocketBridge
from leveret.server.admission import Admission, Admitted

HEAD = (
    b"GET /ws HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
)
PIECES = st.lists(st.binary(max_size=200), max_size=12)
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=20)


def admitted(doors: StreamListeners) -> Admitted:
    made = doors.admission.enter("192.0.2.1", lambda: None)
    assert made is not None
    return made


class Wire(asyncio.Transport):
    """A socket whose other end is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.said += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Ear(asyncio.Protocol):
    """Replies each time that it receives something."""

    def __init__(self) -> None:
        self.heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, WebSocketBridge)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self._transport.write(b"heard")


def shaken() -> tuple[WebSocketBridge, Wire, Ear]:
    ear, wire, doors = Ear(), Wire(), StreamListeners(Admission(1 << 30, 100))
    doors.register("amqp", lambda: ear)
    peer = WebSocketBridge(doors, admitted(doors))
    peer.connection_made(wire)
    peer.data_received(HEAD)
    assert wire.said.startswith(b"HTTP/1.1 101 ")
    return peer, wire, ear


@given(pieces=PIECES, cuts=CUTS, pings=st.sets(st.integers(0, 12)))
@settings(deadline=None)
@pytest.mark.feature("S3-03")
def test_a_stream_comes_out_of_its_frames_whole(pieces: list[bytes], cuts: list[int], pings: set[int]) -> None:
    peer, wire, ear = shaken()
    sent = b""
    for number, piece in enumerate(pieces):
        opcode = Opcode.CONT if number else Opcode.BINARY
        sent += Frame(opcode, piece, fin=number == len(pieces) - 1).serialize(mask=True)
        if number in pings:
            sent += Frame(Opcode.PING, b"?").serialize(mask=True)
    at = 0
    while at < len(sent):
        for cut in cuts:
            if sent[at : at + cut]:
                peer.data_received(sent[at : at + cut])
            at += cut
    assert ear.heard == b"".join(pieces)
    assert not wire.is_closed


@pytest.mark.fuzz
@given(reads=st.lists(st.binary(min_size=1, max_size=60), max_size=10), is_framed=st.booleans())
@settings(deadline=None)
def test_any_bytes_are_taken_or_end_the_socket(reads: list[bytes], is_framed: bool) -> None:
    peer, wire, ear = shaken()
    for data in reads:
        if wire.is_closed:
            break
        peer.data_received(b"\x82\x84" + data if is_framed else data)
    assert len(ear.heard) <= sum(map(len, reads)) + 2 * len(reads)
    peer.connection_lost(None)


@pytest.mark.fuzz
@given(head=st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_for_a_handshake_are_refused(head: bytes) -> None:
    wire = Wire()
    doors = StreamListeners(Admission(1 << 30, 100))
    peer = WebSocketBridge(doors, admitted(doors))
    peer.connection_made(wire)
    peer.data_received(head + b"\r\n\r\n")
    assert not wire.said.startswith(b"HTTP/1.1 101 ")
    peer.connection_lost(None)
