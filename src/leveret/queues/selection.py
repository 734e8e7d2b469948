"""Selects the consumer for each message on queues with selectors or groups, where not every consumer may get it.

Theory of operation. Messages are classified once, in the order of delivery: first returned messages, then ready ones,
by lane (selection_view.py). To classify a message means to read its properties, to evaluate the selectors
(selection_order.py) and to find its group (groups.py). A message that was classified and not delivered at once waits in
one place, by its rank:

    lines       by mask (the matching selectors): messages without a group, and the first message of each free group
    a group     the rest of its messages; if the group has a holder, they wait for that consumer alone

When a consumer has room again, only the lines that match it are checked, and nothing is classified twice. Nothing is
classified while no consumer has room. A new selector invalidates all masks: everything in memory is classified again,
in as many ticks as needed. If many selectors are expensive to evaluate, a single message may take several ticks.

The next message to deliver always has the lowest rank of all *fronts*: the first message of each of these places, and
the first unclassified message of each lane.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from leveret.backlog.lane import Lane
from leveret.delivery.consumer import Consumer
from leveret.delivery.selector import MessageFields, selectable
from leveret.errors import FrameError
from leveret.message import Message
from leveret.queues.groups import Group, Groups, group_key, rank_of
from leveret.queues.selection_order import DeliveryOrder, SelectorMasks
from leveret.queues.selection_view import MANY_DEAD, View
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

STEPS_PER_MESSAGE = 64  # selector steps that cost as much of the budget as one message
NO_BUDGET = 1 << 30

Source = Lane | Group | int  # where a message waits: unclassified, in a held group, or in the line of this mask
Front = tuple[int, int, Source]  # rank of its first message, order of entry, source


class Selection:
    __slots__ = (
        "_filed",
        "_grouped",
        "_groups",
        "_hand",
        "_lines",
        "_order",
        "_queue",
        "_sieve",
        "_standing",
        "_turns",
        "_view",
        "_wishes",
    )

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._view = View(queue)
        self._sieve = SelectorMasks()
        self._groups = Groups()
        self._grouped = queue.options.groups
        self._turns = DeliveryOrder(self._groups.share)
        self._wishes = 0  # bits of the current consumers, or of the last consumers if there are none
        self._lines: dict[int, list[int]] = {}  # by mask, a heap of ranks
        self._standing: dict[int, Group] = {}  # by rank: groups whose first message is in a line
        self._filed = 0  # ranks in lines and groups, including those of messages that are gone
        self._hand = Lane()  # one message that is being delivered
        self._order = count()
        self._follow_consumers()

    @property
    def groups(self) -> Groups:
        return self._groups

    @property
    def is_needed(self) -> bool:
        """Whether messages still have to be matched with consumers."""
        queue = self._queue
        if queue.options.groups or self._view.has_set_aside or not len(queue.consumers):
            return True  # also without consumers: repeated fetches of single messages with a selector subscribe again
        return any(consumer.selector is not None for consumer in queue.consumers)

    # ---- changes of consumers and messages

    def joined(self) -> None:
        self._follow_consumers()
        self._free(self._groups.free_kept())

    def left(self, consumer: Consumer) -> None:
        self._follow_consumers()
        self._free(self._groups.free_kept(consumer))
        if not self.is_needed:
            self._queue.selection = None

    def let_go(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Update the groups of messages that are settled, or about to be returned."""
        places = range(sequence, sequence + len(messages))
        self._view.let_go(lane, places)
        if self._groups.holds_any:
            for place in places:
                group = self._groups.let_go(rank_of(lane, place))
                if group is not None:
                    self._free([group])

    def _follow_consumers(self) -> None:
        queue = self._queue
        if self._sieve.admit(list(queue.consumers)):
            self._look_again()
        self._turns.follow(queue.consumers, self._sieve)
        present = self._turns.present
        if present and present != self._wishes:
            self._wishes = present
            for group in self._groups.ask_again():
                self._line_up(group)

    def _free(self, groups: list[Group]) -> None:
        """Line up groups that are free now, or have another first message."""
        for group in groups:
            self._line_up(group)
            self._groups.forget_if_idle(group)
            if group.waiting:
                self._queue.touch()

    def _look_again(self) -> None:
        """Classify all waiting messages again."""
        self._view.forget()
        self._groups.clear_waiting()
        self._lines.clear()
        self._standing.clear()
        self._filed = 0

    # ---- delivering

    def deliver(self, budget: int) -> int:
        """Deliver messages to matching consumers; returns the rest of the budget."""
        queue = self._queue
        if self._grouped != queue.options.groups:
            self._grouped = queue.options.groups
            self._look_again()
        able = [] if queue.consumers.paused else self._turns.look_around()
        if not able:
            return budget
        budget = self._look_back(budget)
        self._view.catch_up()
        fronts: list[Front] = []
        for source in self._sources(able):
            self._enter(fronts, source)
        while fronts and budget > 0 and self._turns.roomy and queue.alive:
            rank, _, source = heappop(fronts)
            budget -= self._serve(fronts, rank, source)
        self._view.tidy()
        here = sum([len(lane.ready) + len(lane.returned) for lane in queue.lanes])
        if self._filed > 2 * here + MANY_DEAD:  # most classified messages are gone
            self._look_again()
            queue.touch()
        return budget

    def _sources(self, able: list[Consumer]) -> list[Source]:
        found: list[Source] = [*self._queue.lanes]
        found += self._lines
        for consumer in able:
            found += self._groups.lined_up(consumer)
        return found

    def _enter(self, fronts: list[Front], source: Source) -> None:
        rank = self._first(source)
        if rank is not None:
            heappush(fronts, (rank, next(self._order), source))

    def _first(self, source: Source) -> int | None:
        """The rank of the first message of the source that may be delivered."""
        if isinstance(source, int):
            line = self._lines.get(source) if source & self._turns.roomy else None
            return line[0] if line else None
        if isinstance(source, Lane):
            return self._view.next_of(source)
        rank = self._next_of(source)
        return rank if source.holder is not None else None

    def _next_of(self, group: Group) -> int | None:
        """The rank of the next message of the group; None if it has to wait for the retry of an earlier message."""
        head = group.head(self._wishes)
        return None if head is None or group.is_held_up(head[0]) else head[0]

    def _serve(self, fronts: list[Front], rank: int, source: Source) -> int:
        """Classify or deliver one message; returns the cost."""
        cost = 1
        if self._first(source) != rank:
            pass  # another message is the first one now
        elif isinstance(source, Lane):
            message = self._view.peek(source)
            if message is not None:
                where, cost = self._file(rank, message)
                if where is None:
                    return cost
                self._enter(fronts, where)
            self._view.pass_on(source)
        else:
            served = self._serve_line(fronts, source) if isinstance(source, int) else self._serve_group(source)
            if not served:
                return cost
        self._enter(fronts, source)
        return cost

    def _serve_line(self, fronts: list[Front], mask: int) -> bool:
        """Deliver the first message of the line; False if no matching consumer has room."""
        rank = self._lines[mask][0]
        group = self._standing.get(rank)
        if group is not None and (group.holder is not None or self._next_of(group) != rank):
            self._leave_line(mask)  # the message was delivered, or another one is first now
            return True
        consumer = self._turns.choose(mask, group is not None)
        if consumer is None:
            return False
        self._leave_line(mask)
        if group is not None:
            self._give_of(group, rank, consumer)
            self._enter(fronts, group)
        elif self._take(rank):
            self._queue.offer(self._hand, consumer, 1)
        return True

    def _leave_line(self, mask: int) -> None:
        line = self._lines[mask]
        self._standing.pop(heappop(line), None)
        if not line:
            del self._lines[mask]

    def _serve_group(self, group: Group) -> bool:
        """Deliver the first message of a held group to its holder; False if the holder has no room."""
        rank, mask = group.waiting[0]
        if group.holder is None or not self._turns.can_take(group.holder, mask):
            return False
        self._give_of(group, rank, group.holder)
        return True

    def _give_of(self, group: Group, rank: int, consumer: Consumer) -> None:
        """Deliver the first message of a group, if it is still there."""
        if self._take(rank):
            self._free(self._groups.given(group, rank, consumer))  # before the delivery, which may remove the consumer
            self._queue.offer(self._hand, consumer, 1)
        else:
            self._groups.pop(group)
            self._free([group])

    def _take(self, rank: int) -> bool:
        self._filed -= 1
        return self._view.take(rank, self._hand)

    # ---- classifying

    def _look_back(self, budget: int) -> int:
        """Classify returned and delayed messages before anything is delivered, because the order depends on them."""
        self._look_at_delays()
        for lane in self._queue.lanes:
            if not lane.returned:
                continue
            for sequence, _, message in self._view.unknown(lane):
                if budget <= 0:
                    return budget
                where, cost = self._file(rank_of(lane.number, sequence), message)
                budget -= cost
                if where is not None:
                    self._view.know(lane, sequence)
        return budget

    def _look_at_delays(self) -> None:
        waiting, groups = self._queue.delayed, self._groups
        if not self._grouped or waiting is None or not (len(waiting) or groups.has_delayed):
            return
        still = set()
        for lane, sequence, message in waiting:
            rank = rank_of(lane, sequence)
            still.add(rank)
            if not groups.is_delayed(rank):
                key = group_key(self._read(message))
                if key is not None:
                    groups.delay(groups.of(key), rank)
        self._free(groups.end_delays(still))

    def _file(self, rank: int, message: Message) -> tuple[Source | None, int]:
        """Classify a message; returns where it waits, and the cost. It waits nowhere if more selectors have to be
        evaluated in the next tick; the cost then exceeds any budget."""
        fields = self._read(message)
        mask, steps = self._sieve.ask(rank, fields)
        if mask is None:
            return None, NO_BUDGET
        cost = 1 + len(self._sieve) + steps // STEPS_PER_MESSAGE
        self._filed += 1
        key = group_key(fields) if self._grouped else None
        if key is None:
            heappush(self._lines.setdefault(mask, []), rank)
            return mask, cost
        group = self._groups.of(key)
        self._groups.add(group, rank, mask)
        self._line_up(group)
        return mask if group.holder is None else group, cost

    def _read(self, message: Message) -> MessageFields:
        try:
            return selectable(properties_of(message[0]))
        except FrameError:  # malformed properties, which are not checked on publish, count as absent
            return MessageFields(Properties())

    def _line_up(self, group: Group) -> None:
        """Put the first message of a free group into a line."""
        rank = self._next_of(group)
        if rank is None or group.holder is not None:
            return
        if rank not in self._standing:
            heappush(self._lines.setdefault(group.waiting[0][1], []), rank)
        self._standing[rank] = group
