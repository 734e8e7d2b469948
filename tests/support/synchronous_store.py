"""A store on a real folder without a broker: its writer runs at once, in the thread of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from leveret.clock import FrozenClock
from leveret.message import PERSISTENT, Address, Message, Traits
from leveret.store.batch import Batch
from leveret.store.definitions import Put, QueueRow, VhostRow
from leveret.store.log import Placement
from leveret.store.store import Store
from leveret.wire.content import make_content
from leveret.wire.fields import encode_table
from leveret.wire.properties import Properties

WALL = 1_700_000_000.0  # the only moment there is


class SynchronousStore:
    """``with`` ends it in good order; without, it is as after a crash."""

    def __init__(self, path: Path, *, segment_size: int = 1 << 20) -> None:
        self.path = path
        self.store = Store(path, segment_size=segment_size, synced=False, clock=FrozenClock(WALL))
        self.recovered = self.store.open().recovered
        self.journal = self.store.journal
        self.journal.start(self)
        self._tails = {key: lane.tail for key, lane in self.recovered.lanes.items()}
        self.store.adopt(self.recovered)
        self.journal.seal()

    def submit(self, batch: Batch) -> None:
        assert self.store.writer is not None
        self.store.writer.run([batch])
        self.journal.done(batch)

    def submit_later(self) -> None:
        pass

    def wait_for_acks(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.store.writer is not None:
            self.journal.stop()
        self.store.close()

    def crash(self) -> None:
        """No last word: what is on disk stays as it is. The lock is let go of."""
        self.store.close()

    def declare(self, *queues: tuple[int, str], vhost: str = "/") -> None:
        self.journal.record(Put(VhostRow(vhost, None, None)))
        for id_, name in queues:
            self.journal.record(Put(QueueRow(id_, vhost, name, False, encode_table({}))))
        self.journal.flush()

    def publish(
        self, queue: int, bodies: Sequence[bytes], properties: Properties | None = None, *, lane: int = 0
    ) -> None:
        """One run, on disk on return."""
        address = Address("an exchange", "a key", 1, 131072)
        traits = Traits(persistent=True, priority=lane) if lane else PERSISTENT
        messages: list[Message] = [(make_content(properties or Properties(), body), address, traits) for body in bodies]
        first = self._tails.get(queue << 8 | lane, 1)
        self._tails[queue << 8 | lane] = first + len(bodies)
        self.journal.append(messages, [Placement(queue, lane, first, len(bodies), lane)])
        self.journal.flush()

    def settle(self, queue: int, sequence: int, number: int = 1, *, lane: int = 0) -> None:
        """On disk on return."""
        self.journal.settle(queue, lane, sequence, number)
        self.journal.promise()
        self.journal.flush()


def segments_of(path: Path) -> list[Path]:
    return sorted((path / "journal").glob("*.seg"))


def picture(path: Path) -> dict[str, tuple[object, ...]]:
    """All that could change in a folder: names, inodes, sizes, times, modes and bytes."""
    found: dict[str, tuple[object, ...]] = {}
    for entry in sorted([path, *path.rglob("*")]):
        about = entry.stat()
        facts = (about.st_ino, about.st_mode, about.st_mtime_ns, about.st_size)
        found[str(entry.relative_to(path))] = (*facts, entry.read_bytes() if entry.is_file() else None)
    return found
