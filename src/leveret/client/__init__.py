"""A client of AMQP 0-9-1, for this broker and for RabbitMQ.

async with await connect("amqp://localhost") as connection:
    channel = await connection.channel()
    queue = await channel.declare_queue("orders", durable=True)
    await channel.confirm_select()
    await channel.publish(b"an order", routing_key="orders")
"""

from leveret.client.address import Address
from leveret.client.channel import Channel
from leveret.client.connection import Connection, Happening, connect
from leveret.client.consumers import Consumer
from leveret.client.errors import (
    AddressError,
    Cancelled,
    ClientError,
    Closed,
    ConnectionLost,
    Nacked,
    TransactionRolledBack,
    Unroutable,
)
from leveret.client.messages import Delivery, Fetched, Returned
from leveret.wire.properties import Properties

__all__ = [
    "Address",
    "AddressError",
    "Cancelled",
    "Channel",
    "ClientError",
    "Closed",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "Delivery",
    "Fetched",
    "Happening",
    "Nacked",
    "Properties",
    "Returned",
    "TransactionRolledBack",
    "Unroutable",
    "connect",
]
