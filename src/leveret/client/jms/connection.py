"""A connection as JMS has it: sessions share it, and nothing is dispatched before it is started."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from leveret.client.connection import Connection as AmqpConnection
from leveret.client.connection import Happening
from leveret.client.errors import Closed
from leveret.client.jms.ack_modes import AckMode
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.registrar import Registrar
from leveret.client.jms.session import Session
from leveret.client.jms.timing import Clock

if TYPE_CHECKING:
    from leveret.client.jms.factory import ConnectionFactory

log = logging.getLogger("leveret.client.jms")


class Connection:
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
        try:
            for session in list(self._sessions):
                await session.close()
            if not self.client.is_closed:
                await self.registrar.close()
        finally:
            await self.client.close()

    def refuse_closed(self) -> None:
        if self.is_closed:
            raise IllegalState("the connection is closed")

    def _happened(self, happening: Happening) -> None:
        if happening.kind != "lost" or happening.problem is None:
            return
        if self.client.is_closed:
            self.trouble(happening.problem)
        else:
            for session in list(self._sessions):
                session.interrupted()

    def trouble(self, problem: Exception) -> None:
        if self.is_closed or problem is self._told or isinstance(problem, Closed):
            return
        self._told = problem
        if self.exception_listener is not None:
            try:
                self.exception_listener(problem)
            except Exception:
                log.exception("the exception listener of the connection failed")
        else:
            log.warning("trouble on the connection to %s: %s", self.client.address.shown, problem)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
