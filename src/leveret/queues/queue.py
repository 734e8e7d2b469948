"""The interface of a destination for messages: the part of any queue, declared or not, that routes use."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from leveret.delivery.receipts import RemoteLog
from leveret.message import Message
from leveret.store.log import Placement

if TYPE_CHECKING:
    from leveret.queues.duplicates import Duplicates
    from leveret.queues.limits import Limits


class Queue(Protocol):
    """Called on the broker's loop only."""

    __slots__ = ()

    name: str
    alive: bool  # False once deleted: cached routes that still contain it are replaced
    stored: bool  # its persistent messages survive a restart of the process
    synced: bool  # and a power failure
    keeps_all: bool  # stored, including transient messages
    can_reject: bool  # it may reject messages, or drop duplicates (queues/limits.py)
    limits: Limits | None  # on its length
    duplicates: Duplicates | None  # if it drops duplicates
    dirty: bool  # to be drained before this tick ends
    remote_log: RemoteLog | None  # of a queue that answers later, which gets its messages through this log only

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        """Take a run of messages (``size`` bytes of content; ``timed`` if one has an expiration of its own).

        Delivery happens in drain(), within the same tick. Must not keep ``run``: other queues get the same list.
        """

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        """Publish, and return the places of the messages for the log."""

    def drain(self) -> None:
        """Deliver waiting messages to the consumers, then drop or dead-letter expired messages."""

    def touch(self) -> None:
        """Have drain() called before this tick ends."""


def is_mixed(run: list[Message]) -> bool:
    """Whether some messages of the run are persistent and some are not."""
    return len(run) > 1 and len({message[2].persistent for message in run}) > 1


def stretches(run: list[Message]) -> list[list[Message]]:
    """The run, split into parts that are all persistent or all transient."""
    return [list(messages) for _, messages in groupby(run, key=lambda message: message[2].persistent)]


def uniform_runs(run: list[Message]) -> list[list[Message]]:
    """The run, split into parts that one write of the log may have: with one address, all persistent or all
    transient."""
    addresses = [message[1] for message in run]
    if addresses.count(addresses[0]) == len(addresses):
        return stretches(run)
    alike = groupby(run, key=lambda message: id(message[1]))
    return [stretch for _, part in alike for stretch in stretches(list(part))]
