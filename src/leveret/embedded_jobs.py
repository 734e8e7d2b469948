"""Operations of an embedded broker on the messages of a queue: browse, move, copy, delete, redrive, pause."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from leveret.broker.broker import Broker
from leveret.broker.local import Delivered, delivered
from leveret.broker.queue_jobs import Browse, Delete, Filter, Forward, Job, Redrive, Scope, matching
from leveret.broker.vhost import Vhost
from leveret.queues.declared_queue import DeclaredQueue

JobT = TypeVar("JobT", bound=Job)


@dataclass(frozen=True, slots=True)
class JobResult:
    """``skipped``: messages that match no queue, or were returned too often."""

    examined: int
    done: int
    skipped: int

    @property
    def looked_at(self) -> int:
        """The name of ``examined`` up to 0.2."""
        return self.examined


@dataclass(frozen=True, slots=True)
class RedriveResult(JobResult):
    origins: dict[str, int]


class QueueJobs:
    """Part of an embedded virtual host. ``selector`` chooses by headers and properties; ``limit`` ends a job early."""

    def __init__(self, call: Callable[[Callable[[], object]], object], broker: Broker, vhost: Vhost) -> None:
        self._call = call
        self._broker = broker
        self._vhost = vhost

    def browse(self, queue: str, *, limit: int = 100, selector: str | None = None) -> list[Delivered]:
        """The first messages, which stay in the queue; their delivery tags are 0."""
        job = self._run(lambda target, scope: Browse(target, self._broker.background, scope), queue, limit, selector)
        return [
            delivered(job.queue, "", 0, seen.message, seen.lane, seen.sequence, bool(seen.tries), seen.tries)
            for seen in job.found
        ]

    def delete_messages(self, queue: str, *, limit: int | None = None, selector: str | None = None) -> JobResult:
        job = self._run(lambda target, scope: Delete(target, self._broker.background, scope), queue, limit, selector)
        return _result(job)

    def move_messages(
        self,
        queue: str,
        exchange: str,
        routing_key: str | None = None,
        *,
        copy: bool = False,
        limit: int | None = None,
        selector: str | None = None,
    ) -> JobResult:
        """Publish the messages to the exchange, with the given routing key or their own."""

        def make(target: DeclaredQueue, scope: Scope) -> Forward:
            return Forward(self._vhost, target, self._broker.background, exchange, routing_key, scope, keeps=copy)

        return _result(self._run(make, queue, limit, selector))

    def redrive(
        self,
        queue: str,
        *,
        rate: float | None = None,
        dry_run: bool = False,
        limit: int | None = None,
        selector: str | None = None,
    ) -> RedriveResult:
        """Publish dead letters to the queue that first dead-lettered them, ``rate`` per second."""

        def make(target: DeclaredQueue, scope: Scope) -> Redrive:
            broker = self._broker
            return Redrive(self._vhost, target, broker.background, broker.timers, scope, rate=rate, dry_run=dry_run)

        job = self._run(make, queue, limit, selector)
        return RedriveResult(job.examined, job.done, job.skipped, dict(job.origins))

    def pause(self, queue: str) -> None:
        self._call(lambda: self._vhost.pause_queue(self._vhost.queue(queue)))

    def resume(self, queue: str) -> None:
        self._call(lambda: self._vhost.resume_queue(self._vhost.queue(queue)))

    def _run(
        self, make: Callable[[DeclaredQueue, Scope], JobT], queue: str, limit: int | None, selector: str | None
    ) -> JobT:
        over: Future[None] = Future()
        only: Filter | None = None if selector is None else matching(selector)

        def start() -> JobT:
            job = make(self._vhost.queue(queue), Scope(only, limit, lambda job: over.set_result(None)))
            job.start()
            return job

        job = self._call(start)
        over.result()
        self._call(lambda: None)  # returns when everything that the job wrote is durable
        return job  # type: ignore[return-value]


def _result(job: Job) -> JobResult:
    return JobResult(job.examined, job.done, job.skipped)
