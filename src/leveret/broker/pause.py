"""Pause and resume: a paused queue accepts messages and delivers none until it is resumed, also after a restart.

Messages that are unacknowledged when the queue is paused can still be settled. basic.get returns empty.
"""

from __future__ import annotations

from leveret.broker.vhost import PAUSED, Vhost
from leveret.queues.declared_queue import DeclaredQueue


def pause(vhost: Vhost, queue: DeclaredQueue) -> None:
    if queue.stored:
        vhost.parameters.put(PAUSED, queue.name, b"true")
    queue.consumers.paused = True


def resume(vhost: Vhost, queue: DeclaredQueue) -> None:
    vhost.parameters.drop(PAUSED, queue.name)
    queue.consumers.paused = False
    queue.touch()
