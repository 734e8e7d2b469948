"""A cell of three data directories without an engine: a leader on a virtual disk, others that apply its batches.

The log is a list of batches and claims. A leader crashes at any of its batches, and may then have some that the log
never took. Members that follow are killed, and get checkpoints of the leader, some of them late. Some lose theirs.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from leveret.replication.batches import SegmentEnd, decode_batch, encode_batches
from leveret.store.batch import Batch
from leveret.store.checkpoint import checkpoint_path, remove_checkpoints
from leveret.store.comparison import differences
from leveret.store.definitions import Put
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import Recovered, recover
from leveret.store.replica import Replica
from tests.support.broker_harness import BrokerHarness
from tests.support.ledger import Ledger
from tests.support.store_workloads import SMALL, Restless
from tests.support.virtual_disk import VirtualDisk

CELL = "c"


class Offer(NamedTuple):
    """A checkpoint of a leader, complete when the log had ``at`` entries."""

    at: int
    epoch: int
    following: int
    data: bytes


class Leader(BrokerHarness):
    def __init__(self, disk: VirtualDisk, cell: ReplicatedCell, last: int) -> None:
        self.crashes: list[tuple[int, VirtualDisk]] = []  # entries of the log, and the disk, when it may crash
        self._cell = cell
        self._last = last  # segment of the log
        self._end = SegmentEnd()
        super().__init__(disk, full_size=SMALL, ledger=Ledger(), checkpoint_every=2 * SMALL)
        for queue in disk.queues():
            self.ledger.declared[queue] = [0, 1 << 60, 1 << 60]
        self.checkpoints.when_written(self._offer)

    def adopt(self, recovered: Recovered) -> list[RecoveredLane]:
        recovered.next_segment = max(recovered.next_segment, self._last + 1)  # as in Store.open
        return super().adopt(recovered)

    def submit(self, batch: Batch) -> None:
        if self._cell.chance.random() < 0.3:
            self.crashes.append((len(self._cell.log), self.disk.copy()))
        super().submit(batch)
        self._cell.log.append(encode_batches([batch], self._end))

    def _offer(self, following: int) -> None:
        cell, data = self._cell, self.disk.content(checkpoint_path(following))
        cell.offers.append(Offer(len(cell.log), cell.epoch, following, data))


class ReplicatedCell:
    def __init__(self, folder: Path, chance: Random) -> None:
        self.chance = chance
        self.epoch = 0
        self.log: list[bytes | int] = []  # batches, and epochs that are claimed
        self.offers: list[Offer] = []
        self.uses = 0  # take-overs with a checkpoint
        self.paths = [folder / name for name in "xyz"]
        self._reference = Replica(folder / "reference", CELL)  # has read the log alone
        self._reference_path = folder / "reference"
        self._referred = 0
        self._reference.open()

    def close(self) -> None:
        self._reference.close()

    def take_over(self, path: Path) -> Leader:
        """The member there follows to the end of the log, claims and leads."""
        replica = self._follow(path, len(self.log))
        self.epoch += 1
        self.log.append(self.epoch)
        replica.cut()
        note = replica.keep(len(self.log), self.epoch, len(self.log))
        replica.close()
        if self.chance.random() < 0.4:
            remove_checkpoints(Files(path), keep=None)
        disk = disk_of(path)
        self._compare(disk)
        leader = Leader(disk, self, note.segment)
        leader.begin()
        return leader

    def _compare(self, disk: VirtualDisk) -> None:
        """What a recovery finds is what a scan finds in a directory that has read the log alone."""
        for entry in self.log[self._referred :]:
            if isinstance(entry, bytes):
                self._reference.apply(*decode_batch(entry))
        self._referred = len(self.log)
        found = recover(disk, disk.queues(), SMALL, repair=False)
        self.uses += found.checkpoint is not None
        scanned = recover(Files(self._reference_path), disk.queues(), SMALL, repair=False, lineage=None)
        assert not (problems := differences(found, scanned)), problems

    def crash(self, leader: Leader, path: Path) -> None:
        """At one of its batches. The log may lack some that are in its directory."""
        reached, disk = self.chance.choice([*leader.crashes, (len(self.log), leader.disk)])
        del self.log[reached:]
        while self.chance.random() < 0.9 and _may_be_lost(self.log[-1]):
            self.log.pop()
        self.offers = [offer for offer in self.offers if offer.at <= reached]
        for file in (path / "journal").iterdir():
            file.unlink()
        for name, data in disk.files().items():
            if name.startswith("journal/"):
                (path / name).write_bytes(data)

    def follow(self, path: Path) -> None:
        """Some way."""
        self._follow(path, self.chance.randint(0, len(self.log))).close()

    def _follow(self, path: Path, stop: int) -> Replica:
        replica = Replica(path, CELL)
        note = replica.open()
        at, epoch = note.batch, note.epoch
        while at < stop:
            entry = self.log[at]
            at += 1
            if isinstance(entry, int):
                epoch = entry
                replica.claimed(epoch)
            else:
                replica.apply(*decode_batch(entry))
            self._install(replica, at)
            what = self.chance.random()
            if what < 0.1:
                replica.keep(at, epoch, at)
            elif what < 0.11:
                replica.close()
                return self._follow(path, stop)
        return replica

    def _install(self, replica: Replica, at: int) -> None:
        """Checkpoints that were complete about then; the transport may be late, and the member may be behind."""
        for offer in self.offers:
            if abs(offer.at - at) < 10 and self.chance.random() < 0.2:
                replica.install_checkpoint(offer.epoch, offer.following, offer.data)


def _may_be_lost(entry: bytes | int) -> bool:
    """A leader does nothing of the others before the log has them."""
    if isinstance(entry, int):
        return False
    contents = decode_batch(entry)
    return not contents.changes and not contents.removals


def disk_of(path: Path) -> VirtualDisk:
    """The same directory as a virtual disk."""
    disk = VirtualDisk()
    for folder in ("journal", "streams"):
        for file in (path / folder).rglob("*.*"):
            disk.put(str(file.relative_to(path)), file.read_bytes())
    db = DefinitionsDb(path / "meta.db")
    rows = db.load()
    db.close()
    disk.apply([Put(row) for table in rows[:-1] for row in table])  # type: ignore[union-attr]
    disk.highest_queue = rows.highest_queue
    return disk


def live(cell: ReplicatedCell, generations: int) -> None:
    chance = cell.chance
    for _ in range(generations):
        path = chance.choice(cell.paths)
        leader = cell.take_over(path)
        Restless(leader, chance).live(chance.choice((5, 60)))
        cell.crash(leader, path)
        for other in cell.paths:
            if chance.random() < 0.5:
                cell.follow(other)
    cell.close()
