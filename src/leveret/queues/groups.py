"""Message groups (x-message-groups): a group is processed by one consumer at a time, in order.

Theory of operation. The header x-group-id names the group of a message. A group is *free*, or it has a *holder*: the
consumer that has unsettled messages of the group. Only the holder gets more messages of the group. Once all are settled
or returned the group is free, and its next message goes to the consumer that holds the fewest groups. So groups are
redistributed when consumers are added or removed, and nothing has to be moved.

A cancelled holder keeps the group until it has settled its messages, since it may still be processing them. A consumer
with automatic acknowledgement never settles: it keeps a group until it is cancelled, until another consumer is added,
or until the group is the least recently used of ``MOST_KEPT``.

A group without waiting messages and without a holder is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from heapq import heappop, heappush

from leveret.delivery.consumer import Consumer

X_GROUP_ID = "x-group-id"
MOST_KEPT = 4096  # groups of consumers with automatic acknowledgement
SEQUENCE_BITS = 56
SEQUENCES = (1 << SEQUENCE_BITS) - 1
HIGHEST_LANE = 255

GroupKey = str | bytes | int | float | Decimal
Entry = tuple[int, int]  # rank, and mask of the selectors that match (selection_order.py)


def rank_of(lane: int, sequence: int) -> int:
    """Messages are delivered by ascending rank: the higher lane first, then the lower sequence."""
    return (HIGHEST_LANE - lane) << SEQUENCE_BITS | sequence


def place_of(rank: int) -> tuple[int, int]:
    """The lane and sequence of a rank."""
    return HIGHEST_LANE - (rank >> SEQUENCE_BITS), rank & SEQUENCES


def group_key(headers: Mapping[str, object]) -> GroupKey | None:
    """The group of a message; None if the header is missing or invalid."""
    value = headers.get(X_GROUP_ID)
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | float | Decimal):
        return None
    return value if value == value else None  # NaN does not equal itself, so each message would be a group of its own


class Group:
    __slots__ = ("delayed", "holder", "key", "out", "unwanted", "waiting")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.holder: Consumer | None = None
        self.out = 0  # unsettled messages of the holder
        self.waiting: list[Entry] = []  # a heap of messages that are classified and not delivered
        self.unwanted: list[Entry] = []  # messages that match no current consumer: they do not block the others
        self.delayed: set[int] = set()  # ranks of messages that wait for a retry

    def head(self, wishes: int) -> Entry | None:
        """The next message that matches a consumer; ``wishes``: the selector bits of the current consumers."""
        waiting = self.waiting
        while waiting and not waiting[0][1] & wishes:
            self.unwanted.append(heappop(waiting))
        return waiting[0] if waiting else None

    def is_held_up(self, rank: int) -> bool:
        """Whether an earlier message of the group waits for a retry."""
        return bool(self.delayed) and min(self.delayed) < rank

    @property
    def is_idle(self) -> bool:
        return self.holder is None and not self.waiting and not self.unwanted and not self.delayed


class Groups:
    """The groups of one queue."""

    __slots__ = ("_by_key", "_delayed", "_kept", "_lined_up", "_out", "_shares")

    def __init__(self) -> None:
        self._by_key: dict[GroupKey, Group] = {}
        self._out: dict[int, Group] = {}  # by the ranks of unsettled messages
        self._kept: dict[Group, None] = {}  # held with automatic acknowledgement, least recently used first
        self._shares: dict[Consumer, int] = {}  # number of groups that each consumer holds
        self._lined_up: dict[Consumer, dict[Group, None]] = {}  # its groups with waiting messages
        self._delayed: dict[int, Group] = {}  # by rank

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, key: GroupKey) -> Group:
        group = self._by_key.get(key)
        if group is None:
            group = self._by_key[key] = Group(key)
        return group

    def share(self, consumer: Consumer) -> int:
        """The number of groups that the consumer holds."""
        return self._shares.get(consumer, 0)

    def lined_up(self, consumer: Consumer) -> Iterable[Group]:
        """Groups of the consumer with waiting messages."""
        return self._lined_up.get(consumer, ())

    # ---- waiting

    def add(self, group: Group, rank: int, mask: int) -> None:
        heappush(group.waiting, (rank, mask))
        if group.holder is not None:
            self._lined_up.setdefault(group.holder, {})[group] = None

    def pop(self, group: Group) -> None:
        """Remove the first message of the group: it was delivered, or is gone."""
        heappop(group.waiting)
        if not group.waiting and group.holder is not None:
            self._forget_line(group, group.holder)

    def clear_waiting(self) -> None:
        """Remove all waiting messages, which will be classified again."""
        self._lined_up.clear()
        for group in list(self._by_key.values()):
            group.waiting.clear()
            group.unwanted.clear()
            self.forget_if_idle(group)

    def ask_again(self) -> list[Group]:
        """The groups with waiting messages: after a change of consumers, another message may be the next."""
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
        """The first message of the group goes to this consumer; returns the groups that became free by that."""
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
        """A message is settled or about to be returned; returns its group if that is free now."""
        group = self._out.pop(rank, None)
        if group is None:
            return None  # the message has no group, or was fetched by basic.get
        group.out -= 1
        if group.out:
            return None
        self._free(group)
        return group

    def free_kept(self, consumer: Consumer | None = None) -> list[Group]:
        """Free the groups held with automatic acknowledgement, by this consumer or by all consumers."""
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

    # ---- delayed retries

    @property
    def has_delayed(self) -> bool:
        return bool(self._delayed)

    def delay(self, group: Group, rank: int) -> None:
        """A message waits for a retry, and later messages of its group wait for that message."""
        group.delayed.add(rank)
        self._delayed[rank] = group

    def is_delayed(self, rank: int) -> bool:
        return rank in self._delayed

    def end_delays(self, still: Iterable[int]) -> list[Group]:
        """Only these messages still wait for a retry; returns the groups with messages that no longer wait."""
        ended = self._delayed.keys() - still
        found: dict[Group, None] = {}
        for rank in ended:
            group = self._delayed.pop(rank)
            group.delayed.discard(rank)
            found[group] = None
        return list(found)
