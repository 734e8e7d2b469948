"""Message groups (x-message-groups): one consumer at a time works on a group, and sees it in order.

Theory of operation. The header x-group-id names the group of a message. A group is *free*, or it has a *holder*: the
consumer that has messages of it which are not settled. Only the holder is given more of it. Once everything is settled
or has come back the group is free, and its next message goes to whoever holds the fewest groups then: so groups spread
anew when consumers come and go, and nothing has to be moved.

A holder that was cancelled keeps the group until it has settled what it holds, for it may still be at work on it.
Whoever consumes without acks never says when it is done: it keeps a group until it leaves or another consumer comes,
or until the group is the one not heard of for the longest time of ``MOST_KEPT``.

A group that waits for nothing and is held by nobody is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from heapq import heappop, heappush

from leveret.delivery.consumer import Consumer

X_GROUP_ID = "x-group-id"
MOST_KEPT = 4096  # groups of consumers without acks
SEQUENCE_BITS = 56
SEQUENCES = (1 << SEQUENCE_BITS) - 1
HIGHEST_LANE = 255

GroupKey = str | bytes | int | float | Decimal
Entry = tuple[int, int]  # rank, and who wants it (selection_sieve.py)


def rank_of(lane: int, sequence: int) -> int:
    """What goes out first is the smaller number: the higher lane, then the lower sequence."""
    return (HIGHEST_LANE - lane) << SEQUENCE_BITS | sequence


def place_of(rank: int) -> tuple[int, int]:
    """The lane and sequence of a rank."""
    return HIGHEST_LANE - (rank >> SEQUENCE_BITS), rank & SEQUENCES


def group_key(headers: Mapping[str, object]) -> GroupKey | None:
    """The group of a message; None if it has none, or a value that cannot name one."""
    value = headers.get(X_GROUP_ID)
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | float | Decimal):
        return None
    return value if value == value else None  # NaN is equal to nothing, and would make a group of each message


class Group:
    __slots__ = ("delayed", "holder", "key", "out", "unwanted", "waiting")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.holder: Consumer | None = None
        self.out = 0  # messages in the hands of the holder
        self.waiting: list[Entry] = []  # looked at and not given; a heap
        self.unwanted: list[Entry] = []  # those that no consumer of now wants: they hold nobody up
        self.delayed: set[int] = set()  # ranks of those that wait for another try

    def head(self, wishes: int) -> Entry | None:
        """The next message that somebody wants; ``wishes``: the bits of the consumers that are here."""
        waiting = self.waiting
        while waiting and not waiting[0][1] & wishes:
            self.unwanted.append(heappop(waiting))
        return waiting[0] if waiting else None

    def is_held_up(self, rank: int) -> bool:
        """An earlier one waits for another try."""
        return bool(self.delayed) and min(self.delayed) < rank

    @property
    def is_idle(self) -> bool:
        return self.holder is None and not self.waiting and not self.unwanted and not self.delayed


class Groups:
    """The groups of one queue."""

    __slots__ = ("_by_key", "_delayed", "_kept", "_lined_up", "_out", "_shares")

    def __init__(self) -> None:
        self._by_key: dict[GroupKey, Group] = {}
        self._out: dict[int, Group] = {}  # by rank, of what is not settled
        self._kept: dict[Group, None] = {}  # held without acks, least lately heard of first
        self._shares: dict[Consumer, int] = {}  # how many groups each holds
        self._lined_up: dict[Consumer, dict[Group, None]] = {}  # those of them in which something waits
        self._delayed: dict[int, Group] = {}  # by rank

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, key: GroupKey) -> Group:
        group = self._by_key.get(key)
        if group is None:
            group = self._by_key[key] = Group(key)
        return group

    def share(self, consumer: Consumer) -> int:
        """How many groups the consumer holds."""
        return self._shares.get(consumer, 0)

    def lined_up(self, consumer: Consumer) -> Iterable[Group]:
        """Groups that the consumer holds and in which something waits."""
        return self._lined_up.get(consumer, ())

    # ---- waiting

    def add(self, group: Group, rank: int, mask: int) -> None:
        heappush(group.waiting, (rank, mask))
        if group.holder is not None:
            self._lined_up.setdefault(group.holder, {})[group] = None

    def pop(self, group: Group) -> None:
        """Its first message is given, or gone."""
        heappop(group.waiting)
        if not group.waiting and group.holder is not None:
            self._forget_line(group, group.holder)

    def clear_waiting(self) -> None:
        """Everything will be looked at again."""
        self._lined_up.clear()
        for group in list(self._by_key.values()):
            group.waiting.clear()
            group.unwanted.clear()
            self.forget_if_idle(group)

    def ask_again(self) -> list[Group]:
        """Other consumers are here, so another message may be the first that somebody wants: where one waits."""
        for group in self._by_key.values():
            entries, group.unwanted = group.unwanted, []
            for rank, mask in entries:
                self.add(group, rank, mask)
        return [group for group in self._by_key.values() if group.waiting]

    def forget_if_idle(self, group: Group) -> None:
        if group.is_idle and self._by_key.get(group.key) is group:
            del self._by_key[group.key]

    # ---- holding

    def given(self, group: Group, rank: int, consumer: Consumer) -> list[Group]:
        """Its first message goes to this consumer; groups that became free by that."""
        if group.holder is None:
            group.holder = consumer
            self._shares[consumer] = self.share(consumer) + 1
            self._lined_up.setdefault(consumer, {})[group] = None
        self.pop(group)
        if not consumer.no_ack:
            group.out += 1
            self._out[rank] = group
            return []
        self._kept.pop(group, None)
        self._kept[group] = None
        if len(self._kept) <= MOST_KEPT:
            return []
        oldest = next(iter(self._kept))
        self._free(oldest)
        return [oldest]

    @property
    def holds_any(self) -> bool:
        return bool(self._out)

    def let_go(self, rank: int) -> Group | None:
        """A message is settled or about to come back: its group, if that is free now."""
        group = self._out.pop(rank, None)
        if group is None:
            return None  # it has no group, or was taken by hand
        group.out -= 1
        if group.out:
            return None
        self._free(group)
        return group

    def free_kept(self, consumer: Consumer | None = None) -> list[Group]:
        """Groups held without acks, of this consumer or of all, may move."""
        found = [group for group in self._kept if consumer is None or group.holder is consumer]
        for group in found:
            self._free(group)
        return found

    def _free(self, group: Group) -> None:
        self._kept.pop(group, None)
        holder, group.holder = group.holder, None
        if holder is None:
            return
        self._forget_line(group, holder)
        share = self._shares.pop(holder, 0)
        if share > 1:
            self._shares[holder] = share - 1

    def _forget_line(self, group: Group, holder: Consumer) -> None:
        line = self._lined_up.get(holder)
        if line is not None:
            line.pop(group, None)
            if not line:
                del self._lined_up[holder]

    # ---- tries to come

    @property
    def has_delayed(self) -> bool:
        return bool(self._delayed)

    def delay(self, group: Group, rank: int) -> None:
        """This one waits for another try, and what comes after it in its group waits for it."""
        group.delayed.add(rank)
        self._delayed[rank] = group

    def is_delayed(self, rank: int) -> bool:
        return rank in self._delayed

    def end_delays(self, still: Iterable[int]) -> list[Group]:
        """Only these wait for another try: groups in which others do not any more."""
        ended = self._delayed.keys() - still
        found: dict[Group, None] = {}
        for rank in ended:
            group = self._delayed.pop(rank)
            group.delayed.discard(rank)
            found[group] = None
        return list(found)
