"""The JMS-style API for programs without an event loop: the same names, as functions that wait, for any thread.

with blocking.ConnectionFactory("amqp://localhost").create_connection() as connection:
    session = connection.create_session(AckMode.AUTO)
    consumer = session.create_consumer(session.create_queue("orders"))
    connection.start()
    message = consumer.receive(timeout=5)

The asyncio objects live on the thread of the client's event loop, which receives what the broker pushes and passes it
to the consumers; ``receive`` waits there. Listeners run in a thread of their session, one message at a time: listeners
of one session never run at the same time, those of different sessions may.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from leveret.client.blocking_api import (
    BlockingConnection,
    BlockingObject,
    Core,
    CoreAttribute,
    blocking,
    blocking_factory,
    signature_of,
)
from leveret.client.errors import Closed
from leveret.client.jms import browser as core_browser
from leveret.client.jms import connection as core_connection
from leveret.client.jms import consumer as core_consumer
from leveret.client.jms import destinations as core_destinations
from leveret.client.jms import factory as core_factory
from leveret.client.jms import producer as core_producer
from leveret.client.jms import requestor as core_requestor
from leveret.client.jms import session as core_session
from leveret.client.jms.ack_modes import AckListener, AckMode
from leveret.client.jms.destinations import Destination, Layout, Queue, Topic, destination_named
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.listeners import Listener, ListenerThread, NotCalled
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from leveret.client.jms.policies import PrefetchPolicy, RedeliveryPolicy, Sending
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

C = TypeVar("C", bound=Core)


class ConnectionFactory(core_factory.ConnectionFactory):
    __doc__ = core_factory.ConnectionFactory.__doc__

    def create_connection(  # type: ignore[override]  # here it waits
        self, user: str | None = None, password: str | None = None
    ) -> Connection:
        """Connected and logged in; not started."""
        return Connection.opened(super().create_connection(user, password))


# ---- what a session creates


class SessionObject(BlockingObject[C]):
    def __init__(self, session: Session, core: C) -> None:
        super().__init__(core, session.loop_thread)
        self.session = session


class TemporaryQueue(core_destinations.TemporaryQueue):
    def __init__(self, session: Session, core: core_destinations.TemporaryQueue) -> None:
        super().__init__(core.name, core._registrar)
        self._session = session

    def delete(self) -> None:  # type: ignore[override]  # here it waits
        self._session.call(super().delete())


class TemporaryTopic(core_destinations.TemporaryTopic):
    def __init__(self, session: Session, core: core_destinations.TemporaryTopic) -> None:
        super().__init__(core.name, core._registrar)
        self._session = session

    def delete(self) -> None:  # type: ignore[override]  # here it waits
        self._session.call(super().delete())


class Producer(SessionObject[core_producer.Producer]):
    destination = CoreAttribute[Destination | None](is_writable=True)
    delivery_mode = CoreAttribute[int](is_writable=True)
    priority = CoreAttribute[int](is_writable=True)
    time_to_live = CoreAttribute[float](is_writable=True)
    delivery_delay = CoreAttribute[float](is_writable=True)
    disable_message_id = CoreAttribute[bool](is_writable=True)
    disable_message_timestamp = CoreAttribute[bool](is_writable=True)
    send = blocking(core_producer.Producer.send)


class MessageConsumer(SessionObject[core_consumer.MessageConsumer]):
    """``receive()``, a loop over it, or a ``listener``: one of them."""

    _listener: Listener | None = None

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None after ``timeout`` seconds, or if the consumer was closed meanwhile."""
        return self._received(self.call(self.core.receive(timeout)))

    def receive_no_wait(self) -> Message | None:
        return self._received(self.call(self.core.receive_no_wait()))

    def _received(self, message: Message | None) -> Message | None:
        if message is not None:
            message.acknowledged_by(self.session)  # so that any thread may acknowledge it
        return message

    @property
    def listener(self) -> Listener | None:
        return self._listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        """Called in the thread of the session. The next message waits until it has returned."""

        async def listen() -> None:
            session = self.session
            if listener is None:
                self.core.listener = None
            else:
                self.core.refuse_closed()
                session.begin_thread()
                self.core.listener = lambda message: session.run_listener(listener, message)

        self.call(listen())
        self._listener = listener

    def close(self) -> None:
        """Messages that were not consumed are requeued. Waits for a listener that is running."""
        self.session.refuse_listener()
        super().close()

    def __iter__(self) -> Iterator[Message]:
        """Until the consumer is closed."""

        async def following() -> Message | None:
            return await anext(self.core, None)

        with suppress(Closed):
            while (message := self._received(self.call(following()))) is not None:
                yield message


class QueueBrowser(SessionObject[core_browser.QueueBrowser]):
    """``for message in browser``; each loop starts again. The asyncio browser documents its effects on the queue."""

    next = blocking(core_browser.QueueBrowser.next)

    def __iter__(self) -> Iterator[Message]:
        while (message := self.next()) is not None:
            yield message


class Requestor(SessionObject[core_requestor.Requestor]):
    """Any number of threads may send requests at once."""

    request = blocking(core_requestor.Requestor.request)


