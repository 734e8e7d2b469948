"""Records which messages of a queue's lanes were classified (selection.py).

A message is identified by its *rank*, a number that sorts in the order of delivery. Ranks are stored, messages are not:
a message that expired, was purged or was fetched by basic.get is no longer found. Messages on disk only are classified
when they are loaded.

A message that matches no consumer stays in front while messages behind it leave. The holes that they leave stand for
sequences and cannot be dropped: when there are too many, the messages between them are *set aside* in ``returned``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.backlog.lane import HOLE, Lane, Waiting
from leveret.message import Message
from leveret.queues.groups import place_of, rank_of

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

MANY_HOLES = 1024
MANY_DEAD = 1024  # classified messages that are gone


class View:
    __slots__ = ("_aside", "_known", "_looked", "_queue")

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._looked = [lane.head for lane in queue.lanes]  # everything in ``ready`` below this was classified
        self._known: list[set[int]] = [set() for _ in queue.lanes]  # returned messages that were classified
        self._aside: list[set[int]] = [set() for _ in queue.lanes]  # messages in ``returned`` that were never delivered

    @property
    def has_set_aside(self) -> bool:
        return any(self._aside)

    def forget(self) -> None:
        """Forget all classifications: everything has to be classified again."""
        self._looked = [lane.head for lane in self._queue.lanes]
        for known in self._known:
            known.clear()

    # ---- classifying

    def catch_up(self) -> None:
        """Messages that were paged out after they were classified are classified again when they are loaded."""
        for lane in self._queue.lanes:
            self._looked[lane.number] = min(self._looked[lane.number], lane.page_start)

    def next_of(self, lane: Lane) -> int | None:
        """The rank of the first message in ``ready`` that was not classified."""
        sequence = max(self._looked[lane.number], lane.head)
        return rank_of(lane.number, sequence) if sequence < lane.page_start else None

    def peek(self, lane: Lane) -> Message | None:
        """The first message in ``ready`` that was not classified; None if it is a hole."""
        message = lane.ready[max(self._looked[lane.number], lane.head) - lane.head]
        return None if message is HOLE else message

    def pass_on(self, lane: Lane) -> None:
        """Mark that message as classified."""
        self._looked[lane.number] = max(self._looked[lane.number], lane.head) + 1

    def unknown(self, lane: Lane) -> list[Waiting]:
        """Returned messages that were not classified since they returned."""
        known = self._known[lane.number]
        return [waiting for waiting in lane.returned if waiting[0] not in known]

    def know(self, lane: Lane, sequence: int) -> None:
        self._known[lane.number].add(sequence)

    # ---- taking

    def take(self, rank: int, hand: Lane) -> bool:
        """Move one message from its lane into an empty lane, to be delivered from there; False if it is gone."""
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
        """These messages may be returned, and then have to be classified again."""
        if self._known[lane]:
            self._known[lane].difference_update(places)

    # ---- cleaning up

    def tidy(self) -> None:
        for lane in self._queue.lanes:
            # loaded messages stay only if there is room in ``ready``, and holes take room
            if lane.holes > (0 if lane.page_stop else MANY_HOLES) and lane.holes * 4 > len(lane.ready) * 3:
                self._set_aside(lane)
            known = self._known[lane.number]
            if len(known) > 2 * len(lane.returned) + MANY_DEAD:
                here = {waiting[0] for waiting in lane.returned}
                known &= here
                self._aside[lane.number] &= here

    def _set_aside(self, lane: Lane) -> None:
        """Remove the front half of ``ready``, mostly holes, and move its messages to ``returned``."""
        for sequence, message in lane.shed(max(0, min(len(lane.ready) // 2, self._looked[lane.number] - lane.head))):
            self._queue.put_back(lane.number, sequence, 0, message)
            self._known[lane.number].add(sequence)
            self._aside[lane.number].add(sequence)
