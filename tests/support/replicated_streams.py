"""A leader with streams whose batches are kept as the replicated log would have them, and a replica that is killed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from shutil import rmtree

from leveret.broker.publishes import write_run
from leveret.clock import Clock
from leveret.message import PERSISTENT, Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.replication.batches import SegmentEnd, decode_batch, encode_batches
from leveret.store.batch import Batch
from leveret.store.files import Files
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import Recovered
from leveret.store.replica import Replica
from leveret.store.replica_note import ReplicaNote
from leveret.store.stream_files import StreamFiles
from tests.support.manual_store import ManualStore
from tests.support.replicated_cell import disk_of
from tests.support.spies import ADDRESS
from tests.support.stored_harness import StoredHarness
from tests.support.streams import Seen, all_of
from tests.support.virtual_disk import VirtualDisk

SEGMENT = 4096  # bytes of a segment of a stream
NAMES = ("one", "two", "three")


class RecordedStore(ManualStore):
    last = 0  # segment of the log, when this leader begins

    def __init__(self, disk: VirtualDisk, clock: Clock, segment_size: int) -> None:
        self.bodies: list[bytes] = []
        self._end = SegmentEnd()
        self._trims: dict[int, int] = {}
        super().__init__(disk, clock, segment_size)
        self.journal.streams.start(self)

    def adopt(self, recovered: Recovered) -> list[RecoveredLane]:
        recovered.next_segment = max(recovered.next_segment, self.last + 1)  # as in Store.open
        return super().adopt(recovered)

    def submit(self, batch: Batch) -> None:
        super().submit(batch)
        trims, self._trims = self._trims, {}
        self.bodies.append(encode_batches([batch], self._end, trims.items()))

    def trimmed(self, queue: int, first: int) -> None:
        self._trims[queue] = first


class StreamLeader(StoredHarness):
    """Declares, publishes, deletes and trims at random. The streams are written whenever the test lets them."""

    store_type = RecordedStore
    store: RecordedStore

    def act(self, chance: Random) -> None:
        self.clock.move_to(self.clock.now() + chance.choice((0.0, 0.000_001, 0.3)))
        what, name = chance.random(), chance.choice(NAMES)
        if name not in self.vhost.queues:
            self.make(name, chance)
        elif what < 0.03:
            self.vhost.delete_queue(name)
        elif what < 0.2:
            with self.store.journal.group():  # a transaction
                for each in NAMES:
                    self.publish(chance, each)
        elif what < 0.3:
            self.publish(chance, *NAMES)  # one record
        elif what < 0.4:
            self.store.journal.hand_over()  # in the middle of a tick
        else:
            self.publish(chance, name)
        if chance.random() < 0.5:
            self.step(chance)

    def make(self, name: str, chance: Random) -> None:
        arguments: dict[str, object] = {}
        if name != "three":  # is a classic queue
            arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": SEGMENT}
            if chance.random() < 0.7:
                arguments["x-max-length-bytes"] = chance.choice((1, 3)) * SEGMENT
        self.vhost.declare_queue(name, durable=True, arguments=arguments)

    def publish(self, chance: Random, *names: str) -> None:
        queues: list[DeclaredQueue] = [self.vhost.queues[name] for name in names if name in self.vhost.queues]
        run: list[Message] = [
            (chance.randbytes(chance.choice((0, 30, 700))), ADDRESS, PERSISTENT) for _ in range(chance.randint(1, 4))
        ]
        if queues:
            write_run(queues, self.store.journal, run, sum(len(content) for content, _, _ in run), False)

    def step(self, chance: Random) -> None:
        """A step of the writer, of the streams, or the time of a timer."""
        what = chance.random()
        if what < 0.5:
            self.write()
        elif what < 0.9:
            self.write_stream()
        else:
            self.advance(1.0)
            self.read()

    def finish(self) -> None:
        """All is written, synced and trimmed, and the log has the last trims."""
        self.is_slow = False
        self.rest()
        self.advance(1.0)
        self.rest()
        self.vhost.declare_queue("last", durable=True)
        self.rest()

    def streams(self) -> dict[int, StreamFiles]:
        """As they are on disk now, by id."""
        return {queue.id: opened(self.disk.copy(), queue.id) for queue in self.vhost.queues.values() if queue.stream}


def opened(disk: VirtualDisk | Files, id_: int) -> StreamFiles:
    files = StreamFiles(disk, id_, SEGMENT)
    files.open()
    return files


def replica_streams(path: Path) -> dict[int, StreamFiles]:
    folder = path / "streams"
    ids = sorted(int(each.name) for each in folder.iterdir()) if folder.exists() else []
    return {id_: opened(Files(path), id_) for id_ in ids}


def messages_of(streams: dict[int, StreamFiles]) -> dict[int, list[Seen]]:
    return {id_: all_of(files) for id_, files in streams.items() if files.next}


def firsts_of(path: Path, id_: int) -> list[int]:
    """Of the segments on disk."""
    return sorted(int(each.stem) for each in (path / "streams" / str(id_)).glob("*.seg"))


def leader_on(path: Path, last: int) -> StreamLeader:
    """The broker of a member that takes over."""

    class Continued(RecordedStore):
        pass

    class ContinuedLeader(StreamLeader):
        store_type = Continued

    Continued.last = last
    return ContinuedLeader(disk_of(path), segment_size=8 << 10)


def leave(leader: StreamLeader, path: Path) -> None:
    """The leader is killed: its directory is as its disk is now."""
    for folder in ("journal", "streams"):
        rmtree(path / folder, ignore_errors=True)
    for name, data in leader.disk.files().items():
        if name.startswith(("journal/", "streams/")):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)


def follow(path: Path, bodies: list[bytes], chance: Random) -> ReplicaNote:
    """Apply everything, with notes and kills at random places. The last note."""
    replica = Replica(path, "c")
    at = replica.open().batch
    while at < len(bodies):
        at += 1
        replica.apply(*decode_batch(bodies[at - 1]))
        what = chance.random()
        if what < 0.2:
            replica.keep(at, 1, at)
        elif what < 0.35:
            kill(replica, path, chance)
            replica = Replica(path, "c")
            at = replica.open().batch
    replica.cut()
    note = replica.keep(at, 1, at)
    replica.close()
    return note


def kill(replica: Replica, path: Path, chance: Random) -> None:
    """Nothing more is synced; of what was not, the files of streams may have lost any part."""
    for files in replica._streams._open.values():
        segment = files._current
        if segment is not None:
            files.abandon()
            size = chance.randint(files._synced, segment.size)
            with (path / segment.path).open("r+b") as file:
                file.truncate(size)
    replica._streams._open.clear()
    replica.close()
