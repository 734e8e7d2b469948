"""A broker with a disk, without a server: the Harness of tests/support/peer_pair.py over a store that the test runs.

``rest`` lets the disk work too, unless ``is_slow``: then nothing is written, granted or read back until ``work``.

    harness = StoredHarness()
    client = harness.client()
    client.declare("q", durable=True)
    harness = harness.stopped().again()         # a clean stop, and the next run
    harness = harness.crashed().again()         # a power cut: only what was synced is left
"""

from __future__ import annotations

from random import Random

from leveret.broker.broker import Broker
from leveret.broker.restoration import (
    close_streams,
    load_seen,
    load_streams,
    open_streams,
    remove_orphans,
    restore_definitions,
    restore_messages,
    restore_streams,
)
from leveret.clock import FrozenClock
from leveret.session.limits import Limits
from leveret.wire.content import body_of
from tests.support.manual_store import Job, JobList, ManualStore, run_job
from tests.support.peer_pair import Harness
from tests.support.virtual_disk import VirtualDisk

MOST_STEPS = 10_000


class StoredHarness(Harness):
    store_type = ManualStore

    def __init__(
        self,
        disk: VirtualDisk | None = None,
        *,
        wall: float = 1_700_000_000.0,
        queue_memory: int = 64 << 20,
        memory_high_watermark: int = 1 << 30,
        segment_size: int = 64 << 10,
    ) -> None:
        self.disk = disk or VirtualDisk()
        elapsed = float(len(self.disk.files()))  # message time differs in each run, wall time does not
        self.clock = FrozenClock(wall - elapsed)
        self.clock.move_to(self.clock.now() + elapsed)
        self.store = self.store_type(self.disk, self.clock, segment_size)
        self.settings = {
            "queue_memory": queue_memory,
            "memory_high_watermark": memory_high_watermark,
            "segment_size": segment_size,
        }
        self.broker = Broker(
            node_name="harness",
            clock=self.clock,
            log=self.store.journal,
            memory_high_watermark=memory_high_watermark,
            resident=lambda: None,
            pages=self.store.pages,
            queue_memory=queue_memory,
            stream_disk=self.disk,
        )
        self.broker.attach(self)
        self.stream_jobs: list[Job] = []
        self.broker.stream_workers.attach(JobList(self.store.jobs), JobList(self.stream_jobs))
        self.limits = Limits()
        self.clients = []
        self.is_slow = False
        self._woken = True
        self._resting = True
        self._restore()

    def _restore(self) -> None:
        """As node.py does."""
        definitions, lanes = self.store.look()
        broker = self.broker
        with broker.unrecorded():
            restore_definitions(broker, definitions, "guest", "secret")
        open_streams(broker)
        remove_orphans(self.disk, {row.id for row in definitions.queues})
        self.restored = restore_streams(broker, lanes) + restore_messages(broker, lanes)
        self.store.journal.seal()
        self._load_left()
        if not definitions.vhosts:
            broker.add_vhost("/")
            self.user("guest")
        self.vhost = broker.vhost("/")
        self.rest()

    def _load_left(self) -> None:
        load_seen(self.broker, lambda: None)
        load_streams(self.broker, lambda: None)

    # ---- the disk

    def rest(self) -> None:
        super().rest()
        if not self.is_slow:
            self.work()

    def work(self) -> None:
        """The disk does all that waits for it."""
        for _ in range(MOST_STEPS):
            super().rest()
            if not self.store.write() and not self.store.read() and not self.write_stream():
                self.store.pages.try_again()  # as the flusher does: a segment was reclaimed under the reader's hand
                if not self.store.jobs:
                    return
            self._note_work()
        raise AssertionError("the disk does not come to rest")

    def write_stream(self) -> bool:
        """The worker of the streams does the job that waits longest; whether there was one."""
        if not self.stream_jobs:
            return False
        run_job(*self.stream_jobs.pop(0))
        return True

    def write(self) -> None:
        """The writer alone."""
        self.store.write()
        self._note_work()
        super().rest()

    def read(self) -> None:
        """One job of the reader."""
        self.store.read()
        self._note_work()
        super().rest()

    def _note_work(self) -> None:
        """As server/flusher.py does."""
        if self.broker.has_work:
            self.broker.wake()

    # ---- the end of a run

    def stopped(self, seconds: float = 0) -> StoredLife:
        """A clean stop; the next run begins ``seconds`` later."""
        self.is_slow = False
        self.broker.is_stopping = True
        for client in list(self.clients):
            client.session.force_close("broker stops")
            client.vanish()
        self.broker.note_redelivered()
        self.broker.tick()  # and nothing comes between, as in node.py
        close_streams(self.broker)
        self.store.journal.stop()
        self.work()
        self.store.close()
        return StoredLife(self.disk.copy(), self.clock.wall() + seconds, self.settings)

    def crashed(self, seconds: float = 0, *, image: int = 1) -> StoredLife:
        """The power is cut. Of what may be left (VirtualDisk.images), image 0 is all that was written, 1 only what was
        synced, and the others something in between."""
        images = [disk for _, disk in self.disk.images(Random(image), most=8)]
        return StoredLife(images[image % len(images)], self.clock.wall() + seconds, self.settings)

    # ---- what tests ask

    def waiting_on_disk(self, name: str) -> list[bytes]:
        """Bodies of the live messages that the journal knows of a queue, lane by lane, highest first."""
        queue, found = self.queue(name), []
        for lane in reversed(range(1 if queue.backlog is None else len(queue.backlog.lanes))):
            loaded: list[bytes] = []
            at = 1
            while (first := self.store.pages.next_sequence(queue.id, lane, at)) is not None:
                answers = []
                self.store.pages.load(queue.id, lane, first, 1 << 60, 1 << 20, answers.append)
                job, done = self.store.jobs.pop()
                done(job())
                at = answers[0][-1].sequence + 1
                loaded += [body_of(each.message[0]) for each in answers[0]]
            found += loaded
        return found


class StoredLife:
    """What a run left on disk."""

    def __init__(self, disk: VirtualDisk, wall: float, settings: dict[str, int]) -> None:
        self.disk = disk
        self.wall = wall
        self.settings = settings

    def again(self) -> StoredHarness:
        return StoredHarness(self.disk, wall=self.wall, **self.settings)
