"""The contract of a destination for messages: what routing results and sessions need of any kind of queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from leveret.delivery.receipts import RemoteLog
from leveret.message import Message
from leveret.store.log import GRANTED, Log, Placement


class Queue(Protocol):
    """Called on the broker's loop only."""

    name: str
    alive: bool  # False once deleted: remembered routes that still name it are made anew
    stored: bool  # its persistent messages outlive the process
    synced: bool  # and the machine
    keeps_all: bool  # stored, and that goes for transient messages too
    choosy: bool  # it may not take every message: see queues/choosy.py
    dirty: bool
    remote_log: RemoteLog | None  # of a queue that answers later, which gets its messages by this log only

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        """Take a run of messages (``size`` bytes of content; ``timed`` if one has an expiration of its own).

        Delivery happens in drain(), within the same turn. Must not keep ``run``: other queues get the same list.
        """

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        """Publish, and tell the places that the messages were given, for the log."""

    def drain(self) -> None:
        """Offer what is waiting to the consumers; then bury what is too old."""

    def touch(self) -> None:
        """Have drain() called before this turn ends."""


def publish_to(queues: Sequence[Queue], log: Log, run: list[Message], size: int, timed: bool) -> int:
    """Hand a run, all persistent or all transient, to all queues; those that keep it share one write: its receipt."""
    persistent = run[0][2].persistent
    placements: list[Placement] = []
    synced = False
    for queue in queues:
        if queue.stored and (persistent or queue.keeps_all):
            placements += queue.place(run, size, timed)
            synced = synced or queue.synced
        else:
            queue.publish(run, size, timed)
    return log.append(run, placements, synced) if placements else GRANTED


def is_mixed(run: list[Message]) -> bool:
    """Whether some messages of the run are persistent and some are not."""
    return len(run) > 1 and len({message[2].persistent for message in run}) > 1


def stretches(run: list[Message]) -> list[list[Message]]:
    """The run, cut wherever persistent and transient messages meet."""
    return [list(messages) for _, messages in groupby(run, key=lambda message: message[2].persistent)]
