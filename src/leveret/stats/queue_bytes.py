"""How many bytes the messages of a queue are, for its JSON and for the metrics. A stream has most of its in files."""

from __future__ import annotations

from leveret.queues.classic import ClassicQueue
from leveret.queues.stream import StreamQueue


def total_bytes(queue: ClassicQueue) -> int:
    return queue.bytes + queue.files.bytes + queue.held if isinstance(queue, StreamQueue) else queue.bytes


def ready_bytes(queue: ClassicQueue) -> int:
    """Without those in hands, and those that wait for their next try."""
    waiting = 0 if queue.delayed is None else queue.delayed.bytes
    return total_bytes(queue) - queue.held - waiting
