"""An in-memory disk for queues that page out: the test controls its content and when its operations finish.

MemoryPages is both the log and the pages of a queue. Appended records are on disk after ``sync``; loads begin when the
queue requests them and finish when the test completes them, in the order in which they began.

    harness = PagedHarness(limit=1_000)
    queue = harness.queue(durable=True)
    harness.put(queue, *run)
    harness.sync()                       # granted: what is beyond the limit is paged out in this turn
    ...
    harness.shelf.answer()               # the load that is under way ends
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from leveret.backlog import pager
from leveret.backlog.context import PER_MESSAGE
from leveret.broker.publishes import write_run
from leveret.message import NEVER, Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.queue import stretches
from leveret.store.log import Placement
from leveret.store.pages import Done, Loaded
from leveret.wire.content import body_of
from tests.support.spies import QueueHarness, SpyConsumer, SpyLog, message, size_of

Place = tuple[int, int]  # queue, lane
SIZE = size_of([message(b"00")])  # of content, of every message below


# ---- messages by number


def bodies(*numbers: int) -> list[bytes]:
    return [b"%02d" % number for number in numbers]


def kept(*numbers: int, **more: object) -> list[Message]:
    """Persistent messages."""
    return [message(body, persistent=True, **more) for body in bodies(*numbers)]


def passing(*numbers: int, **more: object) -> list[Message]:
    """Transient messages."""
    return [message(body, **more) for body in bodies(*numbers)]


def shrink_steps(monkeypatch: pytest.MonkeyPatch, load: int = 3) -> None:
    """So that ten messages are a backlog, and two all that a shortage leaves. ``load`` messages are read at once."""
    monkeypatch.setattr(pager, "WORTH_IT", 2)
    monkeypatch.setattr(pager, "LOOK_AGAIN", 1)
    monkeypatch.setattr(pager, "SMALL_GAP", 2)
    monkeypatch.setattr(pager, "LOAD_BYTES", load * SIZE)
    monkeypatch.setattr(pager, "SQUEEZED", 2 * SIZE)


def assert_counted(harness: QueueHarness, queue: ClassicQueue, ready: int, on_disk_only: int, unacked: int = 0) -> None:
    """Counts, bytes and gauge agree; the queue is the only one of its harness."""
    assert (queue.ready, paged(queue), queue.unacked) == (ready, on_disk_only, unacked)
    assert queue.bytes == (ready + unacked) * SIZE
    assert queue.pager is not None
    assert queue.pager.bytes == on_disk_only * SIZE
    assert harness.gauge.used == (ready + unacked - on_disk_only) * (SIZE + PER_MESSAGE)


# ---- the disk


class Load(NamedTuple):
    """A load that has begun: what it will find was settled then, as on a disk that is read a moment later."""

    sequences: list[int]
    end: Callable[[], None]


class MemoryPages(SpyLog):
    def __init__(self, wall: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self.wall = wall
        self.loads: list[Load] = []
        self.damaged: set[int] = set()  # sequences that cannot be read back
        self.back: dict[tuple[int, int, int], int] = {}  # (queue, lane, sequence): tries
        self._kept: dict[Place, dict[int, Loaded]] = {}
        self._spilled: dict[Place, dict[int, Loaded]] = {}
        self._tails: dict[Place, int] = {}
        self._synced: dict[Place, int] = {}
        self._granted = 0

    # ---- the log

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        super().append(messages, placements, synced)
        for queue, lane, sequence, number, highest in placements:
            mine = [each for each in messages if min(each[2].priority, highest) == lane]
            assert len(mine) == number
            kept = self._kept.setdefault((queue, lane), {})
            for place, each in enumerate(mine, sequence):
                kept[place] = Loaded(place, each, self.wall())
            self._tails[queue, lane] = sequence + number
        self.issued = len(self.appended)
        return self.issued

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        super().settle(queue, lane, sequence, number)
        for place in range(sequence, sequence + number):
            self._kept.get((queue, lane), {}).pop(place, None)

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        self.back.update({(queue, lane, place): tries for place in range(sequence, sequence + number)})

    def forget(self, queue: int) -> None:
        super().forget(queue)
        for place in [place for place in self._kept | self._spilled if place[0] == queue]:
            self._kept.pop(place, None)
            self._spilled.pop(place, None)

    def sync(self) -> None:
        """Everything appended so far is on disk, and granted."""
        self._synced.update(self._tails)
        if self.issued > self._granted:
            self._granted = self.issued
            self.listener.granted(self.issued)

    # ---- the pages

    def synced(self, queue: int, lane: int) -> int:
        return self._synced.get((queue, lane), 0)

    def tries(self, queue: int, lane: int, sequence: int) -> int:
        return self.back.get((queue, lane, sequence), 0)

    def has_tries(self, queue: int, lane: int) -> bool:
        return any(place[:2] == (queue, lane) for place in self.back)

    def on_disk(self, queue: int, lane: int) -> dict[int, Loaded]:
        upto = self.synced(queue, lane)
        kept = {place: each for place, each in self._kept.get((queue, lane), {}).items() if place < upto}
        return dict(sorted((kept | self._spilled.get((queue, lane), {})).items()))

    @property
    def spilled(self) -> list[bytes]:
        """Bodies of the transient messages that take room on disk."""
        return [body_of(each.message[0]) for lane in self._spilled.values() for each in lane.values()]

    def size_of(self, queue: int, lane: int, sequence: int) -> int | None:
        found = self.on_disk(queue, lane).get(sequence)
        return None if found is None else len(found.message[0])

    def next_sequence(self, queue: int, lane: int, sequence: int) -> int | None:
        return min((place for place in self.on_disk(queue, lane) if place >= sequence), default=None)

    def load(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: Done) -> None:
        chosen: list[Loaded] = []
        for place, each in self.on_disk(queue, lane).items():
            if sequence <= place < stop:
                most_bytes -= len(each.message[0])
                if most_bytes < 0 and chosen:
                    break
                chosen.append(each)

        def end() -> None:
            for each in chosen:
                if each.sequence in self.damaged:
                    self.settle(queue, lane, each.sequence, 1)
            done([each for each in chosen if each.sequence not in self.damaged])

        self.loads.append(Load([each.sequence for each in chosen], end))

    def spill(self, queue: int, lane: int, messages: Sequence[tuple[int, Message]]) -> None:
        here = self._spilled.setdefault((queue, lane), {})
        assert [place for place, _ in messages] == sorted({place for place, _ in messages} - here.keys())
        here.update({place: Loaded(place, each, NEVER) for place, each in messages})

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        here = self._spilled.get((queue, lane), {})
        for place in [place for place in here if sequence <= place < sequence + number]:
            del here[place]

    # ---- what tests ask

    def answer(self) -> None:
        """The load that began first is over."""
        self.loads.pop(0).end()


class PagedHarness(QueueHarness):
    """A harness with a disk. ``limit`` is what a queue may hold, in bytes of content."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self.shelf = MemoryPages()
        super().__init__(self.shelf)
        self.shelf.wall = self.clock.wall
        self.context.pages = self.shelf
        self.context.queue_memory = limit
        self.context.wall_ahead = lambda: self.clock.wall() - self.clock.now()

    def put(self, queue: ClassicQueue, *run: Message) -> None:
        """Publish, as a channel would, and take the turn."""
        for stretch in stretches(list(run)):
            timed = any(traits.deadline != NEVER for _, _, traits in stretch)
            write_run([queue], self.log, stretch, size_of(stretch), timed)
        self.turn()

    def sync(self) -> None:
        self.shelf.sync()
        self.turn()

    def answer(self) -> None:
        """A load ends, and the turn follows."""
        self.shelf.answer()
        self.turn()

    def answer_all(self) -> None:
        """Loads end as they come, until the queues want no more."""
        self.turn()
        for _ in range(1_000):
            if not self.shelf.loads:
                return
            self.answer()
        raise AssertionError("the queue loads for ever")

    def squeeze(self, *queues: ClassicQueue) -> None:
        """The broker is short of memory, and notifies all queues."""
        self.gauge.is_short = True
        for queue in queues:
            queue.touch()
        self.turn()


def consumer_of(queue: ClassicQueue, credit: int = 1 << 60, **more: object) -> SpyConsumer:
    consumer = SpyConsumer(queue=queue, credit=credit, **more)
    queue.add_consumer(consumer)
    return consumer


def paged(queue: ClassicQueue) -> int:
    """Messages that are on disk only."""
    return sum(lane.paged for lane in queue.lanes)
