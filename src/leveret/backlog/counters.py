"""The counters of a queue since it was declared: plain numbers that only grow."""

from __future__ import annotations


class QueueCounters:
    __slots__ = (
        "acked",
        "dead_lettered",
        "delivered",
        "delivered_no_ack",
        "dropped",
        "duplicates",
        "expired",
        "got",
        "got_no_ack",
        "got_nothing",
        "purged",
        "received",
        "redelivered",
        "refused",
        "requeued",
        "timed_out",
    )

    def __init__(self) -> None:
        self.received = 0  # published into the queue
        self.delivered = 0  # pushed to consumers, acked or not
        self.delivered_no_ack = 0
        self.got = 0  # taken by basic.get
        self.got_no_ack = 0  # of these, in automatic acknowledgement mode
        self.got_nothing = 0  # basic.get on an empty queue
        self.redelivered = 0
        self.acked = 0
        self.requeued = 0
        self.dropped = 0  # rejected without requeue, over a length limit, or over the delivery limit
        self.dead_lettered = 0  # of the dropped and expired messages
        self.duplicates = 0  # dropped as duplicates
        self.refused = 0  # rejected because the queue was full
        self.timed_out = 0  # not settled in time
        self.expired = 0
        self.purged = 0

    def absorb(self, other: QueueCounters) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
