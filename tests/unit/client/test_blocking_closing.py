"""A connection for threads is let go once, whoever closes it, and however often."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from leveret.client.blocking import Connection
from leveret.client.errors import ClientError


class Core:
    is_closed = False

    def close(self) -> None:
        """Only the object is handed on."""


class Thread:
    """A loop's thread that counts who lets it go, and does what it is asked when all are there."""

    def __init__(self, callers: int) -> None:
        self.all_there = threading.Barrier(callers, timeout=10)
        self.let_go_by: list[str] = []
        self.is_own = False
        self.is_forked = False

    def close_at_exit(self, connection: object) -> None:
        """No process ends here."""

    def refuse_own_thread(self) -> None:
        if self.is_own:
            raise ClientError("on the loop")

    def call(self, work: object) -> None:
        self.refuse_own_thread()
        if self.all_there.parties > 1:
            self.all_there.wait(1)

    def release(self) -> None:
        self.let_go_by.append(threading.current_thread().name)


def connection_on(thread: Thread) -> Connection:
    return Connection(cast(Any, Core()), cast(Any, thread))


def test_two_threads_that_close_let_go_once() -> None:
    thread = Thread(2)
    connection = connection_on(thread)
    closers = [threading.Thread(target=lambda: closed(connection)) for _ in range(2)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join()
    assert len(thread.let_go_by) == 1


def closed(connection: Connection) -> None:
    try:
        connection.close()
    except threading.BrokenBarrierError:  # the other one did not come this far
        pass


def test_a_close_that_is_refused_changes_nothing() -> None:
    """On the loop's own thread nobody can wait: the connection stays as it is, and can be closed elsewhere."""
    thread = Thread(1)
    thread.is_own = True
    connection = connection_on(thread)
    with pytest.raises(ClientError):
        connection.close()
    assert thread.let_go_by == []
    assert not connection.is_closed
    thread.is_own = False
    connection.close()
    assert len(thread.let_go_by) == 1
