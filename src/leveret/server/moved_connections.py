"""Connections that move between cells on one machine: sockets passed over Unix sockets (session/connection_moves.py).

Each cell listens on a Unix socket in the abstract namespace, for processes of its own user. A move is one connection to
it: a header with the length of what follows and the descriptor of the client's socket, then the secret of the cells,
the state and the rest of the input. Nothing is answered: a cell that is too busy to accept is not waited for, and the
client is served where it is.

The client may use at once what it has declared in its former cell. The first cell reports that to the other one on
another connection, so a cell that gets a socket asks for all earlier changes before it serves the client.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from leveret.errors import AmqpError
from leveret.logs import get_log
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.session.amqp_connection import AmqpConnection

if TYPE_CHECKING:
    from leveret.broker.cells import SharedChanges
    from leveret.server.listener import Listener

BACKLOG = 128
MOST_ARRIVING = 256
LENGTH = 4
LARGEST = 1 << 20
ARRIVES_WITHIN = 5.0  # seconds
log = get_log("cells")


def cells_secret(secret: bytes, first: tuple[str, int]) -> bytes:
    """Of the cells whose first one has this address: others on the machine may have the same secret."""
    return hmac.digest(secret, repr(first).encode(), hashlib.sha256)


def _address(secret: bytes, cell: str) -> str:
    return "\0leveret-" + hmac.digest(secret, cell.encode(), hashlib.sha256).hex()[:32]


def _proof(secret: bytes) -> bytes:
    return hmac.digest(secret, b"moved connections", hashlib.sha256)


def _is_of_this_user(link: socket.socket) -> bool:
    """Sockets in the abstract namespace have no permissions: other users of the machine can connect."""
    _, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(user == os.geteuid())


class SocketMover:
    """broker.cells.ConnectionMover"""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def move(self, cell: str, peer: object, state: bytes, rest: bytes) -> bool:
        descriptor = peer.descriptor() if isinstance(peer, AmqpProtocol) else None
        if descriptor is None:
            return False
        message = msgspec.msgpack.encode((_proof(self._secret), state, rest))
        if not self._send(cell, len(message).to_bytes(LENGTH, "big") + message, descriptor):
            return False
        cast(AmqpProtocol, peer).abort()  # only this process closes it
        return True

    def _send(self, cell: str, data: bytes, descriptor: int) -> bool:
        """All at once, or not at all: nothing waits here."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            try:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
                link.setblocking(False)
                link.connect(_address(self._secret, cell))
                return socket.send_fds(link, [data], [descriptor]) == len(data)
            except OSError as problem:
                log.debug("connection cannot be passed", other=cell, reason=str(problem))
                return False


class MovedConnections:
    """Receives what other cells pass to this one."""

    def __init__(self, cell: str, secret: bytes, listener: Listener, changes: SharedChanges | None) -> None:
        """``changes``: None in the first cell."""
        self._secret = secret
        self._listener = listener
        self._changes = changes
        self._loop = asyncio.get_running_loop()
        self._arriving: dict[socket.socket, Arrival] = {}
        self._waiting: set[socket.socket] = set()  # clients, until this cell has the definitions
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.bind(_address(secret, cell))
        self._socket.listen(BACKLOG)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def stop(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for arrival in list(self._arriving.values()):
            arrival.end()
        for client in self._waiting:
            client.close()
        self._waiting.clear()

    def _accept(self) -> None:
        try:
            link, _ = self._socket.accept()
        except OSError:
            return
        if len(self._arriving) >= MOST_ARRIVING or not _is_of_this_user(link):
            link.close()
            return
        link.setblocking(False)
        self._arriving[link] = Arrival(link, self)

    # ---- for Arrival

    def arrived(self, link: socket.socket, message: bytes, descriptor: int) -> None:
        try:
            proof, state, rest = msgspec.msgpack.decode(message, type=tuple[bytes, bytes, bytes])
        except msgspec.DecodeError:
            proof = state = rest = b""
        if not hmac.compare_digest(proof, _proof(self._secret)):
            os.close(descriptor)
            return
        client = socket.socket(fileno=descriptor)
        client.setblocking(False)
        self._waiting.add(client)
        if self._changes is None:
            self._synced(client, state, rest, None)
        else:
            self._changes.sync(partial(self._synced, client, state, rest))

    def _synced(self, client: socket.socket, state: bytes, rest: bytes, refusal: AmqpError | None) -> None:
        if client not in self._waiting:  # stopped
            return
        self._waiting.remove(client)
        if refusal is not None:
            log.warning("connection that another cell has passed is closed", reason=refusal.text)
            client.close()
            return
        moved = MovedProtocol(AmqpProtocol(self._listener), state, rest)
        task = self._loop.create_task(self._serve(client, moved))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket, moved: MovedProtocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: moved, client)
        except OSError:  # disconnected meanwhile
            client.close()

    def ended(self, link: socket.socket) -> None:
        self._arriving.pop(link, None)


class Arrival:
    """One connection of another cell, until its message is complete."""

    def __init__(self, link: socket.socket, to: MovedConnections) -> None:
        self._link = link
        self._to = to
        self._data = b""
        self._descriptor: int | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(link.fileno(), self._read)
        self._timer = self._loop.call_later(ARRIVES_WITHIN, self.end)

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, LARGEST, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = descriptor
        self._data += data
        wanted = LENGTH + int.from_bytes(self._data[:LENGTH], "big")
        if not data or wanted > LARGEST:
            self.end()
        elif len(self._data) >= max(wanted, LENGTH + 1) and self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._to.arrived(self._link, self._data[LENGTH:wanted], descriptor)
            self.end()

    def end(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._link.fileno())
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._to.ended(self._link)
        self._link.close()


class MovedProtocol(asyncio.Protocol):
    """Restores the connection before its socket is read."""

    def __init__(self, protocol: AmqpProtocol, state: bytes, rest: bytes) -> None:
        self._protocol = protocol
        self._state = state
        self._rest = rest

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protocol = self._protocol
        cast(asyncio.Transport, transport).set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.authenticated()
        session = protocol.session
        assert isinstance(session, AmqpConnection)
        if not session.is_over and protocol.admitted is not None:
            session.continue_from(self._state, self._rest)
