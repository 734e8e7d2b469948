"""Fills queues over AMQP, far faster than a client library: the bytes are laid out once, and only what changes from
message to message (number, routing key, headers) is written into them, for a block of messages at a time.

All messages are persistent and confirmed: `fill` returns when the broker has taken every one.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pika.frame
import pika.spec
from numpy.typing import NDArray
from pika.spec import Basic, Channel, Confirm, Connection

from benchmarks.pipeline.bodies import ATTEMPTS, NUMBER_BYTES, SIZE, body, number_bytes

BLOCK = 4_096
KEYS = 1_000
KEY_DIGITS = 4
TRACE_DIGITS = 12
ACK_BYTES = 21  # a whole basic.ack frame
SILENCE_SECONDS = 60
HEAD = 7
FRAME_METHOD = 1

Digits = NDArray[np.uint8]


class FillingFailed(Exception):
    """The broker refused something, closed the connection or stopped answering."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go. Without a key there are a thousand in turn, each for some messages that follow each other."""

    exchange: str
    key: str | None = None
    messages_per_key: int = 256
    has_headers: bool = False


class Link:
    """One AMQP connection with channel 1, written to as bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = b""
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        start = self._expect(Connection.Start)
        properties = start.server_properties or {}
        self.server = " ".join(str(properties.get(name, "")) for name in ("product", "version"))
        self._say(0, Connection.StartOk({}, "PLAIN", b"\0guest\0guest", "en_US"))
        self._expect(Connection.Tune)
        self._say(0, Connection.TuneOk(2_047, 131_072, 0))
        self._say(0, Connection.Open("/"))
        self._expect(Connection.OpenOk)
        self.ask(Channel.Open(), Channel.OpenOk)

    def ask(self, method: object, answer: type) -> Any:
        """A method on channel 1 and its answer."""
        self._say(1, method)
        return self._expect(answer)

    def close(self) -> None:
        self.socket.close()

    def _say(self, channel: int, method: object) -> None:
        self.socket.sendall(pika.frame.Method(channel, method).marshal())

    def _expect(self, wanted: type) -> Any:
        while True:
            used, frame = pika.frame.decode_frame(self._input)
            if frame is None:
                more = self.socket.recv(65_536)
                if not more:
                    raise FillingFailed(f"the broker closed the connection before {wanted.__name__}")
                self._input += more
                continue
            self._input = self._input[used:]
            method = getattr(frame, "method", None)
            if isinstance(method, wanted):
                return method
            if isinstance(method, Connection.Close | Channel.Close):
                raise FillingFailed(f"closed: {method.reply_code} {method.reply_text}")


def fill(port: int, target: Target, first: int, stop: int) -> None:
    """Publish the messages first <= n < stop, and wait for all confirms."""
    link = Link(port)
    try:
        link.ask(Confirm.Select(), Confirm.SelectOk)
        confirms = _Confirms(link.socket, stop - first)
        block = _Block(target)
        for start in range(first, stop, BLOCK):
            link.socket.sendall(block.of(start, min(start + BLOCK, stop)))
            confirms.raise_if_failed()
        confirms.wait()
    except TimeoutError:
        raise FillingFailed(f"the broker did not answer for {SILENCE_SECONDS} s") from None
    finally:
        link.close()


class _Block:
    """The bytes of up to BLOCK messages, used again and again."""

    def __init__(self, target: Target) -> None:
        key = "0" * KEY_DIGITS if target.key is None else target.key
        headers = {"trace": "0" * TRACE_DIGITS, "attempt": 0, "tenant": "north-west"} if target.has_headers else None
        method = pika.frame.Method(1, Basic.Publish(exchange=target.exchange, routing_key=key)).marshal()
        properties = pika.spec.BasicProperties(delivery_mode=2, headers=headers)
        header = pika.frame.Header(1, SIZE, properties).marshal()
        one = method + header + pika.frame.Body(1, body(0)).marshal()
        self._rows = np.tile(np.frombuffer(one, np.uint8), (BLOCK, 1))
        self._number_at = len(method) + len(header) + HEAD
        self._messages_per_key = np.uint64(target.messages_per_key)
        self._key_at = None if target.key is not None else len(method) - 2 - KEY_DIGITS  # flags and the frame's end
        self._trace_at = one.index(b"0" * TRACE_DIGITS, len(method)) if target.has_headers else None
        self._attempt_at = one.index(b"attempt", len(method)) + 8 if target.has_headers else 0  # after its type
        self._attempt_bytes = 8 if one[self._attempt_at - 1 : self._attempt_at] == b"l" else 4

    def of(self, first: int, stop: int) -> memoryview:
        """The whole frames of these messages."""
        numbers = np.arange(first, stop, dtype=np.uint64)
        rows = self._rows[: stop - first]
        rows[:, self._number_at : self._number_at + NUMBER_BYTES] = number_bytes(numbers)
        if self._key_at is not None:
            keys = numbers // self._messages_per_key % np.uint64(KEYS)
            rows[:, self._key_at : self._key_at + KEY_DIGITS] = _digits(keys, KEY_DIGITS)
        if self._trace_at is not None:
            rows[:, self._trace_at : self._trace_at + TRACE_DIGITS] = _digits(numbers, TRACE_DIGITS)
            rows[:, self._attempt_at + self._attempt_bytes - 1] = numbers % ATTEMPTS  # below 256: the last byte is it
        return rows.data.cast("B")


def _digits(numbers: NDArray[np.uint64], width: int) -> Digits:
    places = np.array([10**place for place in range(width - 1, -1, -1)], np.uint64)
    return (numbers[:, None] // places % np.uint64(10) + np.uint64(ord("0"))).astype(np.uint8)


class _Confirms(threading.Thread):
    """Reads confirms beside the writing. Every message must get one, and nothing else may come."""

    def __init__(self, peer: socket.socket, number: int) -> None:
        super().__init__(name="confirms", daemon=True)
        self._peer = peer
        self._is_confirmed = np.zeros(number + 1, np.bool_)
        self._is_confirmed[0] = True
        self._through = 0  # all up to this one are confirmed
        self._left = number
        self._failure: str | None = None
        self.start()

    def raise_if_failed(self) -> None:
        if self._failure is not None:
            raise FillingFailed(self._failure)

    def wait(self) -> None:
        self.join()
        self.raise_if_failed()

    def run(self) -> None:
        rest = b""
        while self._left and self._failure is None:
            try:
                part = self._peer.recv(1 << 20)
            except OSError as error:
                self._failure = f"{self._left} messages are not confirmed: {error}"
                return
            if not part:
                self._failure = f"the broker closed the connection, {self._left} messages are not confirmed"
                return
            rest += part
            whole = len(rest) - len(rest) % ACK_BYTES
            self._take(rest[:whole])
            rest = rest[whole:]

    def _take(self, frames: bytes) -> None:
        if not frames:
            return
        rows = np.frombuffer(frames, np.uint8).reshape(-1, ACK_BYTES)
        if (rows[:, 8] != Basic.Ack.INDEX >> 16).any() or (rows[:, 10] != Basic.Ack.INDEX & 255).any():
            self._failure = f"not a confirm: {frames[:200]!r}"
            return
        tags = rows[:, 11:19].copy().view(">u8").ravel().astype(np.int64)
        is_multiple = rows[:, 19] & 1 == 1
        self._is_confirmed[tags] = True
        if is_multiple.any():
            highest = int(tags[is_multiple].max())
            self._is_confirmed[self._through : highest + 1] = True
            self._through = max(self._through, highest)
        self._left = len(self._is_confirmed) - int(np.count_nonzero(self._is_confirmed))
