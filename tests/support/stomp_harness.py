"""A STOMP peer in a Harness: a connection of a broker, without sockets."""

from __future__ import annotations

from collections.abc import Callable

from leveret.stomp.connection import StompConnection
from tests.support.peer_pair import Harness, Socket
from tests.support.stomp_client import StompFrame, all_taken, dashed, made


class StompSocket(Socket):
    """The broker's end of the connection (stomp.connection.StompTransport)."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], None]] = []
        self.beats: tuple[float, float] | None = None

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def beat(self, send: float, receive: float) -> None:
        self.beats = (send, receive)


class StompPeer:
    """One STOMP connection. Everything received is kept until the test reads it."""

    def __init__(self, harness: Harness, name: str = "stomp") -> None:
        self.harness = harness
        self.socket = StompSocket()
        self.connection = StompConnection(harness.broker, self.socket, harness.login, harness.limits, name)
        harness.broker.registry.add(self.connection)
        harness.clients.append(self)  # type: ignore[arg-type]

    @classmethod
    def open(cls, harness: Harness, version: str = "1.2", **headers: object) -> StompPeer:
        peer = cls(harness)
        (answer,) = peer.connect(version, **headers)
        assert answer.command == "CONNECTED", answer
        return peer

    def connect(self, version: str = "1.2", **headers: object) -> list[StompFrame]:
        login = {"accept-version": version, "login": "guest", "passcode": "secret", "host": "/"}
        return self.ask("CONNECT", **{**login, **dashed(headers)})

    def feed(self, data: bytes) -> None:
        self.socket.held.append(data)
        self.harness.rest()

    def pass_held(self) -> bool:
        """What the harness calls at rest: calls that wait for the loop, then bytes that wait for the reader."""
        if self.socket.calls:
            self.socket.calls.pop(0)()
            return True
        if not self.socket.held or not self.socket.reading or self.socket.closed:
            return False
        self.connection.receive(self.socket.held.pop(0))
        return True

    def ask(self, command: str, body: bytes = b"", **headers: object) -> list[StompFrame]:
        """Send one frame and return everything received since."""
        self.feed(made(command, dashed(headers), body))
        return self.heard()

    def heard(self) -> list[StompFrame]:
        data = bytes(self.socket.written)
        self.socket.written.clear()
        return list(all_taken(data))

    def bodies(self) -> list[bytes]:
        return [frame.body for frame in self.heard() if frame.command == "MESSAGE"]

    def vanish(self) -> None:
        """The wire is cut."""
        self.connection.lost()
        self.harness.clients.remove(self)  # type: ignore[arg-type]
        self.harness.rest()
