"""The same face for programs without an event loop: the same names, as ordinary functions, for any thread.

with blocking.ConnectionFactory("amqp://localhost").create_connection() as connection:
    session = connection.create_session(AckMode.AUTO)
    consumer = session.create_consumer(session.create_queue("orders"))
    connection.start()
    message = consumer.receive(timeout=5)

The asyncio objects live on the thread of the client's loop. It takes what the broker pushes, from the moment the
connection is there, and hands it on to the line of each consumer. ``receive`` waits at that line. Listeners run in a
thread of their session, one message at a time: those of one session never run at once, those of different sessions do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Unpack

from leveret.client.jms import connection as core_connection
from leveret.client.jms import factory as core_factory
from leveret.client.jms.ack_modes import AckMode
from leveret.client.jms.blocking_ends import Closing, MessageConsumer, Producer, QueueBrowser, Requestor
from leveret.client.jms.blocking_session import Session
from leveret.client.jms.destinations import Layout, Queue, Topic, destination_named
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from leveret.client.jms.prefetch import PrefetchPolicy
from leveret.client.jms.redelivery import RedeliveryPolicy
from leveret.client.jms.send_options import Sending
from leveret.client.loop_thread import LoopThread

__all__ = [
    "AckMode",
    "BytesMessage",
    "Connection",
    "ConnectionFactory",
    "Layout",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "PrefetchPolicy",
    "Producer",
    "Queue",
    "QueueBrowser",
    "RedeliveryPolicy",
    "Requestor",
    "Sending",
    "Session",
    "TextMessage",
    "Topic",
    "destination_named",
]


class FactoryOptions(core_factory.AddressParts, total=False):
    """As the asyncio factory has them."""

    client_id: str
    prefetch: int | PrefetchPolicy
    redelivery: RedeliveryPolicy
    sending: Sending
    layout: Layout


class ConnectionFactory:
    def __init__(self, uri: str = "amqp://", **options: Unpack[FactoryOptions]) -> None:
        self.core = core_factory.ConnectionFactory(uri, **options)

    def create_connection(self, user: str | None = None, password: str | None = None) -> Connection:
        """Connected and logged in; not started."""
        loop_thread = LoopThread.take()
        try:
            core = loop_thread.call(self.core.create_connection(user, password), undo=lambda made: made.close())
        except BaseException:
            loop_thread.let_go()
            raise
        return Connection(core, loop_thread)


class Connection(Closing):
    """``exception_listener`` is called in a thread of its own."""

    def __init__(self, core: core_connection.Connection, loop_thread: LoopThread) -> None:
        self.core = core
        self.loop_thread = loop_thread
        self._sessions: list[Session] = []
        self._closing = threading.Lock()
        self._listing = threading.Lock()
        self._is_let_go = False

    @property
    def is_closed(self) -> bool:
        return self._is_let_go or self.core.is_closed

    @property
    def client_id(self) -> str:
        return self.core.client_id

    def create_session(self, ack_mode: AckMode = AckMode.AUTO) -> Session:
        core = self._loop().call(self.core.create_session(ack_mode), undo=lambda made: made.close())
        session = Session(core, self.loop_thread)
        with self._listing:
            self._sessions = [*(each for each in self._sessions if not each.is_closed), session]
        return session

    def start(self) -> None:
        """From now on messages are handed over, first of all those that have come before."""
        self._loop().call(self.core.start())

    def stop(self) -> None:
        """Nothing is handed over until it is started again; listeners that run are waited for. Sending goes on."""
        self._refuse_listeners()
        self._loop().call(self.core.stop())

    def close(self) -> None:
        """Closes all sessions: what they have not acknowledged goes back to its queues."""
        self._refuse_listeners()
        with self._closing:
            if self._is_let_go:
                return
            try:
                self.loop_thread.call(self.core.close())
            finally:
                self._is_let_go = True
                for session in self._sessions:
                    session.end_thread()
                self.loop_thread.let_go()

    @property
    def exception_listener(self) -> Callable[[Exception], None] | None:
        return self._exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: Callable[[Exception], None] | None) -> None:
        def told(problem: Exception) -> None:
            assert listener is not None
            threading.Thread(target=listener, args=(problem,), name="leveret-jms-trouble", daemon=True).start()

        self._exception_listener = listener
        self.core.exception_listener = None if listener is None else told

    _exception_listener: Callable[[Exception], None] | None = None

    def _loop(self) -> LoopThread:
        if self._is_let_go:
            raise IllegalState("the connection is closed")
        return self.loop_thread

    def _refuse_listeners(self) -> None:
        for session in self._sessions:
            session.refuse_listener()
