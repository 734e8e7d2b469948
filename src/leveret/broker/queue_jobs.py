"""Jobs on the messages of a queue: browse, copy, move, delete and redrive.

A job walks through the queue (backlog/walk.py), a few hundred messages per tick, and reports its progress:
``examined``, ``done``, ``skipped``. A move settles and publishes a message in one group of the log, so that after a
crash it is in one of the two queues. A message for a queue of another cell keeps its place until it has arrived there
(broker/remote_writes.py). A job ends when its queue is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from leveret.backlog.lane import Waiting
from leveret.backlog.walk import START, STEP, Position
from leveret.broker.background import BackgroundTasks
from leveret.broker.dead_letter_paths import DeadLetterPaths
from leveret.broker.dead_letters import DEATHS, FIRST_DEATH
from leveret.broker.publish_rules import readable_properties
from leveret.broker.publishes import Origin, deliver
from leveret.broker.remote_writes import RoutedRun, write_remotely
from leveret.broker.routes import Route
from leveret.broker.timers import Timers
from leveret.broker.vhost import Vhost
from leveret.delivery.selector import compile_selector, selectable
from leveret.errors import PreconditionFailed
from leveret.message import NEVER, Address, Message, Traits
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.traced_queues import Place
from leveret.routing.bounds import RoutingRefused
from leveret.wire.content_edit import long, spliced

REDRIVEN = "x-redrive-count"
MOST_REDRIVES = 10
MOST_BYTES = 4 << 20  # of content in one step, which is one group of the log
MOST_UNANSWERED = 1_000  # messages on their way to other cells

Filter = Callable[[Message], bool]


class Seen(NamedTuple):
    """A message that was browsed. ``tries``: its delivery count."""

    lane: int
    sequence: int
    tries: int
    message: Message


def matching(selector: str) -> Filter:
    """A filter by headers and properties, as a selector."""
    matches = compile_selector(selector).matches
    return lambda message: matches(selectable(readable_properties(message)))


class Scope(NamedTuple):
    """The messages that a job processes, the conditions for an early end, and the callback at its end.

    ``places`` selects single messages, by lane and sequence. ``step_bytes``: content per step; less for a filter that
    reads bodies. ``is_tired`` is called after each filtered message and returns whether this step should end.
    ``after``: the position of an earlier job, where this one begins.
    """

    only: Filter | None = None
    limit: int | None = None
    on_done: Callable[[Job], None] = lambda job: None
    places: frozenset[tuple[int, int]] | None = None
    step_bytes: int = MOST_BYTES
    is_tired: Callable[[], bool] | None = None
    after: Position = START


class Job:
    """One walk through one queue. ``on_done`` is called at its end, also after ``cancel``."""

    takes = True  # the job may remove messages

    def __init__(self, queue: DeclaredQueue, background: BackgroundTasks, scope: Scope | None = None) -> None:
        self.queue = queue
        self.examined = 0
        self.done = 0
        self.skipped = 0  # selected, but could not be processed
        self.is_over = False
        self._bytes = 0  # of content in this step
        self._unanswered = 0  # messages on their way to other cells
        scope = scope or Scope()
        self._only, self._limit, self._on_done, self._places, self._step_bytes, self._is_tired, after = scope
        self._background = background
        if queue.has_offsets and self.takes:
            raise PreconditionFailed(
                f"messages of stream '{queue.name}' in vhost '{queue.vhost}' cannot be moved or deleted: copy "
                "them, and let retention remove them"
            )
        self._walk = queue.walk(self._meet, lambda: background.send(self), after)

    def start(self) -> None:
        self.queue.settle_down()
        self._background.send(self)

    def cancel(self) -> None:
        if not self.is_over:
            self._end()

    def step(self) -> bool:
        if self.is_over or self._unanswered >= MOST_UNANSWERED:
            return False
        self._bytes = 0
        with self.queue.context.log.group():
            goes_on = self._walk.step(self.pace())
        self.queue.account()
        if self._walk.is_over or self.done == self._limit:
            if not self._unanswered:
                self._end()
            return False
        return goes_on

    def release(self, lane: int, sequence: int, message: Message) -> None:
        """Remove a message that the walk has taken."""
        assert self.queue.backlog is not None
        self.queue.backlog.release(lane, sequence, 1, len(message[0]))

    def publish(self, vhost: Vhost, exchange: str, key: str, message: Message, sent: Callable[[], None]) -> bool:
        """Publish a message to other queues; ``sent`` is called when all have it, at once or later. False if none
        accepts it."""
        self._unanswered += 1
        is_later = False

        def answered() -> None:
            self._unanswered -= 1
            if self.queue.alive:
                sent()
            if is_later:
                self.queue.account()
                self._background.send(self)

        is_sent = publish_elsewhere(vhost, exchange, key, message, self.queue, answered)
        is_later = True
        self._unanswered -= not is_sent
        if self._unanswered >= MOST_UNANSWERED:
            self._walk.enough = True
        return is_sent

    def pace(self) -> int:
        """How many messages this step may visit."""
        return STEP

    def _end(self) -> None:
        self.is_over = True
        self.queue.touch()
        self._on_done(self)

    def _meet(self, lane: int, waiting: Waiting) -> bool:
        if self.is_over or self.done == self._limit:
            self._walk.enough = True
            return False
        self.examined += 1
        if self._places is not None and (lane, waiting[0]) not in self._places:
            return False
        self._bytes += len(waiting[2][0])
        if self._bytes > self._step_bytes:
            self._walk.enough = True
        if self._only is not None and not self._wants(self._only, waiting[2]):
            return False
        tracer = self.queue.context.tracer
        if tracer is None:
            return self.meet(lane, waiting)
        with tracer.carrying(self.queue, Place(lane, waiting[0], waiting[2])):
            return self.meet(lane, waiting)

    def _wants(self, only: Filter, message: Message) -> bool:
        is_wanted = only(message)
        if self._is_tired is not None and self._is_tired():
            self._walk.enough = True
        return is_wanted

    def meet(self, lane: int, waiting: Waiting) -> bool:
        """Process a selected message; returns whether it leaves its queue."""
        raise NotImplementedError


class Browse(Job):
    """Collect messages in ``found`` without removing them."""

    takes = False

    def __init__(self, queue: DeclaredQueue, background: BackgroundTasks, scope: Scope | None = None) -> None:
        super().__init__(queue, background, scope)
        self.found: list[Seen] = []
        self._position = dict(START if scope is None else scope.after)

    @property
    def position(self) -> Position:
        """The last message that was examined in each lane: another job can continue there."""
        return self._position | self._walk.ends

    def _meet(self, lane: int, waiting: Waiting) -> bool:
        before = self.examined
        leaves = super()._meet(lane, waiting)
        if self.examined > before:
            self._position[lane] = waiting[0]
        return leaves

    def meet(self, lane: int, waiting: Waiting) -> bool:
        sequence, tries, message = waiting
        self.found.append(Seen(lane, sequence, tries, message))
        self.done += 1
        return False


class Delete(Job):
    def meet(self, lane: int, waiting: Waiting) -> bool:
        self.release(lane, waiting[0], waiting[2])
        self.done += 1
        return True


class Forward(Job):
    """Publish messages to an exchange; with ``keeps`` they are copied. Messages that no queue accepts stay."""

    def __init__(
        self,
        vhost: Vhost,
        queue: DeclaredQueue,
        background: BackgroundTasks,
        exchange: str,
        key: str | None,
        scope: Scope | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        self.takes = not keeps
        super().__init__(queue, background, scope)
        self._vhost = vhost
        self._exchange = vhost.exchange(exchange)
        self._key = key  # None: the original key
        self._keeps = keeps

    def meet(self, lane: int, waiting: Waiting) -> bool:
        message = waiting[2]
        key = message[1].key if self._key is None else self._key

        def sent() -> None:
            if not self._keeps:
                self.release(lane, waiting[0], message)

        is_sent = self.publish(self._vhost, self._exchange.name, key, message, sent)
        if self._vhost.work.is_spent:
            self._walk.enough = True
        if not is_sent:
            self.skipped += 1
            return False
        self.done += 1
        return not self._keeps


class Redrive(Job):
    """Publish dead letters to the queue where they were dead-lettered first, at most ``MOST_REDRIVES`` times each.

    Any client can set the headers that name that queue. Therefore the dead letters of that queue must lead to this one,
    and ``may_write`` must permit writing to it; ``refused`` counts messages that were not permitted, by origin.

    ``rate``: messages per second. A dry run only counts messages, by origin, in ``origins``.
    """

    def __init__(
        self,
        vhost: Vhost,
        queue: DeclaredQueue,
        background: BackgroundTasks,
        timers: Timers,
        scope: Scope | None = None,
        *,
        rate: float | None = None,
        dry_run: bool = False,
        may_write: Callable[[str], bool] = lambda queue: True,
    ) -> None:
        self.takes = not dry_run
        super().__init__(queue, background, scope)
        self.origins: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._paths = DeadLetterPaths(vhost)
        self._may_write = may_write
        self._vhost = vhost
        self._timers = timers
        self._rate = rate
        self._began = vhost.queue_context.now()
        self._dry_run = dry_run

    def pace(self) -> int:
        if self._rate is None or self._dry_run:
            return STEP
        return 1

    def step(self) -> bool:
        if self._rate is not None and not self._dry_run and not self.is_over:
            due = self._began + self.done / self._rate
            if due > self._vhost.queue_context.now():
                self._timers.at(due, lambda: self._background.send(self))
                return False
        return super().step()

    def meet(self, lane: int, waiting: Waiting) -> bool:
        sequence, _, message = waiting
        headers = readable_properties(message).headers or {}
        origin, count = headers.get("x-first-death-queue"), headers.get(REDRIVEN, 0)
        if not isinstance(origin, str) or not isinstance(count, int) or count >= MOST_REDRIVES:
            self.skipped += 1
            return False
        if not self._is_target(origin, message):
            self.skipped += 1
            return False
        self.origins[origin] += 1
        if not self._dry_run:
            content = spliced(message[0], {REDRIVEN: long(count + 1)}, without=(DEATHS, *FIRST_DEATH))
            fresh = (content, message[1], message[2])
            if not self.publish(self._vhost, "", origin, fresh, lambda: self.release(lane, sequence, message)):
                self.origins[origin] -= 1
                self.skipped += 1
                return False
        self.done += 1
        return not self._dry_run

    def _is_target(self, origin: str, message: Message) -> bool:
        if origin == self.queue.name or origin not in self._vhost.queues:
            return False
        if not self._paths.lead(origin, self.queue.name, message[1].key):
            return False
        if not self._may_write(origin):
            self.refused[origin] += 1
            return False
        return True


def publish_elsewhere(
    vhost: Vhost, exchange: str, key: str, message: Message, away_from: DeclaredQueue, sent: Callable[[], None]
) -> bool:
    """Publish the message again, with its priority and persistence. False if no queue except ``away_from`` accepts it,
    or if routing it takes too many steps. ``sent`` is called when all queues have it."""
    content, address, traits = message
    try:
        routed = vhost.route(vhost.exchange(exchange), (key,), selectable(readable_properties(message)))
    except RoutingRefused:
        return False
    queues = [queue for queue in vhost.live_queues(routed.queues) if queue is not away_from]
    if not queues:
        return False
    to = Address(exchange, key, address.channel, address.frame_max)
    fresh = traits if traits.deadline == NEVER else Traits(persistent=traits.persistent, priority=traits.priority)
    moved: list[Message] = [(content, to, fresh)]
    run = RoutedRun(Route(queues), moved, len(content), False)
    if run.route.answers_later:
        write_remotely(vhost, [run], lambda: None if _finish(vhost, run, sent) else sent())
        return True
    return _finish(vhost, run, sent)


def _finish(vhost: Vhost, run: RoutedRun, sent: Callable[[], None]) -> bool:
    """Pass the message to the queues of this broker, in one group of the log with its removal. False if they reject
    it."""
    log, route = vhost.queue_context.log, run.local()
    with log.group():
        if route.queues and deliver(route, log, run.messages, run.size, run.timed, origin=Origin.BROKER)[0].is_rejected:
            return False
        sent()
    return True
