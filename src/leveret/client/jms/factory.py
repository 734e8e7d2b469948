"""Where it begins: what connections have in common. What ActiveMQ's users write into an address is read, too.

factory = ConnectionFactory("amqp://guest:guest@localhost/")
connection = await factory.create_connection()
session = await connection.create_session(AckMode.CLIENT)
consumer = await session.create_consumer(Queue("orders"))
await connection.start()
message = await consumer.receive()
"""

from __future__ import annotations

from typing import TypedDict, Unpack

import leveret.client
from leveret.client.address import Address, parsed
from leveret.client.failover_uri import is_plan, plan_of
from leveret.client.jms.clock import Clock, LoopClock
from leveret.client.jms.connection import Connection
from leveret.client.jms.destinations import Layout
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.policies import PrefetchPolicy, RedeliveryPolicy, Sending
from leveret.client.jms.uri_options import split_uri, with_login

LOGIN = {"user", "password"}


class AddressParts(TypedDict, total=False):
    host: str | None
    port: int | None
    vhost: str | None
    user: str | None
    password: str | None


class ConnectionFactory:
    """By one URI, or by its parts; a part that is given stands above the URI.

    ``prefetch`` is how many messages wait in the client for a consumer, 0: none, each is asked for; or a policy with a
    number for each kind of destination. ``clock`` is what timeouts and retries go by.
    """

    def __init__(
        self,
        uri: str = "amqp://",
        *,
        client_id: str | None = None,
        prefetch: int | PrefetchPolicy | None = None,
        redelivery: RedeliveryPolicy | None = None,
        sending: Sending | None = None,
        layout: Layout | None = None,
        **parts: Unpack[AddressParts],
    ) -> None:
        self.uri = uri
        self._plain_uri, said = split_uri(uri)
        if isinstance(prefetch, int):
            prefetch = PrefetchPolicy.everywhere(prefetch)
        self.client_id = (said.client_id or "") if client_id is None else client_id
        self.prefetch = prefetch or said.prefetch or PrefetchPolicy()
        self.redelivery = redelivery or said.redelivery or RedeliveryPolicy()
        self.sending = sending or said.sending or Sending()
        self.layout = layout or Layout()
        self.clock: Clock = LoopClock()
        self._parts = {"user": said.user, "password": said.password} | {
            name: value for name, value in parts.items() if value is not None
        }
        self._address()  # what is wrong with it is said here

    async def create_connection(self, user: str | None = None, password: str | None = None) -> Connection:
        """Connected and logged in; not started."""
        client = await leveret.client.connect(self._address(user=user, password=password))
        return Connection(self, client, self.clock)

    def _address(self, **login: str | None) -> Address | str:
        said = {name: value for name, value in login.items() if value is not None}
        given = {name: value for name, value in self._parts.items() if value is not None} | said
        uri = self._plain_uri
        if not is_plan(uri):
            return parsed(uri, **given)
        elsewhere = [name for name in given if name not in LOGIN]
        if elsewhere:
            raise IllegalState(
                f"{', '.join(elsewhere)} cannot stand beside an address of several brokers: write it into each of them"
            )
        plan_of(uri)
        user, password = given.get("user"), given.get("password")
        return with_login(uri, user, password) if given else uri  # type: ignore[arg-type]
