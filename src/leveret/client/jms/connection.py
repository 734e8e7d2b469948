"""A connection as JMS has it: sessions share it, and nothing is dispatched before it is started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from leveret.client.closable import Closable
from leveret.client.connection import CLOSE_SECONDS, Happening
from leveret.client.connection import Connection as AmqpConnection
from leveret.client.errors import Closed
from leveret.client.jms.ack_modes import AckMode
from leveret.client.jms.clock import Clock
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.registrar import Registrar
from leveret.client.jms.session import Session

if TYPE_CHECKING:
    from leveret.client.jms.factory import ConnectionFactory

log = logging.getLogger("leveret.client.jms")


class Connection(Closable):
    """``exception_listener`` is told what ends a session or a consumer without their being closed."""

    def __init__(self, factory: ConnectionFactory, client: AmqpConnection, clock: Clock) -> None:
        self.factory = factory
        self.client = client
        self.clock = clock
        self.registrar = Registrar(client, factory.layout, factory.client_id)
        self.exception_listener: Callable[[Exception], None] | None = None
        self.is_started = False
        self.is_closed = False
        self._sessions: list[Session] = []
        self._is_over = False  # no more events are reported
        self._close_by: float | None = None  # when the broker has had its time to answer
        self._last_words: set[asyncio.Task[None]] = set()  # that it has not answered
        self._told: Exception | None = None  # what ends the connection ends each session
        client.listeners.append(self._happened)

    @property
    def is_leveret(self) -> bool:
        """Whether the broker knows what goes beyond RabbitMQ, such as ``x-pull-one``."""
        return self.registrar.is_leveret

    @property
    def is_audited(self) -> bool:
        """Whether messages that come twice, after a loss of the connection, are known by their ids."""
        return getattr(self.client, "audit", None) is not None

    @property
    def client_id(self) -> str:
        return self.registrar.client_id

    # ---- sessions

    async def create_session(self, ack_mode: AckMode = AckMode.AUTO) -> Session:
        self.refuse_closed()
        ack_mode = AckMode(ack_mode)  # a plain number is welcome
        channel = await self.client.channel()
        if ack_mode is AckMode.SESSION_TRANSACTED:
            await channel.select_transactions()
        session = Session(self, channel, ack_mode)
        self._sessions.append(session)
        return session

    def forget(self, session: Session) -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    # ---- life

    async def start(self) -> None:
        """From now on messages are handed over, first of all those that have come before."""
        self.refuse_closed()
        self.is_started = True
        for session in list(self._sessions):
            session.resume()

    async def stop(self) -> None:
        """Nothing is handed over until it is started again; a listener that runs is waited for. Sending goes on."""
        self.refuse_closed()
        self.is_started = False
        for session in list(self._sessions):
            await session.listeners_done()

    async def close(self) -> None:
        """Closes all sessions: what they have not acknowledged goes back to its queues."""
        if self.is_closed:
            return
        self.is_closed = True
        self._close_by = asyncio.get_running_loop().time() + CLOSE_SECONDS
        try:
            for session in list(self._sessions):
                await session.close()
        finally:
            self._is_over = True
            await self.client.close()
            if self._last_words:
                await asyncio.wait(self._last_words, timeout=CLOSE_SECONDS)

    async def in_time(self, last_words: Coroutine[Any, Any, None]) -> None:
        """Closing waits for the pending commands, but not for ever. What a disconnected broker has
        not heard by then it hears when it is back."""
        saying = asyncio.ensure_future(last_words)
        self._last_words.add(saying)
        saying.add_done_callback(self._said)
        left = CLOSE_SECONDS if self._close_by is None else self._close_by - asyncio.get_running_loop().time()
        await asyncio.wait([saying], timeout=max(left, 0))
        if saying.done():
            saying.result()

    def _said(self, saying: asyncio.Task[None]) -> None:
        self._last_words.discard(saying)
        if not saying.cancelled():
            saying.exception()  # the waiting call may have timed out

    def refuse_closed(self) -> None:
        if self.is_closed:
            raise IllegalState("the connection is closed")

    def _happened(self, happening: Happening) -> None:
        sessions = list(self._sessions)
        if happening.kind == "reconnected":
            for session in sessions:
                session.restored()
        elif happening.kind != "lost" or happening.problem is None:
            return
        elif not self.client.is_closed:
            for session in sessions:
                session.interrupted()
        elif not self.is_closed:
            self.trouble(happening.problem)

    def trouble(self, problem: Exception) -> None:
        if self._is_over or problem is self._told or isinstance(problem, Closed):
            return
        self._told = problem
        if self.exception_listener is not None:
            try:
                self.exception_listener(problem)
            except Exception:
                log.exception("exception listener of the connection failed")
        else:
            log.warning("connection to %s failed: %s", self.client.address.shown, problem)
