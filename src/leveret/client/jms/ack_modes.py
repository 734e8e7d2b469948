"""The acknowledgement modes of a session, and the seven types of an acknowledgement. The numbers are ActiveMQ's.

DELIVERED 0    the application holds a whole prefetch of unacknowledged messages: the window moves on. A new AMQP
               consumer replaces the old one, whose messages stay unacknowledged on the channel.
POISON 1       a message failed more often than its policy allows: basic.reject without requeue.
STANDARD 2     messages are processed: basic.ack, with ``multiple`` if possible.
REDELIVERED 3  messages are passed to the application once more: nothing is sent.
INDIVIDUAL 4   one message is processed: basic.ack.
UNMATCHED 5    a message does not match the selector of a topic subscriber: basic.ack, which deletes the stored copy.
EXPIRED 6      a message expired while it waited in the client: basic.reject if it is persistent, else basic.ack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from leveret.client.messages import Delivery

if TYPE_CHECKING:
    from leveret.client.jms.consumer import MessageConsumer


class AckMode(IntEnum):
    SESSION_TRANSACTED = 0  # at commit
    AUTO = 1  # when the listener has returned, or receive() returns
    CLIENT = 2  # by message.acknowledge(), all messages delivered by the session
    DUPS_OK = 3  # in batches
    INDIVIDUAL = 4  # by message.acknowledge(), this message only


class AckType(IntEnum):
    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


@dataclass(slots=True, frozen=True)
class AckEvent:
    """An acknowledgement, passed to the ack listeners of a session."""

    type: AckType
    consumer: MessageConsumer
    deliveries: tuple[Delivery, ...]


AckListener = Callable[[AckEvent], None]
