"""The client for threads: the names of the asyncio client as functions that wait.

with blocking.connect("amqp://localhost") as connection:
    channel = connection.channel()
    channel.confirm_select()
    channel.publish(b"an order", routing_key="orders")

Any thread may call any method. The asyncio client does the work, on a thread of its own (loop_thread).
"""

from __future__ import annotations

from collections.abc import Iterable

from leveret.client import connection as core_connection
from leveret.client.address import Address
from leveret.client.blocking_api import BlockingConnection, CoreAttribute, blocking, blocking_factory
from leveret.client.blocking_channel import Channel
from leveret.client.blocking_consumer import Consumer
from leveret.client.connection import Connection as Core
from leveret.client.connection import Listener
from leveret.client.loop_thread import Answer, LoopThread

__all__ = ["Answer", "Channel", "Connection", "Consumer", "connect"]


class Connection(BlockingConnection[Core]):
    def __init__(self, core: Core, loop_thread: LoopThread) -> None:
        super().__init__(core, loop_thread)
        loop_thread.close_at_exit(core)

    address = CoreAttribute[Address]()
    server_properties = CoreAttribute[dict[str, object]]()
    is_blocked = CoreAttribute[bool]()
    listeners = CoreAttribute[list[Listener]](
        "Callbacks for events of the connection. They run on the loop's thread and must not block."
    )
    channel = blocking_factory(Core.channel, Channel)
    update_secret = blocking(Core.update_secret)


def connect(address: Address | str, *, listeners: Iterable[Listener] = ()) -> Connection:
    """``listeners`` are called with all events from the first attempt on, on the loop's thread: they must not block."""
    return Connection.opened(core_connection.connect(address, listeners=listeners))
