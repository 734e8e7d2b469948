"""What of a queue's lanes was looked at, for a queue that chooses who gets which message (selection.py).

A message is known by its *rank*, a number by which everything sorts as it goes out. Ranks are kept, messages are not:
one that expired, was purged or was taken by hand is simply not found any more. What is on disk only is looked at when
it comes back.

A message that nobody takes stays in front while others leave from behind it. Their holes cannot be dropped, since they
stand for sequences: when there are too many, what still waits between them is *set aside* among the returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.backlog.lane import HOLE, Lane, Waiting
from leveret.message import Message
from leveret.queues.groups import place_of, rank_of

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

MANY_HOLES = 1024
MANY_DEAD = 1024  # known, and not there any more


class View:
    __slots__ = ("_aside", "_known", "_looked", "_queue")

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._looked = [lane.head for lane in queue.lanes]  # everything in ``ready`` below this was looked at
        self._known: list[set[int]] = [set() for _ in queue.lanes]  # of what came back, that was looked at
        self._aside: list[set[int]] = [set() for _ in queue.lanes]  # among the returned, those that never went out

    @property
    def has_set_aside(self) -> bool:
        return any(self._aside)

    def forget(self) -> None:
        """Everything is to be looked at again."""
        self._looked = [lane.head for lane in self._queue.lanes]
        for known in self._known:
            known.clear()

    # ---- looking

    def catch_up(self) -> None:
        """What was paged out after it was looked at is looked at again when it is back."""
        for lane in self._queue.lanes:
            self._looked[lane.number] = min(self._looked[lane.number], lane.page_start)

    def next_of(self, lane: Lane) -> int | None:
        """The rank of the first in ``ready`` that was not looked at."""
        sequence = max(self._looked[lane.number], lane.head)
        return rank_of(lane.number, sequence) if sequence < lane.page_start else None

    def peek(self, lane: Lane) -> Message | None:
        """The message with that rank; None if it is a hole."""
        message = lane.ready[max(self._looked[lane.number], lane.head) - lane.head]
        return None if message is HOLE else message

    def pass_on(self, lane: Lane) -> None:
        """That one was looked at."""
        self._looked[lane.number] = max(self._looked[lane.number], lane.head) + 1

    def unknown(self, lane: Lane) -> list[Waiting]:
        """What came back and was not looked at since."""
        known = self._known[lane.number]
        return [waiting for waiting in lane.returned if waiting[0] not in known]

    def know(self, lane: Lane, sequence: int) -> None:
        self._known[lane.number].add(sequence)

    # ---- taking

    def take(self, rank: int, hand: Lane) -> bool:
        """Move one message out of its lane into an empty one, from which it is given; False if it is gone."""
        number, sequence = place_of(rank)
        lane, known, aside = self._queue.lanes[number], self._known[number], self._aside[number]
        came_back = sequence in known
        waiting = lane.cut_out(sequence)
        if waiting is None:
            return False
        hand.hold(number, waiting, redelivered=came_back and sequence not in aside)
        known.discard(sequence)
        aside.discard(sequence)
        return True

    def let_go(self, lane: int, places: range) -> None:
        """These may come back, and are to be looked at then."""
        if self._known[lane]:
            self._known[lane].difference_update(places)

    # ---- tidying up

    def tidy(self) -> None:
        for lane in self._queue.lanes:
            # what is loaded from disk stays only if there is room in ``ready``, and holes take room there
            if lane.holes > (0 if lane.page_stop else MANY_HOLES) and lane.holes * 4 > len(lane.ready) * 3:
                self._set_aside(lane)
            known = self._known[lane.number]
            if len(known) > 2 * len(lane.returned) + MANY_DEAD:
                here = {waiting[0] for waiting in lane.returned}
                known &= here
                self._aside[lane.number] &= here

    def _set_aside(self, lane: Lane) -> None:
        """Give up the front half of ``ready``, mostly holes; what still waits there is kept apart."""
        for sequence, message in lane.shed(max(0, min(len(lane.ready) // 2, self._looked[lane.number] - lane.head))):
            self._queue.put_back(lane.number, sequence, 0, message)
            self._known[lane.number].add(sequence)
            self._aside[lane.number].add(sequence)
