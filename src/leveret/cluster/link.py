"""A connection between two nodes of a cell, on the cluster port. Both sides prove that they know the cell's secret.

Frames are a length (u32, big-endian) and a JSON object. Nothing is read beyond a frame, so a link can be passed on as
a socket after its request was answered, with the bytes of a client in it.

    node that connects                          node that listens
    {cell, node, nonce}             ->
                                    <-          {node, nonce, proof}     proof: HMAC of both nonces by the secret
    {proof, ask, ...}               ->
                                    <-          {} or {error}            from here on as the request says
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import socket
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple

import msgspec

SIZE = Struct(">I")
LARGEST_FRAME = 1 << 20
LARGEST_UNPROVED = 4 << 10  # bytes of a frame, until the other side has proved that it belongs to the cell
HANDSHAKE_SECONDS = 5.0
NONCE_SIZE = 16
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # seconds, seconds, probes
SERVER, CLIENT = b"leveret server", b"leveret client"
Frame = dict[str, Any]


class LinkLost(Exception):
    """The other node closed the link, or does not answer."""


class LinkRefused(Exception):
    """The other node answered with an error."""


class Peer(NamedTuple):
    """What a node needs to open or accept links."""

    cell: str
    node: str
    secret: bytes


class Link:
    def __init__(self, connected: socket.socket) -> None:
        """The socket is non-blocking."""
        self.socket = connected
        self.received = 0  # bytes
        self._loop = asyncio.get_running_loop()

    async def send(self, frame: Frame) -> None:
        data = msgspec.json.encode(frame)
        await self.send_bytes(SIZE.pack(len(data)) + data)

    async def send_bytes(self, data: bytes) -> None:
        try:
            await self._loop.sock_sendall(self.socket, data)
        except OSError as problem:
            raise LinkLost(str(problem)) from problem

    async def receive(self, largest: int = LARGEST_FRAME) -> Frame:
        (size,) = SIZE.unpack(await self.receive_bytes(SIZE.size))
        if size > largest:
            raise LinkLost(f"a frame of {size} bytes: the other side is no node of Leveret")
        try:
            return msgspec.json.decode(await self.receive_bytes(size), type=Frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise LinkLost(f"a frame cannot be read ({problem})") from problem

    async def receive_bytes(self, size: int) -> bytes:
        """Exactly so many."""
        parts = bytearray()
        while len(parts) < size:
            try:
                part = await self._loop.sock_recv(self.socket, min(size - len(parts), 1 << 20))
            except OSError as problem:
                raise LinkLost(str(problem)) from problem
            if not part:
                raise LinkLost("closed by the other node")
            parts += part
            self.received += len(part)
        return bytes(parts)

    def detach(self) -> socket.socket:
        """The socket, non-blocking, for another user. The link is closed."""
        passed_on = socket.socket(fileno=self.socket.detach())
        passed_on.setblocking(False)
        return passed_on

    def abort(self) -> None:
        """Nothing more can be sent or received; ``receive`` finds out at once."""
        with suppress(OSError):  # the other side has closed it already
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.socket.close()


def prepare_socket(connected: socket.socket) -> None:
    """A link may be silent for long: keep-alive probes find out when the other host is gone."""
    connected.setblocking(False)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE.items():
        if hasattr(socket, option):  # not on every system
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def open_link(address: tuple[str, int], peer: Peer, ask: str, **details: object) -> Link:
    """A link whose request was accepted. Raises ConnectionRefusedError if no process listens there, LinkLost or
    LinkRefused otherwise. The connection and the handshake have one deadline."""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            link = Link(await _connected(address))
            try:
                await _introduce(link, peer, {"ask": ask, **details})
            except BaseException:
                link.close()
                raise
            return link
    except ConnectionRefusedError:
        raise
    except TimeoutError as problem:
        raise LinkLost(f"{address[0]} port {address[1]} does not answer") from problem
    except OSError as problem:
        raise LinkLost(str(problem)) from problem


async def _connected(address: tuple[str, int]) -> socket.socket:
    """To the first address of the host that accepts. ConnectionRefusedError only if all refuse."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM)
    problem: OSError | None = None
    for family, kind, protocol, _, place in found:
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        try:
            await loop.sock_connect(connecting, place)
        except OSError as refused:
            connecting.close()
            if problem is None or isinstance(problem, ConnectionRefusedError):
                problem = refused
        except BaseException:
            connecting.close()
            raise
        else:
            prepare_socket(connecting)
            return connecting
    raise problem or OSError(f"{address[0]} has no address")


async def _introduce(link: Link, peer: Peer, request: Frame) -> None:
    nonce = secrets.token_bytes(NONCE_SIZE)
    await link.send({"cell": peer.cell, "node": peer.node, "nonce": nonce.hex()})
    answer = await link.receive(LARGEST_UNPROVED)
    _raise_error(answer)
    theirs = _nonce_of(answer)
    if not hmac.compare_digest(_bytes_of(answer, "proof"), _proof(peer.secret, SERVER, nonce, theirs)):
        raise LinkRefused("the other node does not have the secret of the cell")
    await link.send({"proof": _proof(peer.secret, CLIENT, nonce, theirs).hex(), **request})
    _raise_error(await link.receive())


async def accept_request(link: Link, *peers: Peer) -> tuple[Peer, Frame]:
    """The request of a node that has proved that it belongs to the cell of one of these, with its name as ``node``. It
    waits for an answer: an empty frame, or one with ``error``. Raises LinkLost or LinkRefused."""
    hello = await link.receive(LARGEST_UNPROVED)
    peer = next((peer for peer in peers if peer.cell == hello.get("cell")), None)
    if peer is None:
        await link.send({"error": f"this is a node of the cell {peers[0].cell!r}"})
        raise LinkRefused(f"a node of the cell {str(hello.get('cell'))[:80]!r}")
    theirs, nonce = _nonce_of(hello), secrets.token_bytes(NONCE_SIZE)
    await link.send(
        {"node": peer.node, "nonce": nonce.hex(), "proof": _proof(peer.secret, SERVER, theirs, nonce).hex()}
    )
    request = await link.receive(LARGEST_UNPROVED)
    if not hmac.compare_digest(_bytes_of(request, "proof"), _proof(peer.secret, CLIENT, theirs, nonce)):
        await link.send({"error": "the secret of the cell is wrong"})
        raise LinkRefused("it does not have the secret of the cell")
    return peer, request | {"node": str(hello.get("node", ""))}


def _proof(secret: bytes, side: bytes, client: bytes, server: bytes) -> bytes:
    return hmac.digest(secret, side + client + server, hashlib.sha256)


def _nonce_of(frame: Frame) -> bytes:
    nonce = _bytes_of(frame, "nonce")
    if len(nonce) != NONCE_SIZE:
        raise LinkLost(f"a nonce of {len(nonce)} bytes")
    return nonce


def _bytes_of(frame: Frame, key: str) -> bytes:
    try:
        return bytes.fromhex(frame[key])
    except (KeyError, TypeError, ValueError) as problem:
        raise LinkLost(f"a frame has no {key}") from problem


def _raise_error(frame: Frame) -> None:
    if (error := frame.get("error")) is not None:
        raise LinkRefused(str(error))
