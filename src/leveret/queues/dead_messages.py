"""Messages that leave a queue without being consumed, and the reasons: RabbitMQ's, as in the x-death header.

A message leaves because it expired, because the queue is too long, because a consumer rejected it, or because it was
delivered too often. Without a dead letter exchange it is dropped, else the broker publishes it there
(``ClassicQueue.discard``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leveret.message import Message

BATCH = 256  # messages at a time: each batch is one group of the log
NOWHERE = 0  # the sequence of a message that never had a place in the queue
REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"


class DeadMessage(NamedTuple):
    """A message that has left its lane and still has its place in the log."""

    lane: int
    sequence: int
    message: Message


def dead_messages(lane: int, sequence: int, messages: Sequence[Message]) -> list[DeadMessage]:
    """Messages with consecutive sequences."""
    return [DeadMessage(lane, place, message) for place, message in enumerate(messages, sequence)]
