"""Jobs on the messages of a queue (move, copy, delete, redrive), and pausing and resuming its deliveries.

A POST starts a job and returns its id, with which its progress is read and the job is cancelled. Jobs are not durable,
but their effects are: a job is done once all its changes are on disk.

A move or copy may end in a queue of another virtual host: the user then needs read on the source queue and, in the
other virtual host, write on the destination queue and the default exchange. All virtual hosts share one log, so that a
move is one group of it as usual.

A job processes all messages, those that match a filter (message_browser.py), or single ones: ``ids`` has the ids that
browsing returns.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.api.message_browser import STEP_BYTES, TimedSieve, sieve_of, sieve_texts
from leveret.api.message_ids import place_of
from leveret.backlog.lane import Waiting
from leveret.broker.access import UserAccess
from leveret.broker.broker import Broker
from leveret.broker.queue_jobs import MOST_BYTES, Delete, Forward, Job, Redrive, Scope
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import (
    as_bad_request,
    declared,
    path_name,
    short_text_of,
    shown_queue,
)
from leveret.http.authorization import access_of, entered_vhost, other_vhost, refuse_while_blocked
from leveret.http.bodies import read_json
from leveret.http.errors import BadRequest, Conflict, ObjectNotFound
from leveret.http.responses import json_response
from leveret.http.roles import MANAGEMENT, may_see, refuse_unless_role
from leveret.http.rows import Row, WholeRows
from leveret.http.values import boolean_of, integer_of, text_of
from leveret.queues.declared_queue import DeclaredQueue

KINDS = ("move", "copy", "delete", "redrive")
FORWARDS = ("move", "copy")
MOST_RUNNING = 50
MOST_RUNNING_OF_VHOST = 20
MOST_KEPT = 200  # including finished jobs
MOST_KEPT_OF_VHOST = 50
MOST_RATE = 1_000_000
MOST_IDS = 10_000

RUNNING, DONE, CANCELLED, LOST = "running", "done", "cancelled", "lost"


class Count(Job):
    """Counts the messages of a job, for a dry run."""

    takes = False

    def meet(self, lane: int, waiting: Waiting) -> bool:
        self.done += 1
        return False


class Begun:
    """A job in the list of jobs."""

    __slots__ = ("began", "dry_run", "ended", "facts", "id", "job", "kind", "sieve", "state", "vhost")

    def __init__(self, kind: str, vhost: Vhost, dry_run: bool, facts: Row, began: float) -> None:
        self.id = secrets.token_hex(8)  # never starts with a dash: it is an argument of commands
        self.kind = kind
        self.vhost = vhost
        self.dry_run = dry_run
        self.facts = facts  # from the request
        self.began = began
        self.ended: float | None = None
        self.state = RUNNING
        self.sieve: TimedSieve | None = None
        self.job: Job

    def row(self) -> Row:
        job = self.job
        row: Row = {
            "id": self.id,
            "kind": self.kind,
            "vhost": self.vhost.name,
            "queue": job.queue.name,
            "state": self.state,
            "dry_run": self.dry_run,
            "examined": job.examined,
            "looked_at": job.examined,  # its name up to 0.2
            "done": job.done,
            "skipped": job.skipped,
            "too_large": 0 if self.sieve is None else self.sieve.too_large,
            "began": self.began,
            "ended": self.ended,
            **self.facts,
        }
        if isinstance(job, Redrive):
            row |= {"origins": dict(job.origins), "refused": dict(job.refused)}
        return row


JOB_ROWS = WholeRows(
    (
        *(
            "id",
            "kind",
            "vhost",
            "queue",
            "state",
            "dry_run",
            "examined",
            "looked_at",
            "done",
            "skipped",
            "too_large",
            "began",
        ),
        *(
            "ended",
            "selector",
            "limit",
            "destination",
            "destination_vhost",
            "rate",
            "ids",
            "messages",
            "origins",
            "refused",
        ),
    ),
    Begun.row,
)


class _JobBook:
    """Running and recent jobs."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.all: dict[str, Begun] = {}

    def add(self, begun: Begun) -> None:
        """The limits per virtual host leave room for running and finished jobs of other virtual hosts."""
        own = [each for each in self.all.values() if each.vhost is begun.vhost]
        self._make_room(own, MOST_RUNNING_OF_VHOST, MOST_KEPT_OF_VHOST, f" in vhost '{begun.vhost.name}'")
        self._make_room(list(self.all.values()), MOST_RUNNING, MOST_KEPT, "")
        self.all[begun.id] = begun

    def _make_room(self, jobs: Sequence[Begun], most_running: int, most_kept: int, where: str) -> None:
        over = [each.id for each in jobs if each.state != RUNNING]
        running = len(jobs) - len(over)
        if running >= most_running:
            raise Conflict(f"{running} jobs are running{where} already: wait until one is finished, or cancel one")
        for id_ in over[: max(0, len(jobs) - most_kept + 1)]:
            del self.all[id_]

    def over(self, begun: Begun) -> None:
        """Report the end of the job once its changes are durable. Deleting the queue ends the job early."""
        if begun.state == RUNNING and begun.ended is None:
            begun.ended = self._broker.clock.wall()
            state = DONE if begun.job.queue.alive else CANCELLED
            self._broker.when_granted(lambda: self._close(begun, state), lost=lambda: self._close(begun, LOST))

    def cancel(self, begun: Begun) -> None:
        """A finished job is removed from the list."""
        if begun.state != RUNNING:
            del self.all[begun.id]
            return
        self._close(begun, CANCELLED)
        begun.ended = self._broker.clock.wall()
        begun.job.cancel()

    def _close(self, begun: Begun, state: str) -> None:
        if begun.state == RUNNING:
            begun.state = state


