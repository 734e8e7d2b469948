"""Messages that a channel or local session fetches with basic.get."""

from __future__ import annotations

from leveret.delivery.consumer import Holder
from leveret.delivery.unacked import Unacked
from leveret.queues.declared_queue import DeclaredQueue, GetResult


class Getters:
    """One holder for each queue that messages were fetched from, beside the holders that are consumers."""

    __slots__ = ("_holders", "_unacked")

    def __init__(self, unacked: Unacked) -> None:
        self._unacked = unacked
        self._holders: dict[str, Holder] = {}

    def get(self, queue: DeclaredQueue, getter: object, *, auto_ack: bool) -> tuple[int, GetResult] | None:
        """The first message with its delivery tag; None if the queue is empty. ``getter``: for the trace."""
        taken = queue.get(auto_ack, getter)
        if taken is None:
            return None
        unacked = self._unacked
        tag = unacked.next_tag
        if auto_ack:
            unacked.skip(1)
            return tag, taken
        holder = self._holders.get(queue.name)
        if holder is None or holder.queue is not queue:
            holder = self._holders[queue.name] = Holder(queue, 0, unacked)
        unacked.items.append(taken.message)
        unacked.opened(holder, taken.lane, taken.sequence, 1, taken.delivery_count)
        if queue.ack_timeouts is not None:
            queue.ack_timeouts.opened(unacked, 1)
        return tag, taken
