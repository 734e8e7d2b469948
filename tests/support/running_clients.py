"""Clients that are connected while a test looks at them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from leveret import Broker
from tests.support.management_api import ManagementApi


@contextmanager
def client(
    broker: Broker, name: str = "a client", user: str = "guest", password: str = "guest"
) -> Iterator[BlockingChannel]:
    """A channel on a connection of its own."""
    parameters = pika.URLParameters(broker.amqp_url)
    parameters.client_properties = {"connection_name": name}
    parameters.credentials = pika.PlainCredentials(user, password)
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection.channel()
    finally:
        with suppress(AMQPError):
            connection.close()


def name_of(api: ManagementApi, client_name: str = "a client") -> str:
    """What the broker calls the connection."""
    _, rows = api.get("connections")
    (found,) = [row["name"] for row in rows if row.get("user_provided_name") == client_name]
    return str(found)
