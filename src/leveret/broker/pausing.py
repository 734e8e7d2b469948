"""Pause and resume: a paused queue takes messages and gives none, until it is resumed; a restart changes nothing.

What consumers hold already stays with them and can be settled. basic.get finds nothing.
"""

from __future__ import annotations

from leveret.broker.vhost import PAUSED, Vhost
from leveret.queues.classic import ClassicQueue


def pause(vhost: Vhost, queue: ClassicQueue) -> None:
    if queue.stored:
        vhost.parameters.put(PAUSED, queue.name, b"true")
    queue.consumers.paused = True


def resume(vhost: Vhost, queue: ClassicQueue) -> None:
    vhost.parameters.drop(PAUSED, queue.name)
    queue.consumers.paused = False
    queue.touch()