class Session(core_session.MessageFactory, BlockingObject[core_session.Session]):
    """Has a thread in which its listeners run."""

    def __init__(self, connection: Connection, core: core_session.Session) -> None:
        super().__init__(core, connection.loop_thread)
        self._thread: ListenerThread | None = None
        self._threading = threading.Lock()
        self._thread_id: int | None = None

    ack_mode = CoreAttribute[AckMode]()
    is_transacted = CoreAttribute[bool]()
    ack_listeners = CoreAttribute[list[AckListener]](
        "Callbacks for each acknowledgement. They run on the loop's thread and must not block."
    )
    create_temporary_queue = blocking_factory(
        core_session.Session.create_temporary_queue, TemporaryQueue, undo=lambda made: made.delete()
    )
    create_temporary_topic = blocking_factory(
        core_session.Session.create_temporary_topic, TemporaryTopic, undo=lambda made: made.delete()
    )
    create_producer = blocking_factory(core_session.Session.create_producer, Producer)
    create_durable_subscriber = blocking_factory(core_session.Session.create_durable_subscriber, MessageConsumer)
    create_browser = blocking_factory(core_session.Session.create_browser, QueueBrowser)
    create_requestor = blocking_factory(core_session.Session.create_requestor, Requestor)
    unsubscribe = blocking(core_session.Session.unsubscribe)
    commit = blocking(core_session.Session.commit)
    rollback = blocking(core_session.Session.rollback)
    recover = blocking(core_session.Session.recover)
    _create_consumer = blocking_factory(core_session.Session.create_consumer, MessageConsumer)

    @signature_of(core_session.Session.create_consumer)
    def create_consumer(self, *args: Any, listener: Listener | None = None, **kwargs: Any) -> MessageConsumer:
        consumer = self._create_consumer(*args, **kwargs)
        if listener is not None:
            try:
                consumer.listener = listener
            except BaseException:
                consumer.close()
                raise
        return consumer

    def acknowledge(self, message: Message | None = None) -> None:
        async def acknowledge() -> None:
            self.core.acknowledge(message)

        self.call(acknowledge())

    def close(self) -> None:
        self.refuse_listener()
        super().close()
        self.end_thread()

    # ---- the thread of the listeners

    def begin_thread(self) -> None:
        with self._threading:
            if self._thread is None:
                self._thread = ListenerThread()

    async def run_listener(self, listener: Listener, message: Message) -> None:
        """In the thread of the session, until it has returned."""
        message.acknowledged_by(self)
        if self._thread is None:
            raise NotCalled("the session has no thread")
        await self._thread.call(partial(self._listen, listener, message))

    def _listen(self, listener: Listener, message: Message) -> None:
        self._thread_id = threading.get_ident()
        try:
            listener(message)
        finally:
            self._thread_id = None  # another thread may get the same ID later

    def refuse_listener(self) -> None:
        """For calls that wait for listeners to return: a listener that makes one would wait for itself."""
        if threading.get_ident() == self._thread_id:
            raise IllegalState(
                "a listener cannot close or stop its own consumer, session or connection: this would deadlock; do "
                "it in another thread, or set the consumer's listener to None"
            )

    def end_thread(self) -> None:
        with self._threading:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()


class Connection(BlockingConnection[core_connection.Connection]):
    """``exception_listener`` is called in a thread of its own."""

    _exception_listener: Callable[[Exception], None] | None = None

    def __init__(self, core: core_connection.Connection, loop_thread: LoopThread) -> None:
        super().__init__(core, loop_thread)
        self._sessions: list[Session] = []
        self._listing = threading.Lock()

    client_id = CoreAttribute[str]()
    start = blocking(core_connection.Connection.start)
    _create_session = blocking_factory(core_connection.Connection.create_session, Session)

    def create_session(self, ack_mode: AckMode = AckMode.AUTO) -> Session:
        session = self._create_session(ack_mode)
        with self._listing:
            self._sessions = [*(each for each in self._sessions if not each.is_closed), session]
        return session

    @signature_of(core_connection.Connection.stop)
    def stop(self) -> None:
        self._refuse_listeners()
        self.refuse_closed()
        self.call(self.core.stop())

    def close(self) -> None:
        """Closes all sessions: messages that they have not acknowledged are requeued."""
        self._refuse_listeners()
        super().close()

    def _end_threads(self) -> None:
        for session in self._sessions:
            session.end_thread()

    @property
    def exception_listener(self) -> Callable[[Exception], None] | None:
        return self._exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: Callable[[Exception], None] | None) -> None:
        def call(problem: Exception) -> None:
            assert listener is not None
            threading.Thread(target=listener, args=(problem,), name="leveret-jms-trouble", daemon=True).start()

        self._exception_listener = listener
        self.core.exception_listener = None if listener is None else call

    def refuse_closed(self) -> None:
        if self._is_released:
            raise IllegalState("the connection is closed")

    def _refuse_listeners(self) -> None:
        for session in self._sessions:
            session.refuse_listener()
