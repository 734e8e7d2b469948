"""Counts of dead letters by reason, queue, exchange and routing key.

A tally browses one queue, up to its limits, and counts. The routing key may differ for each message: a cause with too
many keys becomes one group without a key. The counts of a queue are cached until it changes, so that a management UI
that refreshes every few seconds costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leveret.api.dead_letter_filter import FirstDeath, Headers, first_death, headers_of
from leveret.api.job_completion import JobCompletion
from leveret.api.views.message import plain
from leveret.backlog.counters import QueueCounters
from leveret.backlog.lane import Waiting
from leveret.broker.background import BackgroundTasks
from leveret.broker.queue_jobs import Job, Scope
from leveret.queues.declared_queue import DeclaredQueue

Row = dict[str, Any]
Cause = tuple[str, str, str]  # reason, queue, exchange

PACE = 100  # messages per step, which takes some milliseconds
SECONDS = 10.0
MOST_KEYS = 20  # routing keys of one cause
MOST_CAUSES = 200
MOST_REMEMBERED = 500  # queues
ERRORS = (
    "x-exception-message",
    "x-exception",
    "exception",
    "x-error",
    "error",
    "x-last-error",
    "x-exception-stacktrace",
)
LONGEST_ERROR = 300


class Group:
    """Dead letters of the same cause; times in seconds since 1970."""

    __slots__ = ("error", "messages", "newest", "oldest")

    def __init__(self) -> None:
        self.messages = 0
        self.oldest: int | None = None
        self.newest: int | None = None
        self.error: str | None = None

    def add(self, died: int | None, headers: Headers) -> None:
        self.messages += 1
        self.span(died, died)
        if self.error is None:
            self.error = error_in(headers)

    def span(self, oldest: int | None, newest: int | None) -> None:
        if oldest is not None and (self.oldest is None or oldest < self.oldest):
            self.oldest = oldest
        if newest is not None and (self.newest is None or newest > self.newest):
            self.newest = newest


class Groups:
    """The groups of one queue. A group with the key None includes all routing keys of its cause."""

    def __init__(self) -> None:
        self._groups: dict[Cause, dict[str | None, Group]] = {}
        self.others = 0  # messages that are not dead letters, or whose cause is beyond the limit

    def add(self, death: FirstDeath, headers: Headers) -> None:
        cause = (death.reason, death.queue, death.exchange)
        by_key = self._groups.get(cause)
        if by_key is None:
            if len(self._groups) == MOST_CAUSES:
                self.others += 1
                return
            by_key = self._groups[cause] = {}
        elif None not in by_key and death.routing_key not in by_key and len(by_key) == MOST_KEYS:
            by_key = self._groups[cause] = {None: _joined(by_key)}
        key = None if None in by_key else death.routing_key
        by_key.setdefault(key, Group()).add(death.died, headers)

    def rows(self) -> Iterator[Row]:
        for (reason, queue, exchange), by_key in self._groups.items():
            for key, group in by_key.items():
                yield {
                    "reason": reason,
                    "origin_queue": queue,
                    "exchange": exchange,
                    "routing_key": key,
                    "messages": group.messages,
                    "oldest": group.oldest,
                    "newest": group.newest,
                    "error": group.error,
                }


def _joined(by_key: dict[str | None, Group]) -> Group:
    whole = Group()
    for group in by_key.values():
        whole.messages += group.messages
        whole.span(group.oldest, group.newest)
        whole.error = whole.error or group.error
    return whole


def error_in(headers: Headers) -> str | None:
    """The error of the consumer that rejected the message, from one of the headers that clients use for it."""
    for name in ERRORS:
        told = plain(headers.get(name))
        if isinstance(told, str) and told.strip():
            return told.strip()[:LONGEST_ERROR]
    return None


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
        headers = headers_of(waiting[2])
        death = first_death(headers)
        if death is None:
            self.groups.others += 1
        else:
            self.groups.add(death, headers)
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
