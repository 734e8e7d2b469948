"""The JMS-style API of the client: factory, connection, session, producer, consumer.

async with await ConnectionFactory("amqp://localhost").create_connection() as connection:
    session = await connection.create_session(AckMode.AUTO)
    consumer = await session.create_consumer(Queue("orders"))
    await connection.start()
    message = await consumer.receive(timeout=5)
"""

from leveret.client.jms.ack_modes import AckEvent, AckMode, AckType
from leveret.client.jms.browser import QueueBrowser
from leveret.client.jms.connection import Connection
from leveret.client.jms.consumer import MessageConsumer
from leveret.client.jms.destinations import (
    Destination,
    Layout,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    destination_named,
)
from leveret.client.jms.errors import (
    IllegalState,
    InvalidDestination,
    InvalidSelector,
    JmsError,
    MessageFormatError,
    MessageNotWriteable,
    Unsupported,
)
from leveret.client.jms.factory import ConnectionFactory
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from leveret.client.jms.policies import PrefetchPolicy, RedeliveryPolicy, Sending
from leveret.client.jms.producer import Producer
from leveret.client.jms.requestor import Requestor
from leveret.client.jms.session import Session

__all__ = [
    "AckEvent",
    "AckMode",
    "AckType",
    "BytesMessage",
    "Connection",
    "ConnectionFactory",
    "Destination",
    "IllegalState",
    "InvalidDestination",
    "InvalidSelector",
    "JmsError",
    "Layout",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageFormatError",
    "MessageNotWriteable",
    "PrefetchPolicy",
    "Producer",
    "Queue",
    "QueueBrowser",
    "RedeliveryPolicy",
    "Requestor",
    "Sending",
    "Session",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "Unsupported",
    "destination_named",
]