def routes(context: ApiContext) -> list[Route]:
    api = _QueueJobs(context)
    one = "/api/queues/{vhost}/{name}"
    return [
        Route(f"{one}/jobs", api.begin, methods=["POST"]),
        Route(f"{one}/pause", api.pause, methods=["POST"]),
        Route(f"{one}/resume", api.resume, methods=["POST"]),
        Route("/api/queue-jobs", api.list_all),
        *routes_of("/api/queue-jobs/{id}", GET=api.show, DELETE=api.cancel),
    ]


class _QueueJobs(Endpoints):
    def __init__(self, context: ApiContext) -> None:
        super().__init__(context)
        self._book = _JobBook(context.broker)

    # ---- jobs

    async def begin(self, request: Request) -> Response:
        given = await read_json(request)
        vhost, name = entered_vhost(request), path_name(request)
        kind = text_of(given, "kind")
        if kind not in KINDS:
            raise BadRequest(f"'kind' must be one of {', '.join(KINDS)}, not '{kind}'")
        broker = self._broker
        access, target = access_of(request, vhost), _target_of(request, kind, vhost, given)
        access.check("delete messages" if kind == "delete" or target is not vhost else "move messages", name)
        if target is not vhost:
            access_of(request, target).check("receive moved messages", short_text_of(given, "destination"))
        if kind != "delete":
            refuse_while_blocked(broker)
        shown_queue(vhost, name)
        with as_bad_request():
            begun = self._make(kind, access, vhost.queue(name), target, given)
        self._book.add(begun)
        begun.job.start()
        broker.wake()
        return json_response({"id": begun.id}, 202)

    def _make(
        self, kind: str, access: UserAccess, queue: DeclaredQueue, target: Vhost, given: Mapping[str, object]
    ) -> Begun:
        """All values are checked before the job starts."""
        vhost = access.vhost
        dry_run, rate = boolean_of(given, "dry_run"), _rate(kind, given)
        destination = _destination(kind, None if target is not vhost else queue, given)
        asked, limit, places = sieve_texts(given), _limit(given), _places(queue, given)
        facts: Row = {"selector": "", **asked, "limit": limit, "destination": destination, "rate": rate}
        facts |= {"ids": None if places is None else len(places), "messages": queue.ready}
        facts["destination_vhost"] = None if destination is None else target.name
        begun = Begun(kind, vhost, dry_run, facts, self._context.clock.wall())
        sieve = sieve_of(asked)
        begun.sieve = None if sieve is None else TimedSieve(sieve)
        scope = _scope(begun.sieve, limit, places)._replace(on_done=lambda job: self._book.over(begun))
        broker = self._broker
        if kind == "redrive":
            begun.job = Redrive(
                vhost,
                queue,
                broker.background,
                broker.timers,
                scope,
                rate=rate,
                dry_run=dry_run,
                may_write=lambda name: access.has("write", name),
            )
            return begun
        if destination is not None:
            target.queue(destination)
        if dry_run:
            begun.job = Count(queue, broker.background, scope)
        elif kind == "delete":
            begun.job = Delete(queue, broker.background, scope)
        else:
            keeps = kind == "copy"
            begun.job = Forward(target, queue, broker.background, "", destination, scope, keeps=keeps)
        return begun

    async def list_all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        seen = [each for each in self._book.all.values() if may_see(request, each.vhost.name)]
        return await self._listed(request, seen, JOB_ROWS)

    async def show(self, request: Request) -> Response:
        return json_response(self._found(request).row())

    async def cancel(self, request: Request) -> Response:
        begun = self._found(request)
        access_of(request, begun.vhost).check("delete messages", begun.job.queue.name)
        self._book.cancel(begun)
        return await self._changed()

    def _found(self, request: Request) -> Begun:
        """A job is hidden from users that may not see its virtual host."""
        refuse_unless_role(request, MANAGEMENT)
        id_ = unquote(request.path_params["id"])
        begun = self._book.all.get(id_)
        if begun is None or not may_see(request, begun.vhost.name):
            raise ObjectNotFound(f"no job '{id_}': old jobs are removed from the list, and all of them by a restart")
        return begun

    # ---- pause and resume

    async def pause(self, request: Request) -> Response:
        return await self._change(request, Vhost.pause_queue)

    async def resume(self, request: Request) -> Response:
        return await self._change(request, Vhost.resume_queue)

    async def _change(self, request: Request, change: Callable[[Vhost, DeclaredQueue], None]) -> Response:
        await declared(request)
        vhost, name = entered_vhost(request), path_name(request)
        access_of(request, vhost).check("pause queue", name)
        shown_queue(vhost, name)
        with as_bad_request():
            change(vhost, vhost.queue(name))
        return await self._changed()


