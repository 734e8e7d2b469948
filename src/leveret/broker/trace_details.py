"""Details in a message trace: the properties, as far as they are short, and why the message left a queue."""

from __future__ import annotations

from typing import Any

from leveret.broker.firehose import property_table
from leveret.errors import FrameError
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.traced_queues import ACKED, DELIVERY_LIMIT, PURGED, QUEUE_DELETED, REJECTED
from leveret.wire.content import body_at, body_size, properties_of
from leveret.wire.properties import Properties

MOST_HEADER_BYTES = 4096  # of one message: ten thousand traces must stay small
LONGEST_VALUE = 200  # characters of a header value that is kept when headers are truncated

Facts = dict[str, Any]


def readable_properties(content: bytes) -> Properties:
    """Headers are not validated on receipt; unreadable ones count as none."""
    try:
        return properties_of(content)
    except FrameError:
        return Properties()


def message_facts(message: Message, properties: Properties) -> tuple[Facts, int]:
    """The details of a message and their approximate size in memory."""
    content, address, _ = message
    said, size = property_table(properties), body_at(content)
    facts: Facts = {
        "message_id": properties.message_id,
        "exchange": address.exchange,
        "routing_key": address.key,
        "size": body_size(content),
        "properties": said,
        "headers_cut": False,
    }
    if size > MOST_HEADER_BYTES and properties.headers:
        said["headers"] = _short_ones(properties.headers)
        facts["headers_cut"], size = True, MOST_HEADER_BYTES
    return facts, size * 4  # text and tables use more memory than on the wire


def _short_ones(headers: dict[str, Any]) -> Facts:
    kept: Facts = {}
    left = MOST_HEADER_BYTES
    for name, value in headers.items():
        size = len(name) + len(repr(value))
        if size <= LONGEST_VALUE and size <= left:
            kept[name] = value
            left -= size
    return kept


DEPARTURES: dict[str, tuple[str, Facts]] = {
    ACKED: ("acked", {}),
    REJECTED: ("rejected", {}),
    DELIVERY_LIMIT: ("dropped", {"reason": "delivery_limit"}),
    PURGED: ("purged", {}),
    QUEUE_DELETED: ("dropped", {"reason": "the queue was deleted"}),
}


def departure(queue: DeclaredQueue, cause: str | None) -> tuple[str, Facts]:
    """Why a message left the queue for good, other than by expiry. Without a known cause, the options tell."""
    if cause is not None:
        return DEPARTURES[cause]
    if queue.limits is not None:
        return "dropped", {"reason": "maxlen"}
    backlog = queue.backlog
    if backlog is not None and backlog.pager is not None and backlog.pager.leases is not None:
        return "acked", {"lease": True}
    return "dropped", {}
