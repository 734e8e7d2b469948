"""Who gets which message, where not every consumer may have every message: selectors and groups.

Theory of operation. Messages are looked at once, in the order in which they go out: what came back first, then what is
ready, by lane. Looking means to read the properties, to ask the selectors (selection_sieve.py) and to find the group
(groups.py). What was looked at and not given at once is known by its *rank*, a number by which everything sorts as it
goes out, and stands in one place:

    lines       by mask, that is by who wants it: messages without a group, and the first of each free group
    a group     the rest of its messages; those of a group with a holder wait for that one alone

So when somebody has room again, only the lines that it may have are asked, and nothing is looked at twice. Nothing is
looked at while nobody has room. A new selector makes all masks void: everything in memory is looked at again, in as
many turns as that takes.

Ranks are kept, messages are not: one that expired, was purged or was taken by hand is simply not found any more. What
is on disk only is looked at when it comes back.

A message that nobody takes stays in front while others leave from behind it. Their holes cannot be dropped, since they
stand for sequences: when there are too many, what still waits between them is *set aside* among the returned.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from leveret.delivery.consumer import Consumer
from leveret.delivery.selector import MessageFields, selectable
from leveret.errors import FrameError
from leveret.message import Message
from leveret.queues.groups import Group, GroupKey, Groups, group_key, place_of, rank_of
from leveret.queues.lane import HOLE, Lane, Waiting
from leveret.queues.returning import restore
from leveret.queues.selection_sieve import Sieve
from leveret.queues.selection_turns import Turns
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

MANY_HOLES = 1024

Source = Lane | Group | int  # where a message is found: not looked at yet, in a held group, in the line of this mask
Front = tuple[int, int, Source]  # rank of its first message, order of entry


class Selection:
    __slots__ = (
        "_aside",
        "_filed",
        "_grouped",
        "_grouped_at",
        "_groups",
        "_hand",
        "_known",
        "_lines",
        "_looked",
        "_order",
        "_queue",
        "_sieve",
        "_turns",
        "_wishes",
    )

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._sieve = Sieve()
        self._groups = Groups()
        self._turns = Turns(self._groups.share)
        self._wishes = 0  # of the consumers that are here, or were when somebody was here last
        self._grouped = queue.options.groups
        self._looked = [lane.head for lane in queue.lanes]  # everything in ``ready`` below this was looked at
        self._known: list[set[int]] = [set() for _ in queue.lanes]  # of what came back, that was looked at
        self._aside: list[set[int]] = [set() for _ in queue.lanes]  # among the returned, those that never went out
        self._lines: dict[int, list[int]] = {}  # by mask, a heap of ranks
        self._grouped_at: dict[int, Group] = {}  # by rank, for what stands in a line for its group
        self._filed = 0  # ranks in lines and groups, with those that are not found any more
        self._hand = Lane()  # one message on its way
        self._order = count()
        self.follow_consumers()

    @property
    def is_needed(self) -> bool:
        """Some consumer or message is not like the others."""
        return (
            self._queue.options.groups
            or any(consumer.selector is not None for consumer in self._queue.consumers)
            or not len(self._queue.consumers)  # who pulls with a selector will be back
            or any(self._aside)
        )

    # ---- news

    def follow_consumers(self) -> None:
        """Consumers came or went."""
        queue = self._queue
        if self._sieve.admit(list(queue.consumers)):
            self._look_again()
        self._turns.follow(queue.consumers, self._sieve)
        present = self._turns.present
        if present and present != self._wishes:
            self._wishes = present
            for group in self._groups.ask_again():
                self._list(group)

    def joined(self) -> None:
        self.follow_consumers()
        self._release(self._groups.free_kept())

    def left(self, consumer: Consumer) -> None:
        self.follow_consumers()
        self._release(self._groups.free_kept(consumer))
        if not self.is_needed:
            self._queue.selection = None

    def let_go(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """These are in nobody's hands any more: settled, or about to come back."""
        places = range(sequence, sequence + len(messages))
        if self._known[lane]:
            self._known[lane].difference_update(places)
        if self._groups.holds_any:
            for place in places:
                group = self._groups.let_go(rank_of(lane, place))
                if group is not None:
                    self._release([group])

    def _release(self, freed: list[Group]) -> None:
        for group in freed:
            self._list(group)
            self._groups.forget_if_idle(group)
            if group.waiting:
                self._queue.touch()

    def _look_again(self) -> None:
        """What is known of the waiting messages is void."""
        self._looked = [lane.head for lane in self._queue.lanes]
        self._filed = 0
        self._lines.clear()
        self._grouped_at.clear()
        self._groups.clear_waiting()
        for known in self._known:
            known.clear()

    # ---- delivering

    def deliver(self, budget: int) -> int:
        """Give consumers what they may have; how much of the budget is left."""
        queue = self._queue
        if self._grouped != queue.options.groups:
            self._grouped = queue.options.groups
            self._look_again()
        if queue.consumers.paused:
            return budget
        able = self._turns.look_around()
        if not able:
            return budget
        budget = self._look_back(budget)
        fronts: list[Front] = []
        for source in self._sources(able):
            self._enter(fronts, source)
        while fronts and budget > 0 and self._turns.roomy and queue.alive:
            rank, _, source = heappop(fronts)
            budget -= self._serve(fronts, rank, source)
        self._tidy()
        return budget

    def _sources(self, able: list[Consumer]) -> list[Source]:
        found: list[Source] = []
        for lane in self._queue.lanes:
            # what was paged out after it was looked at is looked at again when it is back
            looked = max(self._looked[lane.number], lane.head)
            self._looked[lane.number] = min(looked, lane.page_start)
            found.append(lane)
        found += [mask for mask in self._lines if mask & self._turns.roomy]
        for consumer in able:
            found += self._groups.lined_up(consumer)
        return found

    def _enter(self, fronts: list[Front], source: Source) -> None:
        rank = self._first(source)
        if rank is not None:
            heappush(fronts, (rank, next(self._order), source))

    def _first(self, source: Source) -> int | None:
        """The rank of the first message there that may go."""
        if isinstance(source, int):
            line = self._lines.get(source)
            return line[0] if line else None
        if isinstance(source, Lane):
            looked = self._looked[source.number]
            return rank_of(source.number, looked) if looked < source.page_start else None
        head = source.head(self._wishes)
        return None if head is None or source.holder is None or source.is_held_up(head[0]) else head[0]

    def _serve(self, fronts: list[Front], rank: int, source: Source) -> int:
        """Do one thing at the first front; what it cost."""
        if isinstance(source, Lane):
            cost = self._look_on(fronts, source)
        elif self._first(source) != rank:
            cost = 1
        else:
            cost = 1
            given = self._serve_line(fronts, source) if isinstance(source, int) else self._serve_group(source)
            if not given:
                return cost
        self._enter(fronts, source)
        return cost

    def _serve_line(self, fronts: list[Front], mask: int) -> bool:
        """Give the first of the line away; False if nobody who wants it has room."""
        line = self._lines[mask]
        rank = line[0]
        group = self._grouped_at.get(rank)
        if group is not None and not self._stands_for(group, rank):
            self._leave_line(mask)
            return True
        consumer = self._turns.choose(mask, group is not None)
        if consumer is None:
            return False
        self._leave_line(mask)
        if group is not None:
            self._give_of(group, rank, consumer)
            self._enter(fronts, group)
        elif (waiting := self._take_out(rank)) is not None:
            self._hand_over(rank, waiting, consumer)
        return True

    def _leave_line(self, mask: int) -> None:
        line = self._lines[mask]
        self._grouped_at.pop(heappop(line), None)
        if not line:
            del self._lines[mask]

    def _serve_group(self, group: Group) -> bool:
        """Give the first of a held group to its holder; False if that cannot take it now."""
        rank, mask = group.waiting[0]
        holder = group.holder
        assert holder is not None
        if not self._turns.can_take(holder, mask):
            return False
        self._give_of(group, rank, holder)
        return True

    def _give_of(self, group: Group, rank: int, consumer: Consumer) -> None:
        """Give the first message of a group, if it is still there."""
        waiting = self._take_out(rank)
        if waiting is None:
            self._groups.pop(group)
            self._release([group])
        else:
            self._release(self._groups.given(group, rank, consumer))  # first: it may be its last
            self._hand_over(rank, waiting, consumer)

    def _take_out(self, rank: int) -> Waiting | None:
        self._filed -= 1
        number, sequence = place_of(rank)
        lane = self._queue.lanes[number]
        if lane.returned and lane.returned[0][0] == sequence:
            return lane.pop()
        return lane.cut_out(sequence)

    def _hand_over(self, rank: int, waiting: Waiting, consumer: Consumer) -> None:
        hand = self._hand
        hand.number, hand.head = place_of(rank)
        known, aside = self._known[hand.number], self._aside[hand.number]
        if hand.head in known and hand.head not in aside:
            hand.returned.append(waiting)
        else:
            hand.ready.append(waiting[2])
        known.discard(hand.head)
        aside.discard(hand.head)
        self._queue.offer(hand, consumer, 1)

    # ---- looking

    def _look_on(self, fronts: list[Front], lane: Lane) -> int:
        """Look at the next message of the lane; what it cost."""
        sequence = self._looked[lane.number]
        self._looked[lane.number] += 1
        message = lane.ready[sequence - lane.head]
        if message is HOLE:
            return 1
        self._enter(fronts, self._file(rank_of(lane.number, sequence), message))
        return 1 + len(self._sieve)

    def _look_back(self, budget: int) -> int:
        """Look at what came back, and at what waits for another try, before anything is given: order depends on it."""
        self._look_at_delays()
        for lane in self._queue.lanes:
            known = self._known[lane.number]
            for sequence, _, message in [each for each in lane.returned if each[0] not in known]:
                if budget <= 0:
                    return budget
                known.add(sequence)
                self._file(rank_of(lane.number, sequence), message)
                budget -= 1 + len(self._sieve)
            if len(known) > 2 * len(lane.returned) + MANY_HOLES:  # many died
                here = {each[0] for each in lane.returned}
                known &= here
                self._aside[lane.number] &= here
        return budget

    def _look_at_delays(self) -> None:
        waiting = self._queue.waiting
        if not self._grouped or waiting is None or not (len(waiting) or self._groups.has_delayed):
            return
        still = set()
        for lane, sequence, message in waiting:
            rank = rank_of(lane, sequence)
            still.add(rank)
            if not self._groups.is_delayed(rank):
                key = self._read(message)[1]
                if key is not None:
                    self._groups.delay(self._groups.of(key), rank)
        for group in self._groups.end_delays(still):
            self._list(group)
            self._groups.forget_if_idle(group)

    def _file(self, rank: int, message: Message) -> Source:
        """Where it stands from now on."""
        self._filed += 1
        mask, key = self._read(message)
        if key is None:
            heappush(self._lines.setdefault(mask, []), rank)
            return mask
        group = self._groups.of(key)
        self._groups.add(group, rank, mask)
        self._list(group)
        return mask if group.holder is None else group

    def _read(self, message: Message) -> tuple[int, GroupKey | None]:
        """Who wants it, and its group."""
        try:
            fields = selectable(properties_of(message[0]))
        except FrameError:  # they were opaque until now; a message with such has none
            fields = MessageFields(Properties())
        return self._sieve.mask_of(fields), group_key(fields) if self._grouped else None

    def _list(self, group: Group) -> None:
        """A free group stands in line with its first message."""
        head = group.head(self._wishes)
        if head is None or group.holder is not None or group.is_held_up(head[0]):
            return
        rank, mask = head
        if rank not in self._grouped_at:
            heappush(self._lines.setdefault(mask, []), rank)
        self._grouped_at[rank] = group

    def _stands_for(self, group: Group, rank: int) -> bool:
        """Whether a place in line is still that of the group: it is free, and nothing goes before this one."""
        head = group.head(self._wishes)
        return head is not None and head[0] == rank and group.holder is None and not group.is_held_up(rank)

    # ---- tidying up

    def _tidy(self) -> None:
        lanes = self._queue.lanes
        for lane in lanes:
            if lane.holes > MANY_HOLES and lane.holes * 4 > len(lane.ready) * 3:
                self._set_aside(lane)
        here = sum([len(lane.ready) + len(lane.returned) for lane in lanes])
        if self._filed > 2 * here + MANY_HOLES:  # most of what was looked at died where it stood
            self._look_again()
            self._queue.touch()

    def _set_aside(self, lane: Lane) -> None:
        """Give up the front half of ``ready``, mostly holes; what is looked at and still waits there is kept apart."""
        number = min(len(lane.ready) // 2, self._looked[lane.number] - lane.head)
        for _ in range(number):
            message, sequence = lane.ready.popleft(), lane.head
            lane.head += 1
            if message is HOLE:
                lane.holes -= 1
                continue
            restore(self._queue, lane.number, sequence, 0, message)
            self._known[lane.number].add(sequence)
            self._aside[lane.number].add(sequence)


def select(queue: ClassicQueue) -> None:
    """The consumers of the queue have changed, or what it asks of them."""
    if queue.selection is None:
        queue.selection = Selection(queue)
        return
    queue.selection.joined()
    if not queue.selection.is_needed:
        queue.selection = None
