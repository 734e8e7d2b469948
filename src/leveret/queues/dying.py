"""How messages leave a queue for good without being consumed, and where to.

A message dies because its time is up, because the queue is too long, because a consumer refused it, or because it came
back too often. Without a dead letter exchange that is its end. With one, the house sends it on (``Surroundings``), and
it leaves this queue in the same group of the log in which it enters the next: a crash shows it here or there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from leveret.message import Message
from leveret.queues.options import DeadLetterTo

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

BATCH = 256  # deaths at a time: each batch is one group of the log
NOWHERE = 0  # the sequence of a message that never had a place in the queue
REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"


class Dead(NamedTuple):
    """A message that has left its lane and still holds its place in the log."""

    lane: int
    sequence: int
    message: Message


def bury(queue: ClassicQueue, reason: str, deaths: Sequence[Dead]) -> None:
    target = queue.options.dead_letter
    if target is not None and not (reason == MAXLEN and queue.options.discards):
        sent = [dead for dead in deaths if takes(target, reason, dead.message)]
        if sent:
            queue.counters.dead_lettered += len(sent)
            queue.surroundings.dead_letter(queue, reason, sent)
        if len(sent) == len(deaths):
            return
        deaths = [dead for dead in deaths if not takes(target, reason, dead.message)]
    for dead in deaths:
        leave(queue, dead)


def leave(queue: ClassicQueue, dead: Dead) -> None:
    """It holds its place no more."""
    if dead.sequence != NOWHERE:
        queue.release(dead.lane, dead.sequence, 1, len(dead.message[0]))


def takes(target: DeadLetterTo, reason: str, message: Message) -> bool:
    if reason == EXPIRED and not target.takes_expired:
        return False
    return target.takes_transient or message[2].persistent


def buries_expired(queue: ClassicQueue) -> bool:
    """Whether somebody wants to see what dies of age."""
    target = queue.options.dead_letter
    return target is not None and target.takes_expired
