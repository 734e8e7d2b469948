"""A connection of the JMS-style API: sessions share it, and no message is delivered before it is started."""

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
    """``exception_listener`` is called with errors that end a session or a consumer."""

    def __init__(self, factory: ConnectionFactory, client: AmqpConnection, clock: Clock) -> None:
        self.factory = factory
        self.client = client
        self.clock = clock
        self.client_id = factory.client_id
        self.registrar = Registrar(client, factory.layout, factory.client_id)
        self.is_leveret = self.registrar.is_leveret  # it supports extensions such as ``x-pull-one``
        self.is_audited = getattr(client, "audit", None) is not None  # duplicates are recognised by message IDs
        self.exception_listener: Callable[[Exception], None] | None = None
        self.is_started = False
        self.is_closed = False
        self._sessions: list[Session] = []
        self._is_over = False  # no more events are reported
        self._close_by: float | None = None  # the deadline for the pending calls of a close
        self._closing: set[asyncio.Task[None]] = set()  # pending calls of a close
        self._reported: Exception | None = None  # the error of a connection is reported once, not by each session
        client.listeners.append(self._happened)

    # ---- sessions

    async def create_session(self, ack_mode: AckMode = AckMode.AUTO) -> Session:
        self.refuse_closed()
        ack_mode = AckMode(ack_mode)  # plain numbers are accepted
        channel = await self.client.channel()
        if ack_mode is AckMode.SESSION_TRANSACTED:
            await channel.select_transactions()
        session = Session(self, channel, ack_mode)
        self._sessions.append(session)
        return session

    def forget(self, session: Session) -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    async def start(self) -> None:
        """Deliver messages from now on, first those that have arrived before."""
        self.refuse_closed()
        self.is_started = True
        for session in list(self._sessions):
            session.resume()

    async def stop(self) -> None:
        """Stop delivering messages until it is started again; waits for running listeners. Sending is not affected."""
        self.refuse_closed()
        self.is_started = False
        for session in list(self._sessions):
            await session.listeners_done()

    async def close(self) -> None:
        """Closes all sessions: messages that they have not acknowledged are requeued."""
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
            if self._closing:
                await asyncio.wait(self._closing, timeout=CLOSE_SECONDS)

    async def in_time(self, work: Coroutine[Any, Any, None]) -> None:
        """Closing waits for the pending calls, up to a limit. A disconnected broker receives them when it is back."""
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closed)
        left = CLOSE_SECONDS if self._close_by is None else self._close_by - asyncio.get_running_loop().time()
        await asyncio.wait([task], timeout=max(left, 0))
        if task.done():
            task.result()

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled():
            task.exception()  # the waiting call may have timed out

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
        if self._is_over or problem is self._reported or isinstance(problem, Closed):
            return
        self._reported = problem
        if self.exception_listener is not None:
            try:
                self.exception_listener(problem)
            except Exception:
                log.exception("exception listener of the connection failed")
        else:
            log.warning("connection to %s failed: %s", self.client.address.shown, problem)
