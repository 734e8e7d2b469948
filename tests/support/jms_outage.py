"""A JMS connection with ``failover:``, and a broker that the test stops and starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import leveret
from leveret.client.jms import Connection, ConnectionFactory, Sending
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import QUICK, told

PATIENCE = 60.0


class Outage:
    def __init__(self, connection: Connection, proxy: ChaosProxy) -> None:
        self.connection = connection
        self.proxy = proxy

    async def begin(self) -> None:
        await self.proxy.refuse()
        await told(self.connection.client, "lost", self.proxy.cut)

    async def end(self) -> None:
        """Everything is as it was."""
        back = asyncio.Event()
        listeners = self.connection.client.listeners
        listeners.append(lambda happening: back.set() if happening.kind == "reconnected" else None)
        await self.proxy.listen()
        await back.wait()


@asynccontextmanager
async def before_an_outage(
    broker: leveret.Broker, options: str = "", sending: Sending | None = None
) -> AsyncIterator[Outage]:
    """The connection is started. ``options`` are those of the address."""
    async with asyncio.timeout(PATIENCE), ChaosProxy(broker.amqp_url) as proxy:
        uri = f"failover:({proxy.url})?{QUICK}{options}"
        async with await ConnectionFactory(uri, client_id="me", sending=sending).create_connection() as connection:
            await connection.start()
            yield Outage(connection, proxy)
