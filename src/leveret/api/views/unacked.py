"""Rows of unacknowledged deliveries."""

from __future__ import annotations

from typing import NamedTuple

from leveret.api.views.connection import channel_details
from leveret.api.views.message import plain
from leveret.broker.publish_rules import readable_properties
from leveret.delivery.consumer import Consumer
from leveret.delivery.unacked import Portion
from leveret.http.rows import Row
from leveret.session.channel import Channel
from leveret.wire.content import body_size

TASK = "task"  # the header of Celery with the name of a task
LONGEST_TASK = 255


class FoundDelivery(NamedTuple):
    """``portion`` has one message. ``seconds``: how long ago it was delivered."""

    tag: int
    portion: Portion
    channel: Channel
    seconds: float


def delivery_row(found: FoundDelivery, now: float) -> Row:
    """``consumer_tag`` is null for a message that was fetched with basic.get. ``since`` is in milliseconds.
    ``size`` is the size of the body, as ``payload_bytes`` of browsed messages is."""
    holder, message = found.portion.holder, found.portion.messages[0]
    content, address, _ = message
    body_bytes = body_size(content)
    properties = readable_properties(message)
    task = plain((properties.headers or {}).get(TASK))
    return {
        "delivery_tag": found.tag,
        "consumer_tag": holder.tag if isinstance(holder, Consumer) else None,
        "channel_details": channel_details(found.channel),
        "since": int((now - found.seconds) * 1000),
        "seconds": round(found.seconds, 3),
        "redelivered": found.portion.tries > 0,
        "delivery_count": found.portion.tries,
        "exchange": address.exchange,
        "routing_key": address.key,
        "size": body_bytes,
        "payload_bytes": body_bytes,
        "message_id": properties.message_id,
        "correlation_id": properties.correlation_id,
        "task": task[:LONGEST_TASK] if isinstance(task, str) else None,
    }
