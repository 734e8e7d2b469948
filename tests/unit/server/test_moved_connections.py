"""Sockets that are passed to a cell: by other cells, and by processes that have no business there."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import msgspec
import pytest

from leveret.broker.cells import Answered
from leveret.errors import PreconditionFailed
from leveret.server import moved_connections
from leveret.server.moved_connections import LARGEST, LENGTH, MovedConnections, cells_secret

SECRET = cells_secret(b"of the cells", ("127.0.0.1", os.getpid()))
NO_LISTENER: Any = None  # nothing gets so far as to need one


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(LENGTH, "big") + message


@pytest.mark.parametrize(
    "sent",
    [
        framed(b"garbage"),
        framed(msgspec.msgpack.encode((b"another proof", b"state", b"rest"))),
        (LARGEST + 1).to_bytes(LENGTH, "big") + b"more",
        framed(b"cut off")[:-1],
    ],
    ids=["garbage", "wrong secret", "too large", "cut off"],
)
def test_a_socket_that_no_cell_has_passed_is_closed(sent: bytes) -> None:
    async def run() -> None:
        moved = MovedConnections("c2", SECRET, NO_LISTENER, None)
        client, passed = socket.socketpair()
        with socket.socket(socket.AF_UNIX) as link, client:
            link.connect(moved_connections._address(SECRET, "c2"))
            socket.send_fds(link, [sent], [passed.fileno()])
            passed.close()
            if sent == framed(b"cut off")[:-1]:
                link.close()
            client.setblocking(False)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 60) == b""
        moved.stop()

    asyncio.run(run())


class NoFirstCell:
    """The part of broker.cells.SharedChanges that is used."""

    def __init__(self) -> None:
        self.waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()

    def sync(self, answered: Answered) -> None:
        self.waiting.set_result(answered)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_client_is_not_served_without_the_definitions_of_the_first_cell(is_stopped: bool) -> None:
    async def run() -> None:
        changes: Any = NoFirstCell()
        moved = MovedConnections("c2", SECRET, NO_LISTENER, changes)
        client, passed = socket.socketpair()
        with socket.socket(socket.AF_UNIX) as link, client:
            link.connect(moved_connections._address(SECRET, "c2"))
            message = msgspec.msgpack.encode((moved_connections._proof(SECRET), b"state", b"rest"))
            socket.send_fds(link, [framed(message)], [passed.fileno()])
            passed.close()
            answered = await asyncio.wait_for(changes.waiting, 60)
            if is_stopped:
                moved.stop()
            answered(PreconditionFailed("the first cell is away"))
            client.setblocking(False)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 60) == b""
        if not is_stopped:
            moved.stop()

    asyncio.run(run())


def test_a_cell_that_does_not_send_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_connections, "ARRIVES_WITHIN", 0.05)

    async def run() -> None:
        moved = MovedConnections("c2", SECRET, NO_LISTENER, None)
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(moved_connections._address(SECRET, "c2"))
            link.setblocking(False)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(link, 1), 60) == b""
        moved.stop()

    asyncio.run(run())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("user", "is_closed"), [(65534, True), (0, False)])
def test_another_user_of_the_machine_is_disconnected_at_once(user: int, is_closed: bool) -> None:
    async def run() -> None:
        moved = MovedConnections("c2", SECRET, NO_LISTENER, None)
        child = os.fork()
        if not child:
            os._exit(connect_as(user))
        _, status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, child, 0)
        assert (os.waitstatus_to_exitcode(status) == 0) == is_closed
        moved.stop()

    asyncio.run(run())


def connect_as(user: int) -> int:
    """0 if the connection is closed, 1 if it stays."""
    os.setuid(user)
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(60 if os.getuid() else 1)
        link.connect(moved_connections._address(SECRET, "c2"))
        try:
            return len(link.recv(1))
        except TimeoutError:
            return 1
