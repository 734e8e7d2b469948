"""The consumers of one queue, by priority, in round-robin order within a priority."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from leveret.delivery.consumer import Consumer

# Why a queue is paused: its operator, the pause of all queues (delivery_pause.py), its move to another cell, or its
# messages that are on their way to other cells (queues/departures.py).
BY_OPERATOR, BY_BROKER, BY_MOVE, BY_DEPARTURES = 1, 2, 4, 8


class ConsumerRing:
    """Consumers with a higher priority are served first while they have room; equal ones in turn, one message each."""

    __slots__ = ("_levels", "paused", "stretch", "total")

    def __init__(self) -> None:
        self._levels: list[tuple[int, deque[Consumer]]] = []  # highest priority first
        self.total = 0
        self.paused = 0  # nothing is delivered; a sum of the reasons above
        self.stretch = 0  # after next(): how many messages in a row that consumer may get; 0 = any number

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[Consumer]:
        for _, level in self._levels:
            yield from level

    def add(self, consumer: Consumer) -> None:
        self.total += 1
        for priority, level in self._levels:
            if priority == consumer.priority:
                level.append(consumer)
                return
        self._levels.append((consumer.priority, deque([consumer])))
        self._levels.sort(key=lambda entry: -entry[0])

    def remove(self, consumer: Consumer) -> bool:
        for index, (priority, level) in enumerate(self._levels):
            if priority == consumer.priority and consumer in level:
                level.remove(consumer)
                if not level:
                    del self._levels[index]
                self.total -= 1
                return True
        return False

    def next(self) -> Consumer | None:
        """The consumer to be served now, or None if no consumer has room."""
        if self.paused:
            return None
        for _, level in self._levels:
            if len(level) == 1:
                if level[0].room() > 0:
                    self.stretch = 0
                    return level[0]
                continue
            for _ in range(len(level)):
                consumer = level[0]
                level.rotate(-1)
                if consumer.room() > 0:
                    self.stretch = 1
                    return consumer
        return None


class SingleActive(ConsumerRing):
    """x-single-active-consumer: one consumer gets all messages, the others wait.

    The first consumer with the highest priority is active until it is cancelled or a consumer with a higher priority
    subscribes. It then keeps its unacked deliveries.
    """

    __slots__ = ()

    def __init__(self, consumers: Iterable[Consumer] = ()) -> None:
        super().__init__()
        for consumer in consumers:
            self.add(consumer)

    @property
    def active(self) -> Consumer | None:
        return next(iter(self), None)

    def add(self, consumer: Consumer) -> None:
        former = self.active
        super().add(consumer)
        if self.active is consumer:
            if former is not None:
                former.activity_changed(False)
            consumer.activity_changed(True)

    def remove(self, consumer: Consumer) -> bool:
        was_active = self.active is consumer
        if not super().remove(consumer):
            return False
        if was_active and (heir := self.active) is not None:
            heir.activity_changed(True)
        return True

    def next(self) -> Consumer | None:
        self.stretch = 0
        active = self.active
        return active if active is not None and not self.paused and active.room() > 0 else None
