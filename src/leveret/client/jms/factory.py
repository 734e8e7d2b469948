"""Where it begins: what connections have in common.

factory = ConnectionFactory("amqp://guest:guest@localhost/")
connection = await factory.create_connection()
session = await connection.create_session(AckMode.CLIENT)
consumer = await session.create_consumer(Queue("orders"))
await connection.start()
message = await consumer.receive()
"""

from __future__ import annotations

import leveret.client
from leveret.client.address import Address, parsed
from leveret.client.jms.connection import Connection
from leveret.client.jms.destinations import Layout
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.redelivery import RedeliveryPolicy
from leveret.client.jms.timing import Clock, LoopClock

USUAL_PREFETCH = 1000
WRAPPERS = ("failover:", "fanout:")


class ConnectionFactory:
    """By one URI, or by its parts; a part that is given stands above the URI.

    ``prefetch`` is how many messages wait in the client for a consumer, 0: none, each is asked for. ``clock`` is what
    timeouts and retries go by.
    """

    def __init__(
        self,
        uri: str = "amqp://",
        *,
        host: str | None = None,
        port: int | None = None,
        vhost: str | None = None,
        user: str | None = None,
        password: str | None = None,
        client_id: str = "",
        prefetch: int = USUAL_PREFETCH,
        redelivery: RedeliveryPolicy | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.uri = uri
        self.client_id = client_id
        self.prefetch = prefetch
        self.redelivery = redelivery or RedeliveryPolicy()
        self.layout = layout or Layout()
        self.clock: Clock = LoopClock()
        self._parts = {"host": host, "port": port, "vhost": vhost, "user": user, "password": password}
        self._address()  # what is wrong with it is said here

    async def create_connection(self, user: str | None = None, password: str | None = None) -> Connection:
        """Connected and logged in; not started."""
        client = await leveret.client.connect(self._address(user=user, password=password))
        return Connection(self, client, self.clock)

    def _address(self, **login: str | None) -> Address | str:
        said = {name: value for name, value in login.items() if value is not None}
        given = {name: value for name, value in self._parts.items() if value is not None} | said
        if not self.uri.startswith(WRAPPERS):
            return parsed(self.uri, **given)
        if given:
            raise IllegalState(f"{', '.join(given)} cannot stand beside an address of several brokers: name each there")
        return self.uri
