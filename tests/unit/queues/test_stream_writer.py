"""From the journal to the files: full and failing disks, syncs, retention, and the end."""

from __future__ import annotations

from errno import EIO, EMFILE, ENOSPC

import pytest

from leveret.queues import stream_writer
from leveret.queues.options import QueueOptions
from leveret.queues.stream import StreamQueue
from leveret.wire.content import body_of
from tests.support.spies import message
from tests.support.stream_house import StreamHouse, numbered, offsets


@pytest.fixture
def house() -> StreamHouse:
    return StreamHouse()


def fail(house: StreamHouse, *kinds: str, errno: int = EIO) -> None:
    """Of the streams' files only: the journal is well."""

    def fault(kind: str, path: str) -> OSError | None:
        return OSError(errno, "it failed", path) if kind in kinds and path.startswith("streams/") else None

    house.disk.fault = fault


def mend(house: StreamHouse) -> None:
    house.disk.fault = lambda kind, path: None


def in_files(stream: StreamQueue) -> list[bytes]:
    runs = stream.files.read(0, 1 << 60, 1 << 30)
    return [body_of(each[0]) for run in runs for each in run.messages]


def test_what_comes_while_the_worker_writes_goes_in_one_write(house: StreamHouse) -> None:
    stream = house.stream()
    for body in numbered(5):
        house.put(stream, message(body, persistent=True))
        house.write_journal()
    assert len(house.stream_jobs) == 1
    house.write_stream()
    assert stream.next_offset == 1
    assert len(house.stream_jobs) == 1
    house.write_stream()
    assert stream.next_offset == 5
    assert stream.writer.is_idle


@pytest.mark.parametrize(("errno", "reason"), [(ENOSPC, "disk full"), (EMFILE, "no file descriptors left")])
def test_a_shortage_is_waited_for(house: StreamHouse, errno: int, reason: str) -> None:
    stream = house.stream()
    reader = house.reader(stream)
    house.publish_all(stream, b"a")
    fail(house, "append", "create", *(["truncate"] if errno == EMFILE else []), errno=errno)
    house.publish_all(stream, b"b")
    assert (stream.next_offset, stream.tail, stream.ready) == (1, 2, 2)
    assert reason in house.alarms["stream 1"], "publishers wait too: what is not written is in memory"
    house.publish_all(stream, b"c")
    house.pass_time(5)
    assert reader.bodies == [b"a"]
    assert stream.writer.failure is None
    mend(house)
    house.pass_time(2)
    assert reader.bodies == [b"a", b"b", b"c"]
    assert offsets(reader) == [0, 1, 2]
    assert not house.alarms
    assert in_files(stream) == [b"a", b"b", b"c"]


def test_a_full_disk_is_not_asked_by_every_publish(house: StreamHouse) -> None:
    stream = house.stream()
    asked = []
    fail(house, "create", errno=ENOSPC)
    usual = house.disk.fault
    house.disk.fault = lambda kind, path: (asked.append(kind) if kind == "create" else None) or usual(kind, path)
    for body in numbered(20):
        house.publish_all(stream, body)
    assert len(asked) == 1
    house.pass_time(1.0)
    assert len(asked) == 2


def test_a_short_write_leaves_no_half_message(house: StreamHouse) -> None:
    stream = house.stream()
    house.publish_all(stream, b"a")
    house.put(stream, message(b"b" * 5000, persistent=True))
    house.write_journal()
    house.disk.capacity = house.disk.used + 1000
    house.rest()
    assert stream.next_offset == 1
    house.disk.capacity = None
    house.pass_time(1.0)
    assert in_files(stream) == [b"a", b"b" * 5000]


def test_a_failing_disk_ends_the_writing_and_the_journal_keeps_the_rest(house: StreamHouse) -> None:
    stream = house.stream()
    reader = house.reader(stream)
    house.publish_all(stream, b"a")
    house.pass_time(1.0)
    fail(house, "append")
    house.publish_all(stream, b"b")
    assert stream.writer.failure is not None
    assert "cannot be written" in house.alarms["stream 1"]
    mend(house)
    house.publish_all(stream, b"c")
    house.pass_time(60)
    assert reader.bodies == [b"a"]
    assert not house.stream_jobs
    assert house.store.pages.next_sequence(stream.id, 0, 0) == 2, "what is confirmed waits in the journal"


