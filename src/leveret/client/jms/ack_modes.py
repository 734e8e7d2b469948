"""How a session acknowledges, and the seven things that an acknowledgement can say. The numbers are ActiveMQ's.

DELIVERED 0    all that may wait in the client is with the application, unacked: the window moves on, the messages stay.
               A new consumer takes the place of the old one, whose messages stay with the channel.
POISON 1       a message failed once more than its policy allows: basic.reject without requeue.
STANDARD 2     messages are processed: basic.ack, with ``multiple`` where it can be.
REDELIVERED 3  messages go to the application once more: nothing is said, the channel holds them.
INDIVIDUAL 4   this one message is processed: basic.ack.
UNMATCHED 5    the selector of a topic's subscriber does not want a message: basic.ack, and the stored copy is gone.
EXPIRED 6      a message died while it waited in the client: basic.reject if it is persistent, else basic.ack.
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
    AUTO = 1  # when the listener has returned; as receive() hands over
    CLIENT = 2  # by message.acknowledge(), all that the session has delivered
    DUPS_OK = 3  # lazily, many at once
    INDIVIDUAL = 4  # by message.acknowledge(), that message alone


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
    """One acknowledgement, as the listeners of a session are told."""

    type: AckType
    consumer: MessageConsumer
    deliveries: tuple[Delivery, ...]


AckListener = Callable[[AckEvent], None]