def _scope(sieve: TimedSieve | None, limit: int | None, places: frozenset[tuple[int, int]] | None) -> Scope:
    """A job on single messages ends with the last of them, before the end of the queue."""
    if places is not None:
        limit = min(len(places), limit or len(places))
    if sieve is None:
        return Scope(limit=limit, places=places)
    step_bytes = STEP_BYTES if sieve.reads_bodies else MOST_BYTES
    return Scope(sieve.takes, limit, places=places, step_bytes=step_bytes, is_tired=sieve.is_tired)


def _limit(given: Mapping[str, object]) -> int | None:
    return integer_of(given, "limit", 1) if given.get("limit") is not None else None


def _places(queue: DeclaredQueue, given: Mapping[str, object]) -> frozenset[tuple[int, int]] | None:
    ids = given.get("ids")
    if ids is None:
        return None
    if not isinstance(ids, list) or not 0 < len(ids) <= MOST_IDS:
        raise BadRequest(f"'ids' must be a list of 1 to {MOST_IDS} message ids, as returned by browsing")
    return frozenset(place_of(queue, id_, "ids") for id_ in ids)


def _rate(kind: str, given: Mapping[str, object]) -> float | None:
    rate = given.get("rate")
    if rate is None:
        return None
    if kind != "redrive":
        raise BadRequest(f"'rate' is for redrive only, not for {kind}: remove it, or set a 'limit'")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= MOST_RATE:
        raise BadRequest(f"'rate' must be messages per second, above 0 and up to {MOST_RATE}, not {rate!r:.80}")
    return float(rate)


def _target_of(request: Request, kind: str, vhost: Vhost, given: Mapping[str, object]) -> Vhost:
    """The virtual host of the destination."""
    if kind not in FORWARDS:
        return vhost
    name = short_text_of(given, "destination_vhost", vhost.name)
    return vhost if name == vhost.name else other_vhost(request, name)


def _destination(kind: str, queue: DeclaredQueue | None, given: Mapping[str, object]) -> str | None:
    """``queue``: the source, if it is in the same virtual host."""
    if kind not in FORWARDS:
        return None
    destination = short_text_of(given, "destination")
    if queue is not None and destination == queue.name:
        raise BadRequest(f"'destination' is the source queue '{queue.name}' itself: use another queue")
    return destination
