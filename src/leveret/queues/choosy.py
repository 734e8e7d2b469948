"""Publishing to queues that may not take every message: full ones that refuse, and those that drop duplicates.

One message at a time, since each may have another fate. A duplicate counts as taken: it is confirmed and dropped. A
refusal by any queue is a nack for the publisher, whatever the others did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leveret.delivery.receipts import PendingPublish, Unattended
from leveret.message import NEVER, Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.dead_messages import MAXLEN, NOWHERE, DeadMessage
from leveret.queues.options import REJECT_DLX
from leveret.queues.queue import Queue, publish_to
from leveret.store.log import GRANTED, Log


class Outcome(NamedTuple):
    receipt: int
    refused: bool


def offer(queues: Sequence[Queue], log: Log, message: Message, *, may_drain: bool = True) -> Outcome:
    """``may_drain``: a full queue may first give its consumers what it has."""
    taken: list[Queue] = []
    noting: list[ClassicQueue] = []
    refused = False
    owed = GRANTED  # where a duplicate came so early that the first one is not safe yet
    for queue in queues:
        if not queue.choosy:
            taken.append(queue)
            continue
        assert isinstance(queue, ClassicQueue)
        if queue.duplicates is not None and queue.duplicates.has_seen(message):
            queue.counters.duplicates += 1
            owed = max(owed, queue.duplicates.owed(message))
        elif queue.limits is not None and not queue.limits.has_room((message,), may_drain):
            refused = True
            _refuse(queue, message)
        else:
            taken.append(queue)
            if queue.duplicates is not None:
                noting.append(queue)
    size, timed = len(message[0]), message[2].deadline != NEVER
    if not noting:
        receipt = publish_to(taken, log, [message], size, timed) if taken else GRANTED
        return Outcome(max(receipt, owed), refused)
    with log.group():  # what is remembered of it and the message itself: both or none
        receipt = publish_to(taken, log, [message], size, timed)
        for noter in noting:
            assert noter.duplicates is not None
            noter.duplicates.note(message)
    return Outcome(log.issued if receipt != GRANTED else owed, refused)


def without_room(parts: Iterable[tuple[Sequence[Queue], Sequence[Message]]]) -> Queue | None:
    """A queue that would refuse some of these messages if they all came now; None if each takes its own.

    Too careful, never too bold: consumers are given what waits, not what would come; and a duplicate of a message in
    ``parts`` itself is counted, though it would need no room.
    """
    wanted: dict[ClassicQueue, list[Message]] = {}
    for queues, messages in parts:
        for queue in queues:
            if queue.choosy and isinstance(queue, ClassicQueue) and queue.limits is not None:
                seen = queue.duplicates
                fresh = [message for message in messages if seen is None or not seen.has_seen(message)]
                wanted.setdefault(queue, []).extend(fresh)
    for may_drain in (True, False):  # a drain may send dead letters to a queue that was looked at before
        for queue, fresh in wanted.items():
            assert queue.limits is not None
            if fresh and not queue.limits.has_room(fresh, may_drain):
                return queue
    return None


def hand_over(queues: Sequence[Queue], log: Log, message: Message, *, may_drain: bool = True) -> Outcome:
    """The same for queues of any kind. Does not wait for those that answer later."""
    size, timed = len(message[0]), message[2].deadline != NEVER
    for queue in queues:
        if queue.remote_log is not None:
            queue.remote_log.submit(size, timed, PendingPublish(Unattended(), [message]))
    return offer([queue for queue in queues if queue.remote_log is None], log, message, may_drain=may_drain)


def _refuse(queue: ClassicQueue, message: Message) -> None:
    queue.counters.refused += 1
    if queue.options.overflow == REJECT_DLX and queue.options.dead_letter is not None:
        queue.discard(MAXLEN, [DeadMessage(0, NOWHERE, message)])
