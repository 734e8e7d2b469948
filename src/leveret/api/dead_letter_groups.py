"""Counts of dead letters by reason, queue, exchange, routing key, error and task.

A tally browses one queue, up to its limits, and counts. Routing key and error may differ for each message: a cause with
too many groups loses the field that differs most, until they are few enough. The counts of a queue are cached until it
changes, so that a management UI that refreshes every few seconds costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from leveret.api.dead_letter_filter import FirstDeath, first_death, headers_of
from leveret.api.job_completion import JobCompletion
from leveret.backlog.counters import QueueCounters
from leveret.backlog.lane import Waiting
from leveret.broker.background import BackgroundTasks
from leveret.broker.queue_jobs import Job, Scope
from leveret.queues.declared_queue import DeclaredQueue

Row = dict[str, Any]
Cause = tuple[str, str, str]  # reason, queue, exchange

PACE = 100  # messages per step, which takes some milliseconds
SECONDS = 10.0
MOST_GROUPS = 50  # of one cause
MOST_CAUSES = 200
MOST_REMEMBERED = 500  # queues


class Variant(NamedTuple):
    """The fields in which dead letters of the same cause differ; None stands for several values."""

    routing_key: str | None
    error: str | None
    task: str | None

    def without(self, fields: set[str]) -> Variant:
        return self._replace(**dict.fromkeys(fields)) if fields else self


class Group:
    """Dead letters of the same cause and variant; times in seconds since 1970."""

    __slots__ = ("messages", "newest", "oldest", "sample_error")

    def __init__(self) -> None:
        self.messages = 0
        self.oldest: int | None = None
        self.newest: int | None = None
        self.sample_error: str | None = None

    def add(self, death: FirstDeath) -> None:
        self.messages += 1
        self._span(death.died, death.died)
        self.sample_error = self.sample_error or death.error

    def join(self, other: Group) -> None:
        self.messages += other.messages
        self._span(other.oldest, other.newest)
        self.sample_error = self.sample_error or other.sample_error

    def _span(self, oldest: int | None, newest: int | None) -> None:
        if oldest is not None and (self.oldest is None or oldest < self.oldest):
            self.oldest = oldest
        if newest is not None and (self.newest is None or newest > self.newest):
            self.newest = newest


class CauseGroups:
    """The groups of one cause."""

    def __init__(self) -> None:
        self.groups: dict[Variant, Group] = {}
        self._merged: set[str] = set()  # the fields of all groups that are None

    def add(self, death: FirstDeath) -> None:
        told = Variant(death.routing_key, death.error, death.task)
        while (variant := told.without(self._merged)) not in self.groups and len(self.groups) == MOST_GROUPS:
            self._merge_most_different(variant)
        self.groups.setdefault(variant, Group()).add(death)

    def _merge_most_different(self, new: Variant) -> None:
        """Merge the groups that differ in one field only: that with the most values."""
        values = [len(set(column)) for column in zip(*self.groups, new, strict=True)]
        self._merged.add(Variant._fields[values.index(max(values))])
        groups, self.groups = self.groups, {}
        for variant, group in groups.items():
            self.groups.setdefault(variant.without(self._merged), Group()).join(group)


class Groups:
    """The groups of one queue."""

    def __init__(self) -> None:
        self._causes: dict[Cause, CauseGroups] = {}
        self.others = 0  # messages that are not dead letters, or whose cause is beyond the limit

    def add(self, death: FirstDeath) -> None:
        cause = (death.reason, death.queue, death.exchange)
        groups = self._causes.get(cause)
        if groups is None:
            if len(self._causes) == MOST_CAUSES:
                self.others += 1
                return
            groups = self._causes[cause] = CauseGroups()
        groups.add(death)

    def rows(self) -> Iterator[Row]:
        for (reason, queue, exchange), of_cause in self._causes.items():
            for variant, group in of_cause.groups.items():
                yield {
                    "reason": reason,
                    "origin_queue": queue,
                    "exchange": exchange,
                    **variant._asdict(),
                    "messages": group.messages,
                    "oldest": group.oldest,
                    "newest": group.newest,
                    "sample_error": (group.sample_error or None) if variant.error is None else None,
                }


class Tally(Job):
    """``await tally.until_over()``, then read ``groups``. ``is_complete``: the whole queue was counted."""

    takes = False

    def __init__(self, queue: DeclaredQueue, background: BackgroundTasks, most: int) -> None:
        self.groups = Groups()
        self._completion = JobCompletion()
        super().__init__(queue, background, Scope(limit=most, on_done=self._completion.notify))

    @property
    def is_complete(self) -> bool:
        return self._walk.is_over or self.done >= self.queue.ready

    async def until_over(self) -> None:
        await self._completion.run(self, SECONDS)

    def pace(self) -> int:
        return PACE

    def meet(self, lane: int, waiting: Waiting) -> bool:
        self.done += 1
        death = first_death(headers_of(waiting[2]))
        if death is None:
            self.groups.others += 1
        else:
            self.groups.add(death)
        return False


class Tallies:
    """The latest tally of each queue."""

    def __init__(self, background: BackgroundTasks) -> None:
        self._background = background
        self._kept: dict[
            int, tuple[tuple[int, ...], Tally]
        ] = {}  # by queue id, with the counters of the queue at that time

    async def of(self, queue: DeclaredQueue, most: int) -> Tally:
        known = self._kept.pop(queue.id, None)
        if known is None or known[0] != _seen(queue, most):
            seen = _seen(queue, most)
            tally = Tally(queue, self._background, most)
            await tally.until_over()
            known = (seen, tally)
        self._kept[queue.id] = known
        while len(self._kept) > MOST_REMEMBERED:
            del self._kept[next(iter(self._kept))]
        return known[1]


def _seen(queue: DeclaredQueue, most: int) -> tuple[int, ...]:
    counters = queue.counters
    return most, queue.ready, queue.unacked, *(getattr(counters, name) for name in QueueCounters.__slots__)
