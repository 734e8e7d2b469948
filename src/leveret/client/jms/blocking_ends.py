"""Blocking producers, consumers, requestors and browsers, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from leveret.client.errors import Closed
from leveret.client.jms import browser as core_browser
from leveret.client.jms import consumer as core_consumer
from leveret.client.jms import destinations as core_destinations
from leveret.client.jms import producer as core_producer
from leveret.client.jms import requestor as core_requestor
from leveret.client.jms.destinations import Destination
from leveret.client.jms.messages import Message

if TYPE_CHECKING:
    from leveret.client.jms.blocking_session import Session
    from leveret.client.jms.registrar import Registrar

Listener = Callable[[Message], object]


class Closing:
    """``with`` closes it at the end."""

    __slots__ = ()

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def close_on_the_loop(session: Session, work: Coroutine[Any, Any, None]) -> None:
    """Closing is no error where it is closed already, with its connection."""
    with suppress(Closed):
        session.call(work)


class _Deleting:
    """A temporary destination whose ``delete()`` waits."""

    __slots__ = ()

    _registrar: Registrar
    _session: Session

    def delete(self) -> None:
        self._session.call(self._registrar.delete_temporary(self))  # type: ignore[arg-type]


class TemporaryQueue(_Deleting, core_destinations.TemporaryQueue):  # type: ignore[misc]
    __slots__ = ("_session",)

    def __init__(self, core: core_destinations.TemporaryQueue, session: Session) -> None:
        super().__init__(core.name, core._registrar)
        self._session = session


class TemporaryTopic(_Deleting, core_destinations.TemporaryTopic):  # type: ignore[misc]
    __slots__ = ("_session",)

    def __init__(self, core: core_destinations.TemporaryTopic, session: Session) -> None:
        super().__init__(core.name, core._registrar)
        self._session = session


class Producer(Closing, core_producer.Producer):
    """Its fields are those of the asyncio producer: delivery_mode, priority, time_to_live and so on."""

    def __init__(self, session: Session, core: core_producer.Producer) -> None:
        super().__init__(core.outgoing, core.destination)
        self._session = session

    def send(  # type: ignore[override]  # here it waits
        self,
        message: Message,
        destination: Destination | None = None,
        *,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
    ) -> None:
        """Returns when the broker has it safe; in a transaction at once. Times are in seconds."""
        work = super().send(
            message,
            destination,
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live=time_to_live,
            delivery_delay=delivery_delay,
        )
        self._session.call(work)

    def close(self) -> None:  # type: ignore[override]
        close_on_the_loop(self._session, core_producer.Producer.close(self))


class MessageConsumer(Closing):
    """``receive()``, a loop over it, or a ``listener``: one of them."""

    def __init__(self, session: Session, core: core_consumer.MessageConsumer) -> None:
        self.session = session
        self.core = core
        self._listener: Listener | None = None

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when ``timeout`` seconds are over, or the consumer was closed meanwhile."""
        return self._ours(self.session.call(self.core.receive(timeout)))

    def receive_no_wait(self) -> Message | None:
        return self._ours(self.session.call(self.core.receive_no_wait()))

    def _ours(self, message: Message | None) -> Message | None:
        if message is not None:
            message.acknowledged_by(self.session)  # from whatever thread
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

        self.session.call(listen())
        self._listener = listener

    def close(self) -> None:
        """What came and was not consumed goes back to the queue. A listener that runs is waited for."""
        self.session.refuse_listener()
        close_on_the_loop(self.session, self.core.close())

    def __iter__(self) -> Iterator[Message]:
        """Until the consumer is closed."""

        async def following() -> Message | None:
            return await anext(self.core, None)

        while True:
            try:
                message = self._ours(self.session.call(following()))
            except Closed:
                return
            if message is None:
                return
            yield message


class QueueBrowser(Closing):
    """``for message in browser``; each loop looks anew. See the asyncio browser for what it does to the queue."""

    def __init__(self, session: Session, core: core_browser.QueueBrowser) -> None:
        self._session = session
        self._core = core

    def next(self) -> Message | None:
        """The next message; None if all were seen, after which they are back in the queue."""
        return self._session.call(self._core.next())

    def __iter__(self) -> Iterator[Message]:
        while (message := self.next()) is not None:
            yield message

    def close(self) -> None:
        close_on_the_loop(self._session, self._core.close())


class Requestor(Closing):
    def __init__(self, session: Session, core: core_requestor.Requestor) -> None:
        self._session = session
        self._core = core

    def request(self, message: Message, timeout: float | None = None) -> Message:
        """The answer. TimeoutError if none came within ``timeout`` seconds. Any number of threads may ask at once."""
        return self._session.call(self._core.request(message, timeout))

    def close(self) -> None:
        close_on_the_loop(self._session, self._core.close())
