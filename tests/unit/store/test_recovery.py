"""From files to what was true: by sequence and not by place, and the same every time."""

from __future__ import annotations

from errno import EIO, ENOSPC

import pytest

from leveret.errors import DamagedJournal
from leveret.store.log import Placement
from leveret.store.records import (
    END_OF_GROUP,
    PUBLISH,
    RETURN,
    SETTLE,
    STOP,
    Entry,
    entries_body,
    publish_body,
    sealed,
    segment_head,
)
from leveret.store.recovery import LARGEST_SEGMENT, Recovered, recover
from leveret.store.writer import segment_path
from tests.support.store_harness import StoreHarness, look, message
from tests.support.virtual_disk import VirtualDisk

FULL = 4096


class Scribe:
    """Writes a journal by hand: records in any order, whole or not."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.segment = 0
        self.number = 0
        self.data = b""
        self.begin()

    def begin(self, segment: int | None = None) -> None:
        self.segment = segment or self.segment + 1
        self.data = segment_head(self.segment)
        self._save()

    def _save(self) -> None:
        self.disk.put(segment_path(self.segment), self.data)

    def record(self, kind: int, body: bytes, *, place: int = 0, ends: bool = True) -> None:
        self.number += 1
        flags = END_OF_GROUP if ends else 0
        self.data += b"".join(sealed(kind, flags, place, self.number, [body], self.segment, len(self.data)))
        self._save()

    def publish(self, sequence: int, *bodies: bytes, queue: int = 1, lane: int = 0, **group: int) -> None:
        run = [message(body, priority=lane) for body in bodies]
        places = [Placement(queue, lane, sequence, len(run), lane)]
        self.record(PUBLISH, b"".join(publish_body(run, places, 5.0, 0.0)), **group)

    def settle(self, *sequences: int, queue: int = 1, about: int = 1, **group: int) -> None:
        entries = [Entry(queue, 0, sequence, 1, about) for sequence in sequences]
        self.record(SETTLE, entries_body(entries), **group)

    def returned(self, sequence: int, tries: int, number: int = 1) -> None:
        self.record(RETURN, entries_body([Entry(1, 0, sequence, number, tries)]))

    def bodies(self, queue: int = 1, lane: int = 0) -> list[bytes]:
        """Found by a recovery, and by a second one."""
        self.disk.queues = lambda: {1, queue}  # type: ignore[method-assign]
        first = look(self.disk, FULL).bodies(queue, lane)
        assert look(self.disk, FULL).bodies(queue, lane) == first
        return first

    def recovered(self, *queues: int) -> Recovered:
        return recover(self.disk, set(queues or (1,)), FULL)


# ---- what was true


def test_order_is_by_sequence_wherever_the_records_are() -> None:
    scribe = Scribe()
    scribe.publish(5, b"five")
    scribe.publish(1, b"one", b"two")
    scribe.begin()
    scribe.publish(3, b"three")
    assert scribe.bodies() == [b"one", b"two", b"three", b"five"]


@pytest.mark.feature("S4-20")
def test_a_settle_is_a_mark_that_wins_wherever_it_stands() -> None:
    """Before or behind its message, in any segment; the message itself is as it was."""
    scribe = Scribe()
    scribe.settle(2, about=2)
    scribe.publish(1, b"one")
    scribe.begin()
    scribe.publish(2, b"two", b"three", b"four")
    before = scribe.data
    scribe.begin()
    scribe.settle(4, about=2)
    assert scribe.bodies() == [b"one", b"three"]
    assert scribe.disk.content(segment_path(2)) == before


@pytest.mark.feature("S0-05")
def test_copies_of_a_message_count_once_and_a_settle_counts_for_all() -> None:
    scribe = Scribe()
    scribe.publish(1, b"one", b"two", b"three")
    scribe.begin()
    scribe.publish(2, b"two")
    scribe.publish(3, b"three")
    scribe.begin()
    scribe.settle(3, about=2)
    assert scribe.bodies() == [b"one", b"two"]


def test_a_settle_without_its_message_is_ignored() -> None:
    scribe = Scribe()
    scribe.settle(7, 8, 9, about=99)
    scribe.publish(10, b"ten")
    assert scribe.bodies() == [b"ten"]


def test_lanes_are_apart() -> None:
    scribe = Scribe()
    scribe.publish(1, b"low")
    scribe.publish(1, b"high", lane=4)
    scribe.settle(1)
    assert scribe.bodies(lane=4) == [b"high"]
    assert scribe.bodies(lane=0) == []


def test_queues_that_the_definitions_do_not_know_are_gone() -> None:
    scribe = Scribe()
    scribe.publish(1, b"mine")
    scribe.publish(1, b"of the dead", queue=77)
    found = scribe.recovered()
    assert {lane.queue for lane in found.lanes.values()} == {1}
    assert found.highest_queue == 77  # which no other queue may ever get


def test_the_next_sequence_is_above_all_that_any_record_names() -> None:
    scribe = Scribe()
    scribe.publish(1, b"one", b"two")
    assert scribe.recovered().lane(1, 0).tail == 3
    scribe.settle(9)
    assert scribe.recovered().lane(1, 0).tail == 10
    scribe.returned(20, 1, number=5)
    assert scribe.recovered().lane(1, 0).tail == 25


def test_numbers_go_on_where_they_ended() -> None:
    scribe = Scribe()
    scribe.publish(1, b"one")
    scribe.begin(7)
    scribe.publish(2, b"two")
    found = scribe.recovered()
    assert (found.next_segment, found.next_number) == (8, 3)


def test_returns_count_for_what_is_live() -> None:
    scribe = Scribe()
    scribe.publish(1, b"one", b"two", b"three")
    scribe.returned(1, 4, number=2)
    scribe.returned(2, 6)
    scribe.returned(3, 0)  # delivered once, in a life that ended without a word
    scribe.settle(1)
    lane = scribe.recovered().lane(1, 0)
    assert {sequence: tries for sequence, (tries, _) in lane.tries.items()} == {2: 6}
    assert lane.redelivered_below == 4


def test_deadlines_are_told_of_what_is_live() -> None:
    scribe = Scribe()
    run = [message(b"%d" % n, deadline=100.0 + n) for n in range(3)]
    body = b"".join(publish_body(run, [Placement(1, 0, 1, 3)], 5.0, 1000.0))
    scribe.record(PUBLISH, body)
    scribe.settle(2)
    assert list(scribe.recovered().lane(1, 0).deadlines) == [(1100.0, 1), (1102.0, 3)]


# ---- how it ended


def test_only_a_stop_as_the_last_word_is_a_clean_end() -> None:
    scribe = Scribe()
    assert recover(VirtualDisk(), set(), FULL).clean  # there was no life
    assert not scribe.recovered().clean
    scribe.publish(1, b"one")
    assert not scribe.recovered().clean
    scribe.record(STOP, b"")
    assert scribe.recovered().clean
    scribe.begin()
    assert not scribe.recovered().clean
    scribe.record(STOP, b"")
    assert scribe.recovered().clean


def test_an_end_with_damage_is_not_clean() -> None:
    scribe = Scribe()
    scribe.record(STOP, b"")
    scribe.disk.put(segment_path(1), scribe.data + b"x")
    assert not scribe.recovered().clean


# ---- groups


def test_a_group_without_its_end_does_not_exist() -> None:
    scribe = Scribe()
    scribe.publish(1, b"one")
    scribe.publish(2, b"two", ends=False)
    scribe.settle(1, place=1, ends=False)
    assert scribe.bodies() == [b"one"]
    assert len(scribe.disk.content(segment_path(1))) < len(scribe.data)  # cut off


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_in_the_last_segment_a_group_with_a_hole_does_not_exist_now_or_later(missing: int) -> None:
    scribe = Scribe()
    scribe.publish(1, b"one")
    starts = []
    for place in range(3):
        starts.append(len(scribe.data))
        scribe.publish(2 + place, b"part", place=place, ends=place == 2)
    scribe.publish(5, b"five")
    at = starts[missing]
    scribe.data = scribe.data[: at + 4] + b"?" + scribe.data[at + 5 :]
    scribe._save()
    assert scribe.bodies() == [b"one", b"five"]
    harness = StoreHarness(scribe.disk, full_size=FULL)
    harness.reclaims = False
    harness.begin()  # now there is a newer segment
    assert scribe.bodies() == [b"one", b"five"]


def test_in_an_older_segment_a_missing_part_costs_itself() -> None:
    scribe = Scribe()
    for place in range(3):
        scribe.publish(1 + place, b"part %d" % place, place=place, ends=place == 2)
    scribe.disk.put(segment_path(1), scribe.data.replace(b"part 1", b"part ?"))
    scribe.begin()
    assert scribe.bodies() == [b"part 0", b"part 2"]


def test_the_end_of_one_group_and_the_beginning_of_the_next_are_not_one() -> None:
    scribe = Scribe()
    scribe.publish(1, b"a", ends=False)
    scribe.publish(2, b"lost", place=1)
    scribe.publish(3, b"c", ends=False)
    scribe.publish(4, b"d", place=1)
    scribe.data = scribe.data.replace(b"lost", b"????")
    scribe._save()
    assert scribe.bodies() == [b"c", b"d"]


# ---- mending


def test_what_was_believed_is_synced_before_anything_is_built_on_it() -> None:
    """It may have come out of the cache of a system whose process was killed."""
    harness = StoreHarness(full_size=FULL)
    harness.begin()
    queue = harness.declare()
    harness.publish([queue], b"written", synced=False)
    harness.rest()
    recover(harness.disk, {queue}, FULL)
    (path,) = [path for path in harness.disk.files() if path.endswith(".seg")]
    last = [operation for operation in harness.disk.operations if operation.path in (path, "journal")][-2:]
    assert [operation.kind for operation in last] == ["truncate", "sync_folder"]
    assert last[0].size == harness.disk.size(path)


def test_progress_is_told() -> None:
    scribe = Scribe()
    scribe.begin()
    scribe.begin()
    told: list[tuple[int, int]] = []
    recover(scribe.disk, {1}, FULL, progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_damage_on_a_full_disk_does_not_stop_the_start() -> None:
    scribe = Scribe()
    scribe.publish(1, b"spoilt")
    scribe.publish(2, b"sound")
    scribe.disk.put(segment_path(1), scribe.data.replace(b"spoilt", b"??????"))
    scribe.disk.fault = lambda kind, path: OSError(ENOSPC, "full") if "quarantine" in path else None
    assert scribe.bodies() == [b"sound"]


@pytest.mark.parametrize("bytes_", [b"??????", b""])
def test_a_member_of_a_cell_refuses_damage_and_changes_nothing(bytes_: bytes) -> None:
    """In the middle, or at the end: the log has written all of it."""
    scribe = Scribe()
    scribe.publish(1, b"sound")
    scribe.publish(2, b"spoilt")
    damaged = scribe.data.replace(b"spoilt", bytes_)
    scribe.disk.put(segment_path(1), damaged)
    with pytest.raises(DamagedJournal, match=r"1 part\(s\) of its journal are damaged, the first in segment 1"):
        recover(scribe.disk, {1}, FULL, is_member=True)
    assert scribe.disk.content(segment_path(1)) == damaged
    assert scribe.disk.names("quarantine") == []


def test_a_part_that_cannot_be_read_does_not_stop_the_start() -> None:
    """A bad sector: the rest is read block by block."""
    scribe = Scribe()
    scribe.publish(1, b"first")
    scribe.publish(2, b"x" * (3 * 4096))
    scribe.publish(3, b"third")
    scribe.begin()
    disk = BadSector(scribe.disk, segment_path(1), 2 * 4096)
    found = recover(disk, {1}, FULL)  # type: ignore[arg-type]
    assert [(run.sequence, run.number) for run in found.lane(1, 0).index] == [(1, 1), (3, 1)]


class BadSector:
    """A disk of which one place cannot be read."""

    def __init__(self, disk: VirtualDisk, path: str, offset: int) -> None:
        self._disk = disk
        self._path = path
        self._offset = offset

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def read(self, path: str, offset: int, size: int) -> bytes:
        if path == self._path and offset <= self._offset < offset + size:
            raise OSError(EIO, "Input/output error")
        return self._disk.read(path, offset, size)


@pytest.mark.parametrize("size", [1 << 16, 1 << 18])
def test_a_torn_body_full_of_marks_costs_no_time_and_no_neighbour(size: int) -> None:
    """Anybody can send a message that looks like the heads of many long records."""
    fake = b"".join(sealed(PUBLISH, 1, 0, 9, [b""], 1, 0))[:28]
    body = b"".join(fake[:4] + (size - 28 * n).to_bytes(4, "big") + fake[8:] for n in range(1, size // 28))
    for torn in ("end", "head"):
        scribe = Scribe()
        scribe.publish(1, b"before")
        at = len(scribe.data)
        scribe.publish(2, body)
        if torn == "end":
            scribe.data = scribe.data[:-1]
            wanted = [b"before"]
        else:
            scribe.publish(3, b"behind")
            scribe.data = scribe.data[: at + 6] + b"\x99" + scribe.data[at + 7 :]
            wanted = [b"before", b"behind"]
        scribe._save()
        assert scribe.bodies() == wanted


def test_only_names_that_we_make_are_segments() -> None:
    scribe = Scribe()
    scribe.publish(1, b"one")
    for name in ("2.seg", "0000000002.bak", "²000000002.seg", f"{LARGEST_SEGMENT + 1:010d}.seg", "0000000000.seg"):
        scribe.disk.put(f"journal/{name}", b"hello")
    found = scribe.recovered()
    assert (found.next_segment, len(found.segments), found.damages) == (2, 1, [])
