"""A blocking STOMP client that sends exactly what a test passes, valid or not. Every wait is bounded."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

TIMEOUT = 60.0  # seconds
UNESCAPED = (("\\r", "\r"), ("\\n", "\n"), ("\\c", ":"), ("\\\\", "\\"))


class StompFrame(NamedTuple):
    command: str
    headers: dict[str, str]
    body: bytes

    def __getitem__(self, name: str) -> str:  # type: ignore[override]
        return self.headers[name]


def made(command: str, headers: dict[str, object] | None = None, body: bytes = b"") -> bytes:
    """Headers are written as they are: escapes are the test's business. An underscore in a name stands for a dash."""
    lines = [command, *(f"{name}:{value}" for name, value in (headers or {}).items())]
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


def dashed(headers: dict[str, object]) -> dict[str, object]:
    return {name.rstrip("_").replace("_", "-"): value for name, value in headers.items()}


def taken(data: bytes) -> tuple[StompFrame | None, bytes]:
    """The first frame of ``data``, if it is whole, and what is behind it."""
    data = data.lstrip(b"\r\n")
    head, empty, rest = data.partition(b"\n\n")
    if not empty:
        return None, data
    command, *lines = head.decode().split("\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers.setdefault(name, value)
    size = int(headers["content-length"]) if "content-length" in headers else rest.find(b"\0")
    if size < 0 or len(rest) <= size:
        return None, data
    assert rest[size] == 0, rest
    return StompFrame(command, headers, rest[:size]), rest[size + 1 :]


def all_taken(data: bytes) -> Iterator[StompFrame]:
    frame, data = taken(data)
    while frame is not None:
        yield frame
        frame, data = taken(data)
    assert not data, data


class StompClient:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port or 0), TIMEOUT)
        self._pending = b""

    @classmethod
    def open(cls, url: str, version: str = "1.2", **headers: object) -> Self:
        client = cls(url)
        answer = client.connect(version, **headers)
        assert answer.command == "CONNECTED", answer
        return client

    def connect(self, version: str = "1.2", **headers: object) -> StompFrame:
        login = {"accept-version": version, "login": "guest", "passcode": "guest", "host": "/"}
        self.say("CONNECT", **{**login, **dashed(headers)})
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def say(self, command: str, body: bytes = b"", **headers: object) -> None:
        self.socket.sendall(made(command, dashed(headers), body))

    def ask(self, command: str, body: bytes = b"", **headers: object) -> StompFrame:
        """With a receipt; the next frame that comes."""
        self.say(command, body, receipt="r", **headers)
        return self.read()

    def sure(self, command: str, body: bytes = b"", **headers: object) -> None:
        answer = self.ask(command, body, **headers)
        assert (answer.command, answer.headers.get("receipt-id")) == ("RECEIPT", "r"), answer

    def read(self) -> StompFrame:
        while True:
            frame, self._pending = taken(self._pending)
            if frame is not None:
                return frame
            data = self.socket.recv(1 << 16)
            assert data, "the broker has closed the connection"
            self._pending += data

    def bodies(self, number: int) -> list[bytes]:
        frames = [self.read() for _ in range(number)]
        assert all(frame.command == "MESSAGE" for frame in frames), frames
        return [frame.body for frame in frames]

    def is_closed(self) -> bool:
        """Whether the broker closes now, without another word."""
        try:
            return not self._pending.strip() and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
