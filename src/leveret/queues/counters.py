"""What a queue has seen since it was made; plain numbers that only grow."""

from __future__ import annotations


class QueueCounters:
    __slots__ = (
        "acked",
        "delivered",
        "delivered_no_ack",
        "dropped",
        "expired",
        "got",
        "purged",
        "received",
        "redelivered",
        "requeued",
    )

    def __init__(self) -> None:
        self.received = 0  # published into the queue
        self.delivered = 0  # pushed to consumers, acked or not
        self.delivered_no_ack = 0
        self.got = 0  # taken by basic.get
        self.redelivered = 0
        self.acked = 0
        self.requeued = 0
        self.dropped = 0  # rejected without requeue
        self.expired = 0
        self.purged = 0
