"""Pause and resume: a paused queue takes messages and gives none, until it is resumed; a restart changes nothing.

What consumers hold already stays with them and can be settled. basic.get finds nothing.
"""

from __future__ import annotations

from leveret.broker.vhost import Vhost
from leveret.queues.classic import ClassicQueue
from leveret.store.definitions import Drop, ParameterRow, Put

PAUSED = "paused"  # the component of its parameter


def pause(vhost: Vhost, queue: ClassicQueue) -> None:
    if queue.stored and not queue.consumers.paused:
        vhost.record(Put(ParameterRow(vhost.name, PAUSED, queue.name, b"true")))
    queue.consumers.paused = True


def resume(vhost: Vhost, queue: ClassicQueue) -> None:
    if queue.stored and queue.consumers.paused:
        vhost.record(Drop(ParameterRow, (vhost.name, PAUSED, queue.name)))
    queue.consumers.paused = False
    queue.touch()
