"""What was counted, and how fast it changes: the numbers behind `message_stats` and the rates beside them."""

from __future__ import annotations

from typing import Any

from leveret.broker.broker import Broker
from leveret.queues.classic import ClassicQueue

Row = dict[str, Any]


class Stats:
    """Of one broker. Each answer is a part of an object's JSON, to be merged into it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def of_queue(self, queue: ClassicQueue) -> Row:
        """`message_stats`, and `messages_details`, `messages_ready_details`, `messages_unacknowledged_details`."""
        counters = queue.counters
        acked_for = counters.delivered - counters.delivered_no_ack
        return {
            "message_stats": {
                "publish": counters.received,
                "deliver": acked_for,
                "deliver_no_ack": counters.delivered_no_ack,
                "get": counters.got,
                "deliver_get": counters.delivered + counters.got,
                "redeliver": counters.redelivered,
                "ack": counters.acked,
            }
        }

    def of_exchange(self, vhost: str, exchange: str) -> Row:
        """`message_stats` with publish_in and publish_out."""
        counters = self._broker.vhosts[vhost].counters_of(exchange)
        return {"message_stats": {"publish_in": counters.published, "publish_out": counters.routed}}
