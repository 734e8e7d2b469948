"""The client for threads: the names of the asyncio client as ordinary functions that wait.

with blocking.connect("amqp://localhost") as connection:
    channel = connection.channel()
    channel.confirm_select()
    channel.publish(b"an order", routing_key="orders")

Any thread may call anything. The work is done by the asyncio client on a thread of its own (loop_thread).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from threading import Lock
from typing import Self

from leveret.client import connection as core_connection
from leveret.client.address import Address
from leveret.client.blocking_channel import Channel
from leveret.client.blocking_consumer import Consumer
from leveret.client.connection import Listener
from leveret.client.loop_thread import Answer, LoopThread

__all__ = ["Answer", "Channel", "Connection", "Consumer", "connect"]


class Connection:
    def __init__(self, core: core_connection.Connection, loop_thread: LoopThread) -> None:
        self.core = core
        self.loop_thread = loop_thread
        self._is_let_go = False
        self._closing = Lock()
        loop_thread.close_at_exit(core)

    # ---- what is known of it

    @property
    def address(self) -> Address:
        return self.core.address

    @property
    def server_properties(self) -> dict[str, object]:
        return self.core.server_properties

    @property
    def is_closed(self) -> bool:
        return self._is_let_go or self.core.is_closed

    @property
    def is_blocked(self) -> bool:
        return self.core.is_blocked

    @property
    def listeners(self) -> list[Listener]:
        """Callbacks for events of the connection. They run on the loop's thread and must not block."""
        return self.core.listeners

    # ---- what can be asked of it

    def channel(self) -> Channel:
        core = self.loop_thread.call(self.core.channel(), undo=lambda made: made.close())
        return Channel(self, core)

    def update_secret(self, secret: str, reason: str = "") -> None:
        self.loop_thread.call(self.core.update_secret(secret, reason))

    def close(self) -> None:
        """Says goodbye, and waits a moment for the answer. What is not acked goes back to its queues."""
        self.loop_thread.refuse_own_thread()
        with nullcontext() if self.loop_thread.is_forked else self._closing:  # after a fork its holder does not exist
            if self._is_let_go:
                return
            try:
                self.loop_thread.call(self.core.close())
            finally:
                self._is_let_go = True
                self.loop_thread.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def connect(address: Address | str, *, listeners: Iterable[Listener] = ()) -> Connection:
    """``listeners`` are told what happens from the first attempt on, on the loop's thread: they must not wait."""
    loop_thread = LoopThread.take()
    try:
        connecting = core_connection.connect(address, listeners=listeners)
        core = loop_thread.call(connecting, undo=lambda made: made.close())
    except BaseException:
        loop_thread.let_go()
        raise
    return Connection(core, loop_thread)
