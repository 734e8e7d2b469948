"""A journal whose records are all known, and what must remain of it when some of its bytes are damaged.

The model is the slow and obvious one: a record counts if its bytes are there unaltered; in the last segment, and only
there, a group counts as a whole. What was published and not settled by a record that counts is there.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from leveret.message import Message
from leveret.store.records import PUBLISH, RETURN, SEGMENT_HEAD, SETTLE, Record, read_entries, read_publish
from leveret.store.recovery import Recovered
from leveret.store.scan import scan
from leveret.store.writer import segment_path
from tests.support.ledger import Key
from tests.support.store_harness import StoreHarness, message
from tests.support.virtual_disk import VirtualDisk

WALL_AHEAD = 1_699_999_000.0


class Known(NamedTuple):
    """A record: its position, its group and its content."""

    path: str
    at: int
    end: int
    group: int
    published: dict[Key, Message]
    settled: list[Key]
    returned: dict[Key, int]


class RecordedJournal:
    def __init__(self, disk: VirtualDisk, full_size: int) -> None:
        self.disk = disk
        self.full_size = full_size
        self.paths = [f"journal/{name}" for name in disk.names("journal") if name.endswith(".seg")]
        self.records: list[Known] = []
        for path in self.paths:
            self._read(path)
        self.last = self.paths[-1]

    def _read(self, path: str) -> None:
        data = self.disk.content(path)
        group = len(self.records)
        for record in scan(data, int(path[-14:-4]), SEGMENT_HEAD.size):
            assert isinstance(record, Record)
            if not record.place:
                group = len(self.records)
            known = Known(path, record.at, record.end, group, {}, [], {})
            self.records.append(known)
            if record.kind == PUBLISH:
                published = read_publish(data, record)
                for place in published.places:
                    found = published.messages(data, published.members(place), WALL_AHEAD)
                    for sequence, each in enumerate(found, place.sequence):
                        known.published[place.queue, place.lane, sequence] = each
            elif record.kind in (SETTLE, RETURN):
                for queue, lane, sequence, number, about in read_entries(data, record):
                    for place in range(sequence, sequence + number):
                        if record.kind == SETTLE:
                            known.settled.append((queue, lane, place))
                        else:
                            known.returned[queue, lane, place] = about

    def copy(self) -> VirtualDisk:
        return self.disk.copy()

    def left(self, damaged: VirtualDisk) -> dict[Key, Message]:
        """What must be found on the damaged disk."""
        counting = [record for record in self.records if self._is_whole(record, damaged)]
        sizes: dict[int, int] = {}
        for record in self.records:
            sizes[record.group] = sizes.get(record.group, 0) + 1
        found: dict[int, int] = {}
        for record in counting:
            found[record.group] = found.get(record.group, 0) + 1
        live: dict[Key, Message] = {}
        gone: set[Key] = set()
        for record in counting:
            if record.path != self.last or found[record.group] == sizes[record.group]:
                live.update(record.published)
                gone.update(record.settled)
        return {key: each for key, each in live.items() if key not in gone}

    def assert_left(self, recovered: Recovered, damaged: VirtualDisk) -> None:
        """Neither more nor less was found than is left, and each message where it is unaltered."""
        wanted = self.left(damaged)
        found: dict[Key, tuple[str, int]] = {}
        for lane in recovered.lanes.values():
            for run in lane.index:
                for sequence in range(run.sequence, run.sequence + run.number):
                    found[lane.queue, lane.lane, sequence] = segment_path(run.segment), run.offset
        lost, more = wanted.keys() - found.keys(), found.keys() - wanted.keys()
        assert not lost, f"undamaged and lost: {sorted(lost)}"
        assert not more, f"out of damaged records: {sorted(more)}"
        homes = {(record.path, record.at): record for record in self.records if self._is_whole(record, damaged)}
        for key, place in found.items():
            assert key in homes[place].published, f"{key} is not at {place}"

    def _is_whole(self, record: Known, damaged: VirtualDisk) -> bool:
        try:
            there = damaged.read(record.path, record.at, record.end - record.at)
        except FileNotFoundError:
            return False
        return there == self.disk.read(record.path, record.at, record.end - record.at)


def made(full_size: int, turns: int, body: int, seed: int = 21) -> RecordedJournal:
    """Five queues, one with priorities; single messages, runs, fan-outs, groups, settles and returns."""
    random = Random(seed)
    harness = StoreHarness(full_size=full_size)
    harness.reclaims = False
    harness.begin()
    queues = [harness.declare() for _ in range(5)]
    harness.rest()
    for turn in range(turns):
        run = [
            message(b"%d.%d " % (turn, n) + random.randbytes(random.randint(body // 2, body)), priority=turn % 3)
            for n in range(random.randint(1, 3))
        ]
        if turn % 4 == 3:
            with harness.journal.group():
                harness.send([queues[0]], run)
                harness.publish([queues[1]], b"of a group %d" % turn)
                harness.settle(queues[2], max(harness.tails.get((queues[2], 0), 1) - 1, 1))
        else:
            harness.send(
                random.sample(queues[:4], random.randint(1, 3)), [(*each[:2], message(b"")[2]) for each in run]
            )
        harness.send([queues[4]], run[:1], highest=2)
        if turn % 3 == 2:
            harness.settle(queues[turn % 2], turn // 3)
            harness.journal.returned(queues[3], 0, 1 + turn // 3, 1, 1 + turn % 2)
            harness.journal.promise()
        harness.rest()
    return RecordedJournal(harness.disk.copy(), full_size)
