"""A store on a virtual disk, without threads: nothing is written before ``write``, no job runs before it may.

    harness = StoreHarness()
    harness.begin()
    q = harness.declare()
    receipt = harness.publish([q], b"one", b"two")
    harness.turn()                  # the end of a turn of the broker: what was gathered goes to the writer
    harness.write()                 # the writer works, and its news arrive
    assert harness.journal.granted >= receipt
    assert look(harness.disk.copy()).bodies(q) == [b"one", b"two"]

What server/flusher.py does between the journal and the writer is done here the same way, in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import ENOSPC

from leveret.clock import FrozenClock
from leveret.message import NEVER, PERSISTENT, Address, Message, Traits
from leveret.store.batch import Batch
from leveret.store.checkpoints import Checkpoints
from leveret.store.comparison import differences
from leveret.store.definitions import Drop, Put, QueueRow
from leveret.store.log import Placement
from leveret.store.pages import DiskPages, fetch
from leveret.store.reclaim import Reclaim
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import Recovered, recover
from leveret.store.segments import Segments
from leveret.store.store import Store
from leveret.store.writer import FOLDER, Writer
from tests.support.callback_listener import CallbackListener
from tests.support.ledger import Key, Ledger, Seen, SpyJournal
from tests.support.virtual_disk import VirtualDisk

FULL_SIZE = 16 << 10
RESERVE_SIZE = 256
ADDRESS = Address("ex", "key", 1, 131072)
MOST_WRITES = 10_000  # a journal that still has something to write after so many never rests

Job = tuple[Callable[[], object], Callable[[object], None]]


def message(body: bytes, *, priority: int = 0, deadline: float = NEVER, address: Address = ADDRESS) -> Message:
    """Persistent, with content of any length: the store does not read it."""
    traits = PERSISTENT
    if priority or deadline != NEVER:
        traits = Traits(persistent=True, priority=priority, deadline=deadline)
    return (body, address, traits)


class StoreHarness(Store):
    """One run of a store. Queues are their ids; a ledger records what the journal is given."""

    def __init__(
        self,
        disk: VirtualDisk | None = None,
        *,
        full_size: int = FULL_SIZE,
        ledger: Ledger | None = None,
        checkpoint_every: int | None = None,
    ) -> None:
        self.disk = disk or VirtualDisk()  # type: ignore[assignment]
        self.clock = FrozenClock()
        self.ledger = ledger or Ledger()
        self.ledger.now = lambda: len(self.disk.operations)
        self.journal: SpyJournal = SpyJournal(Segments(full_size), self.clock, self.ledger)
        self.listener = self.journal.listener = CallbackListener(self.ledger.granted, self._lost)
        self.start(self)
        self.writer = Writer(self.disk, self.disk, RESERVE_SIZE)
        self.pages = DiskPages(self.journal, self.disk, self.in_worker)
        self.reclaim = Reclaim(self.journal, self.disk, self.in_worker)
        self.checkpoints = Checkpoints(self.journal, self.disk, self.in_background, checkpoint_every or 1)
        self.takes_checkpoints = checkpoint_every is not None
        self.background: list[Job] = []  # for the thread of the checkpoints: one job after every write
        self.waiting: list[Batch] = []  # for the writer
        self.jobs: list[Job] | None = None  # for the reader; None: they run at once
        self.losses = 0
        self.reclaims = True  # after every write
        self.is_lazy = False  # the journal requested a wake-up
        self.awaits_acks = False  # and a short one
        self.tails: dict[tuple[int, int], int] = {}
        self._full_size = full_size
        self._void = -1
        self._next_queue = 1

    # ---- between the journal and the disk

    def submit(self, batch: Batch) -> None:
        self.waiting.append(batch)

    def submit_later(self) -> None:
        self.is_lazy = True

    def wait_for_acks(self) -> None:
        self.awaits_acks = True

    def _lost(self) -> None:
        self.losses += 1

    def in_worker(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        if self.jobs is None:
            _work(job, done)
        else:
            self.jobs.append((job, done))

    def in_background(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self.background.append((job, done))

    def _work_in_background(self) -> None:
        if self.takes_checkpoints:
            self.checkpoints.consider()
        if self.background:
            _work(*self.background.pop(0))

    def work(self) -> None:
        """Let the reader do the jobs that wait, and those that come of them."""
        while self.jobs:
            self.work_one()

    def work_one(self) -> None:
        assert self.jobs
        _work(*self.jobs.pop(0))

    def write(self) -> None:
        """Let the writer do all waiting work at once; then notify the loop."""
        batches = [batch for batch in self.waiting if batch.era > self._void]
        self.waiting.clear()
        if not batches:
            return
        assert self.writer is not None
        try:
            self.writer.run(batches)
        except OSError as problem:
            self._void = batches[-1].era
            try:
                self.writer.abandon(cut=problem.errno == ENOSPC)
            except OSError as second:
                problem = second if second.errno != ENOSPC else problem
            self.journal.failed(problem)
        else:
            self.journal.done(batches[-1])
            if self.reclaims:
                self.reclaim.consider()
        self._work_in_background()

    def turn(self) -> None:
        self.journal.flush()

    def wait(self) -> None:
        """Time goes by: what was lazy is not any more, and what waited for acks does not."""
        while self.awaits_acks:
            self.awaits_acks = False
            self.journal.acks_awaited()
        if self.is_lazy:
            self.is_lazy = False
            self.journal.hand_over()

    def rest(self) -> None:
        """Until nothing is left to do."""
        self.turn()
        for _ in range(MOST_WRITES):
            self.wait()
            if not self.waiting and not self.background:
                return
            if self.waiting:
                self.write()
            else:
                self._work_in_background()
            self.turn()
        raise AssertionError("the journal does not come to rest")

    # ---- a run

    def begin(self) -> list[RecoveredLane]:
        """Recover, and be ready for more."""
        recovered = recover(self.disk, self.disk.queues(), self._full_size)
        lanes = self.adopt(recovered)
        self.tails = {(lane.queue, lane.lane): lane.tail for lane in lanes}
        self._next_queue = max(self.disk.highest_queue, recovered.highest_queue) + 1
        self.journal.seal()
        self.rest()
        return lanes

    def stop(self) -> None:
        self.journal.stop()
        self.rest()
        assert self.writer is not None
        self.writer.close()
        if self.takes_checkpoints:
            self.checkpoints.write_last()

    # ---- what queues and sessions do

    def declare(self) -> int:
        queue, self._next_queue = self._next_queue, self._next_queue + 1
        self.journal.record(Put(QueueRow(queue, "/", f"q{queue}", False, b"\0\0\0\0")))
        return queue

    def delete(self, queue: int) -> int:
        receipt = self.journal.record(Drop(QueueRow, (queue,)))
        self.journal.forget(queue)
        return receipt

    def publish(self, queues: Sequence[int], *bodies: bytes, synced: bool = True) -> int:
        return self.send(queues, [message(body) for body in bodies], synced=synced)

    def send(self, queues: Sequence[int], run: Sequence[Message], highest: int = 0, synced: bool = True) -> int:
        """Messages, in the lanes of their priorities."""
        placements: list[Placement] = []
        for queue in queues:
            for lane in range(highest + 1):
                number = sum(min(traits.priority, highest) == lane for _, _, traits in run)
                if number:
                    tail = self.tails.get((queue, lane), 1)
                    placements.append(Placement(queue, lane, tail, number, highest))
                    self.tails[queue, lane] = tail + number
        return self.journal.append(list(run), placements, synced)

    def settle(self, queue: int, *sequences: int, lane: int = 0) -> None:
        for sequence in sequences:
            self.journal.settle(queue, lane, sequence, 1)

    # ---- looking

    @property
    def segments(self) -> list[str]:
        """The names of the files."""
        return [name for name in self.disk.names(FOLDER) if name.endswith(".seg")]

    def live(self, queue: int, lane: int = 0) -> int:
        log = self.journal.lanes.get(queue << 8 | lane)
        return 0 if log is None else len(log.index)


def _work(job: Callable[[], object], done: Callable[[object], None]) -> None:
    try:
        result = job()
    except Exception as problem:
        result = problem
    done(result)


class Found(Seen):
    """What a recovery found, with the recovery itself."""

    recovered: Recovered

    def bodies(self, queue: int, lane: int = 0) -> list[bytes]:
        """In order."""
        keys = sorted(key for key in self.messages if key[:2] == (queue, lane))
        return [self.messages[key][0] for key in keys]

    def all(self) -> list[bytes]:
        return [self.messages[key][0] for key in sorted(self.messages)]


def look(disk: VirtualDisk, full_size: int = FULL_SIZE, wall_ahead: float = 1_699_999_000.0) -> Found:
    """Recover, and read everything that was found; nothing of it may turn out to be unreadable.

    From a checkpoint, if there is one: a full scan of the same disk must find the same.
    """
    scanned = recover(disk, disk.queues(), full_size, repair=False, lineage=None)
    recovered = recover(disk, disk.queues(), full_size)
    if recovered.checkpoint is not None:
        assert not (problems := differences(recovered, scanned)), problems
    messages: dict[Key, Message] = {}
    tries: dict[Key, int] = {}
    for lane in recovered.lanes.values():
        batch = fetch(disk, lane.queue, lane.lane, [(False, run) for run in lane.index], wall_ahead)
        assert not batch.lost, f"recovered and not readable: {batch.lost}"
        for loaded in batch.loaded:
            messages[lane.queue, lane.lane, loaded.sequence] = loaded.message
        assert len(batch.loaded) == len(lane.index)
        tries.update({(lane.queue, lane.lane, sequence): number for sequence, (number, _) in lane.tries.items()})
    tails = {(lane.queue, lane.lane): lane.tail for lane in recovered.lanes.values()}
    found = Found(messages, tries, tails, disk.queues())
    found.recovered = recovered
    return found
