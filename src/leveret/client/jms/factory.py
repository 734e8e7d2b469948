"""The factory of connections, with their common settings. It also reads options in ActiveMQ's syntax.

factory = ConnectionFactory("amqp://guest:guest@localhost/")
connection = await factory.create_connection()
session = await connection.create_session(AckMode.CLIENT)
consumer = await session.create_consumer(Queue("orders"))
await connection.start()
message = await consumer.receive()
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypedDict, Unpack

import leveret.client
from leveret.client.address import Address, parsed
from leveret.client.failover_uri import Plan, is_plan, plan_of
from leveret.client.jms.clock import Clock
from leveret.client.jms.connection import Connection
from leveret.client.jms.destinations import Layout
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.policies import PrefetchPolicy, RedeliveryPolicy, Sending
from leveret.client.jms.uri_options import split_uri

LOGIN = {"user", "password"}


class AddressParts(TypedDict, total=False):
    host: str | None
    port: int | None
    vhost: str | None
    user: str | None
    password: str | None


class ConnectionFactory:
    """Takes a URI, or its parts; a part overrides the URI.

    ``prefetch`` is how many messages may wait in the client for a consumer, 0: none, each is requested; or a policy
    with a number for each kind of destination. ``clock`` is used for timeouts and redelivery.
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
        self._plain_uri, options = split_uri(uri)
        if isinstance(prefetch, int):
            prefetch = PrefetchPolicy.everywhere(prefetch)
        self.client_id = (options.client_id or "") if client_id is None else client_id
        self.prefetch = prefetch or options.prefetch or PrefetchPolicy()
        self.redelivery = redelivery or options.redelivery or RedeliveryPolicy()
        self.sending = sending or options.sending or Sending()
        self.layout = layout or Layout()
        self.clock = Clock()
        self._parts = {"user": options.user, "password": options.password} | {
            name: value for name, value in parts.items() if value is not None
        }
        self._address()  # raises if it is wrong

    async def create_connection(self, user: str | None = None, password: str | None = None) -> Connection:
        """Connected and logged in; not started."""
        client = await leveret.client.connect(self._address(user=user, password=password))
        return Connection(self, client, self.clock)

    def _address(self, **login: str | None) -> Address | Plan:
        parts = self._parts | {name: value for name, value in login.items() if value is not None}
        given: dict[str, Any] = {name: value for name, value in parts.items() if value is not None}
        if not is_plan(self._plain_uri):
            return parsed(self._plain_uri, **given)
        elsewhere = [name for name in given if name not in LOGIN]
        if elsewhere:
            raise IllegalState(
                f"{', '.join(elsewhere)} cannot be combined with an address of several brokers: set it in each address"
            )
        plan = plan_of(self._plain_uri)
        return replace(plan, addresses=tuple(replace(each, **given) for each in plan.addresses))