def test_a_sync_that_failed_settles_nothing(house: StreamHouse) -> None:
    stream = house.stream()
    house.publish_all(stream, b"a")
    fail(house, "sync", errno=ENOSPC)
    house.pass_time(1.0)
    assert stream.writer.failure is not None, "nobody knows what is on disk: that is no want of room"
    mend(house)
    house.pass_time(10)
    assert house.store.pages.next_sequence(stream.id, 0, 0) == 1


def test_much_is_synced_at_once(house: StreamHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "SYNC_BYTES", 10_000)
    stream = house.stream()
    house.publish_all(stream, bytes(5000))
    assert house.store.pages.next_sequence(stream.id, 0, 0) == 1
    house.publish_all(stream, bytes(6000))
    assert house.store.pages.next_sequence(stream.id, 0, 0) is None


def test_a_worker_that_is_slow_loses_nothing(house: StreamHouse) -> None:
    """Writes and syncs end in the order in which they began, whatever comes between."""
    stream = house.stream()
    for body in numbered(30):
        house.put(stream, message(body, persistent=True))
        house.write_journal()
        house.timers.advance(0.3, house.turn)
        if int(body) % 3 == 0:
            house.write_stream()
    house.rest()
    house.pass_time(1.0)
    assert in_files(stream) == numbered(30)
    assert house.store.pages.next_sequence(stream.id, 0, 0) is None


# ---- retention


def fill(house: StreamHouse, stream: StreamQueue, number: int, size: int = 1000) -> None:
    for each in range(number):
        house.publish_all(stream, b"%04d" % each + bytes(size))


def test_the_oldest_segments_go_when_there_are_too_many_bytes(house: StreamHouse) -> None:
    stream = house.stream(max_length_bytes=20_000, stream_max_segment_size_bytes=5000)
    fill(house, stream, 100)
    assert stream.files.bytes <= 20_000 + 5000 + 2000
    assert 70 < stream.first_offset < 90
    assert stream.next_offset == 100
    assert stream.ready == 100 - stream.first_offset


def test_old_segments_go_also_when_nothing_comes(house: StreamHouse) -> None:
    stream = house.stream(max_age="1h", stream_max_segment_size_bytes=5000)
    fill(house, stream, 20)
    house.pass_time(1800)
    fill(house, stream, 20)
    assert stream.first_offset == 0
    house.pass_time(1900)
    assert 15 <= stream.first_offset <= 20
    house.pass_time(7200)
    assert stream.next_offset == 40
    assert 0 < stream.ready <= 5, "the last segment stays"


def test_a_new_limit_holds_at_once(house: StreamHouse) -> None:
    stream = house.stream(stream_max_segment_size_bytes=5000)
    fill(house, stream, 50)
    assert stream.first_offset == 0
    stream.apply(QueueOptions(kind="stream", max_bytes=10_000))
    house.rest()
    assert stream.first_offset > 30
    stream.apply(QueueOptions(kind="stream"))
    fill(house, stream, 50)
    before = stream.first_offset
    house.pass_time(7200)
    assert stream.first_offset == before
    stream.apply(QueueOptions(kind="stream", max_age=60.0))
    house.rest()
    assert stream.first_offset > before


# ---- the end


def test_nothing_is_handed_to_the_worker_after_the_end(house: StreamHouse) -> None:
    """What was on its way is in the journal: the next life finds it there."""
    stream = house.stream(max_age="1h")
    house.publish_all(stream, b"a")
    house.put(stream, message(b"b", persistent=True))
    house.write_journal()
    assert len(house.stream_jobs) == 1
    house.put(stream, message(b"c", persistent=True))
    house.write_journal()
    stream.close()
    house.write_stream()
    house.rest()
    house.pass_time(600)
    assert not house.stream_jobs
    assert in_files(stream) == [b"a", b"b"]
    assert house.store.pages.next_sequence(stream.id, 0, 3) == 3


def test_a_stream_that_dies_takes_its_alarm_with_it(house: StreamHouse) -> None:
    stream = house.stream()
    fail(house, "create", errno=ENOSPC)
    house.publish_all(stream, b"a")
    assert house.alarms
    stream.die()
    assert not house.alarms
    mend(house)
    house.pass_time(5)
    assert not house.alarms
    assert not house.disk.names("streams/1")
