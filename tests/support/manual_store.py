"""A store whose writer and reader the test runs: nothing is written to or read from the disk by itself.

    store = ManualStore(VirtualDisk(), clock)
    ...
    store.write()       # the writer does what waits, and the receipts are granted
    store.read()        # the reader does the first job that waits, and answers

``DiskHarness`` is what one queue lives in with such a store behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leveret.broker.publishes import write_run
from leveret.clock import Clock
from leveret.message import NEVER, Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.queue import stretches
from leveret.store.batch import Batch
from leveret.store.definitions import Definitions
from leveret.store.pages import DiskPages
from leveret.store.reclaim import Reclaim
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import recover
from leveret.store.store import Store
from leveret.store.writer import Writer
from tests.support.spies import QueueHarness, size_of
from tests.support.virtual_disk import VirtualDisk

Job = tuple[Callable[[], object], Callable[[object], None]]


def run_job(job: Callable[[], object], done: Callable[[object], None]) -> None:
    """As a worker does."""
    try:
        result = job()
    except Exception as problem:
        result = problem
    done(result)


class JobList:
    """A worker whose jobs wait in a list until the test runs them."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = jobs

    def do(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self._jobs.append((job, done))


class ManualStore(Store):
    def __init__(self, disk: VirtualDisk, clock: Clock, segment_size: int = 64 << 10) -> None:
        super().__init__(Path("nowhere"), segment_size=segment_size, synced=True, clock=clock)
        self.disk = disk
        self.segment_size = segment_size
        self.batches: list[Batch] = []
        self.jobs: list[Job] = []
        self.is_lazy = False  # settles wait for company
        self.awaits_acks = False
        self.pages = DiskPages(self.journal, disk, self.in_worker)
        self.reclaim = Reclaim(self.journal, disk, self.in_worker)
        self.writer = Writer(disk, disk, reserve_size=16)
        self.start(self)

    # ---- between the journal and the threads

    def submit(self, batch: Batch) -> None:
        self.batches.append(batch)

    def submit_later(self) -> None:
        self.is_lazy = True

    def wait_for_acks(self) -> None:
        self.awaits_acks = True

    def in_worker(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self.jobs.append((job, done))

    # ---- the two threads

    def write(self) -> bool:
        """The writer does all batches that wait, also what would only go after a while; whether there were any."""
        while self.awaits_acks:
            self.awaits_acks = False
            self.journal.acks_awaited()
        if self.is_lazy:
            self.is_lazy = False
            self.journal.hand_over()
        batches, self.batches[:] = self.batches[:], []
        if batches:
            self.writer.run(batches)
            self.journal.done(batches[-1])
            self.reclaim.consider()
        return bool(batches)

    def read(self) -> bool:
        """The reader does the job that waits longest; whether there was one."""
        if not self.jobs:
            return False
        run_job(*self.jobs.pop(0))
        return True

    # ---- restarts

    def look(self) -> tuple[Definitions, list[RecoveredLane]]:
        """Recover what the previous run left on this disk; call ``journal.seal`` afterwards."""
        for name in self.disk.names("spill"):
            self.disk.remove(f"spill/{name}")
        definitions = self.disk.definitions()
        recovered = recover(self.disk, self.disk.queues(), self.segment_size)
        highest = max(definitions.highest_queue, recovered.highest_queue)
        return definitions._replace(highest_queue=highest), self.adopt(recovered)


class DiskHarness(QueueHarness):
    """A harness with a real store. ``limit`` is what a queue may hold, in bytes of content."""

    def __init__(self, limit: int, segment_size: int = 64 << 10) -> None:
        super().__init__()
        self.disk = VirtualDisk()
        self.store = ManualStore(self.disk, self.clock, segment_size)
        self.log = self.store.journal
        self.context.log = self.log
        self.context.pages = self.store.pages
        self.context.queue_memory = limit
        self.context.wall_ahead = self.clock.wall_ahead
        self.log.seal()
        self.store.write()

    def put(self, queue: ClassicQueue, *run: Message) -> None:
        """Publish, as a channel would, and take the turn."""
        for stretch in stretches(list(run)):
            timed = any(traits.deadline != NEVER for _, _, traits in stretch)
            write_run([queue], self.log, stretch, size_of(stretch), timed)
        self.turn()

    def turn(self) -> None:
        """As the broker's: deliver, then hand what was gathered to the log."""
        super().turn()
        self.log.flush()

    def sync(self, *queues: ClassicQueue) -> None:
        """All is written; the queues look what they need not hold any more."""
        self.store.write()
        for queue in queues:
            queue.touch()
        self.turn()

    def read(self) -> bool:
        found = self.store.read()
        self.turn()
        return found

    def read_all(self) -> None:
        self.turn()
        for _ in range(10_000):
            if not self.read():
                return
        raise AssertionError("the queue loads for ever")

    def squeeze(self, *queues: ClassicQueue) -> None:
        """The broker is short of memory, until all that can go is on disk."""
        self.gauge.is_short = True
        for queue in queues:
            queue.touch()
        self.read_all()
        self.gauge.is_short = False
