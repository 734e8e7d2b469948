"""A session for programs without an event loop, with the thread in which its listeners run."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from leveret.client.jms import session as core_session
from leveret.client.jms.ack_modes import AckListener, AckMode
from leveret.client.jms.blocking_ends import (
    Closing,
    Listener,
    MessageConsumer,
    Producer,
    QueueBrowser,
    Requestor,
    TemporaryQueue,
    TemporaryTopic,
    close_on_the_loop,
)
from leveret.client.jms.destinations import Destination, Queue, Topic
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.listener_call import NotCalled
from leveret.client.jms.listener_thread import ListenerThread
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from leveret.client.loop_thread import LoopThread

R = TypeVar("R")


class Session(Closing):
    def __init__(self, core: core_session.Session, loop_thread: LoopThread) -> None:
        self.core = core
        self._loop_thread = loop_thread
        self._thread: ListenerThread | None = None
        self._threading = threading.Lock()
        self._thread_id: int | None = None

    @property
    def ack_mode(self) -> AckMode:
        return self.core.ack_mode

    @property
    def is_transacted(self) -> bool:
        return self.core.is_transacted

    @property
    def is_closed(self) -> bool:
        return self.core.is_closed

    @property
    def ack_listeners(self) -> list[AckListener]:
        """Callbacks for each acknowledgement. They run on the loop's thread and must not block."""
        return self.core.ack_listeners

    # ---- the two threads

    def call(self, work: Coroutine[Any, Any, R], undo: Callable[[R], Awaitable[object]] | None = None) -> R:
        """On the thread of the loop, for the parts of the session."""
        return self._loop_thread.call(work, undo)

    async def run_listener(self, listener: Listener, message: Message) -> None:
        """In the thread of the session, until it has returned."""
        message.acknowledged_by(self)
        if self._thread is None:
            raise NotCalled("the session has no thread")
        await self._thread.call(partial(self._listen, listener, message))

    def begin_thread(self) -> None:
        with self._threading:
            if self._thread is None:
                self._thread = ListenerThread()

    def _listen(self, listener: Listener, message: Message) -> None:
        self._thread_id = threading.get_ident()
        try:
            listener(message)
        finally:
            self._thread_id = None  # the number may be another thread's one day

    def refuse_listener(self) -> None:
        """What waits for listeners to return cannot be called by one."""
        if threading.get_ident() == self._thread_id:
            raise IllegalState(
                "a listener cannot close or stop what it is called by, which would wait for it: let another thread do "
                "it, or set the consumer's listener to None"
            )

    def end_thread(self) -> None:
        with self._threading:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    # ---- what it makes

    def create_message(self) -> Message:
        return self.core.create_message()

    def create_text_message(self, text: str = "") -> TextMessage:
        return self.core.create_text_message(text)

    def create_bytes_message(self, data: bytes = b"") -> BytesMessage:
        return self.core.create_bytes_message(data)

    def create_map_message(self, fields: Mapping[str, object] | None = None) -> MapMessage:
        return self.core.create_map_message(fields)

    def create_queue(self, name: str) -> Queue:
        return self.core.create_queue(name)

    def create_topic(self, name: str) -> Topic:
        return self.core.create_topic(name)

    def create_temporary_queue(self) -> TemporaryQueue:
        made = self.call(self.core.create_temporary_queue(), undo=lambda made: made.delete())
        return TemporaryQueue(made, self)

    def create_temporary_topic(self) -> TemporaryTopic:
        return TemporaryTopic(self.call(self.core.create_temporary_topic()), self)

    def create_producer(self, destination: Destination | None = None) -> Producer:
        return Producer(self, self.call(self.core.create_producer(destination)))

    def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        prefetch: int | None = None,
        listener: Listener | None = None,
        subscription: str = "",
    ) -> MessageConsumer:
        """``prefetch`` 0: one message per receive(). ``subscription``: the name of a durable one, to a topic."""
        work = self.core.create_consumer(
            destination, selector, no_local=no_local, prefetch=prefetch, subscription=subscription
        )
        consumer = MessageConsumer(self, self.call(work, undo=lambda made: made.close()))
        if listener is not None:
            try:
                consumer.listener = listener
            except BaseException:
                consumer.close()
                raise
        return consumer

    def create_durable_subscriber(
        self, topic: Destination, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        return self.create_consumer(topic, selector, no_local=no_local, subscription=name)

    def unsubscribe(self, name: str) -> None:
        """Ends a durable subscription, and drops what is stored for it."""
        self.call(self.core.unsubscribe(name))

    def create_browser(self, queue: Destination, selector: str = "", limit: int | None = None) -> QueueBrowser:
        return QueueBrowser(self, self.call(self.core.create_browser(queue, selector, limit)))

    def create_requestor(self, queue: Destination) -> Requestor:
        return Requestor(self, self.call(self.core.create_requestor(queue)))

    # ---- acknowledging, transactions

    def acknowledge(self, message: Message | None = None) -> None:
        async def acknowledge() -> None:
            self.core.acknowledge(message)

        self.call(acknowledge())

    def commit(self) -> None:
        self.call(self.core.commit())

    def rollback(self) -> None:
        self.call(self.core.rollback())

    def recover(self) -> None:
        self.call(self.core.recover())

    def close(self) -> None:
        self.refuse_listener()
        close_on_the_loop(self, self.core.close())
        self.end_thread()
