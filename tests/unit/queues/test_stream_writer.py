"""From the journal to the files: full and failing disks, syncs, retention, and the end."""

from __future__ import annotations

from errno import EIO, EMFILE, ENOSPC

import pytest

from leveret.queues import stream_writer
from leveret.queues.options import QueueOptions
from leveret.queues.stream import StreamQueue
from leveret.wire.content import body_of
from tests.support.spies import message
from tests.support.stream_harness import StreamHarness, numbered, offsets


@pytest.fixture
def harness() -> StreamHarness:
    return StreamHarness()


def fail(harness: StreamHarness, *kinds: str, errno: int = EIO) -> None:
    """Of the streams' files only: the journal is well."""

    def fault(kind: str, path: str) -> OSError | None:
        return OSError(errno, "it failed", path) if kind in kinds and path.startswith("streams/") else None

    harness.disk.fault = fault


def mend(harness: StreamHarness) -> None:
    harness.disk.fault = lambda kind, path: None


def in_files(stream: StreamQueue) -> list[bytes]:
    runs = stream.files.read(0, 1 << 60, 1 << 30)
    return [body_of(each[0]) for run in runs for each in run.messages]


def test_what_comes_while_the_worker_writes_goes_in_one_write(harness: StreamHarness) -> None:
    stream = harness.stream()
    for body in numbered(5):
        harness.put(stream, message(body, persistent=True))
        harness.write_journal()
    assert len(harness.stream_jobs) == 1
    harness.write_stream()
    assert stream.next_offset == 1
    assert len(harness.stream_jobs) == 1
    harness.write_stream()
    assert stream.next_offset == 5
    assert stream.writer.is_idle


@pytest.mark.parametrize(("errno", "reason"), [(ENOSPC, "disk full"), (EMFILE, "no file descriptors left")])
def test_a_shortage_is_waited_for(harness: StreamHarness, errno: int, reason: str) -> None:
    stream = harness.stream()
    reader = harness.reader(stream)
    harness.publish_all(stream, b"a")
    fail(harness, "append", "create", *(["truncate"] if errno == EMFILE else []), errno=errno)
    harness.publish_all(stream, b"b")
    assert (stream.next_offset, stream.tail, stream.ready) == (1, 2, 2)
    assert reason in harness.alarms["stream 1"], "publishers wait too: what is not written is in memory"
    harness.publish_all(stream, b"c")
    harness.pass_time(5)
    assert reader.bodies == [b"a"]
    assert stream.writer.failure is None
    mend(harness)
    harness.pass_time(2)
    assert reader.bodies == [b"a", b"b", b"c"]
    assert offsets(reader) == [0, 1, 2]
    assert not harness.alarms
    assert in_files(stream) == [b"a", b"b", b"c"]


def test_a_full_disk_is_not_asked_by_every_publish(harness: StreamHarness) -> None:
    stream = harness.stream()
    asked = []
    fail(harness, "create", errno=ENOSPC)
    usual = harness.disk.fault
    harness.disk.fault = lambda kind, path: (asked.append(kind) if kind == "create" else None) or usual(kind, path)
    for body in numbered(20):
        harness.publish_all(stream, body)
    assert len(asked) == 1
    harness.pass_time(1.0)
    assert len(asked) == 2


def test_a_short_write_leaves_no_half_message(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, b"a")
    harness.put(stream, message(b"b" * 5000, persistent=True))
    harness.write_journal()
    harness.disk.capacity = harness.disk.used + 1000
    harness.rest()
    assert stream.next_offset == 1
    harness.disk.capacity = None
    harness.pass_time(1.0)
    assert in_files(stream) == [b"a", b"b" * 5000]


def test_a_failing_disk_ends_the_writing_and_the_journal_keeps_the_rest(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream)
    harness.publish_all(stream, b"a")
    harness.pass_time(1.0)
    fail(harness, "append")
    harness.publish_all(stream, b"b")
    assert stream.writer.failure is not None
    assert "cannot be written" in harness.alarms["stream 1"]
    mend(harness)
    harness.publish_all(stream, b"c")
    harness.pass_time(60)
    assert reader.bodies == [b"a"]
    assert not harness.stream_jobs
    assert harness.store.pages.next_sequence(stream.id, 0, 0) == 2, "what is confirmed waits in the journal"


def test_a_sync_that_failed_settles_nothing(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, b"a")
    fail(harness, "sync", errno=ENOSPC)
    harness.pass_time(1.0)
    assert stream.writer.failure is not None, "nobody knows what is on disk: that is no want of room"
    mend(harness)
    harness.pass_time(10)
    assert harness.store.pages.next_sequence(stream.id, 0, 0) == 1


def test_much_is_synced_at_once(harness: StreamHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "SYNC_BYTES", 10_000)
    stream = harness.stream()
    harness.publish_all(stream, bytes(5000))
    assert harness.store.pages.next_sequence(stream.id, 0, 0) == 1
    harness.publish_all(stream, bytes(6000))
    assert harness.store.pages.next_sequence(stream.id, 0, 0) is None


def test_a_worker_that_is_slow_loses_nothing(harness: StreamHarness) -> None:
    """Writes and syncs end in the order in which they began, whatever comes between."""
    stream = harness.stream()
    for body in numbered(30):
        harness.put(stream, message(body, persistent=True))
        harness.write_journal()
        harness.timers.advance(0.3, harness.turn)
        if int(body) % 3 == 0:
            harness.write_stream()
    harness.rest()
    harness.pass_time(1.0)
    assert in_files(stream) == numbered(30)
    assert harness.store.pages.next_sequence(stream.id, 0, 0) is None


# ---- retention


def fill(harness: StreamHarness, stream: StreamQueue, number: int, size: int = 1000) -> None:
    for each in range(number):
        harness.publish_all(stream, b"%04d" % each + bytes(size))


def test_the_oldest_segments_go_when_there_are_too_many_bytes(harness: StreamHarness) -> None:
    stream = harness.stream(max_length_bytes=20_000, stream_max_segment_size_bytes=5000)
    fill(harness, stream, 100)
    assert stream.files.bytes <= 20_000 + 5000 + 2000
    assert 70 < stream.first_offset < 90
    assert stream.next_offset == 100
    assert stream.ready == 100 - stream.first_offset


def test_old_segments_go_also_when_nothing_comes(harness: StreamHarness) -> None:
    stream = harness.stream(max_age="1h", stream_max_segment_size_bytes=5000)
    fill(harness, stream, 20)
    harness.pass_time(1800)
    fill(harness, stream, 20)
    assert stream.first_offset == 0
    harness.pass_time(1900)
    assert 15 <= stream.first_offset <= 20
    harness.pass_time(7200)
    assert stream.next_offset == 40
    assert 0 < stream.ready <= 5, "the last segment stays"


def test_a_new_limit_holds_at_once(harness: StreamHarness) -> None:
    stream = harness.stream(stream_max_segment_size_bytes=5000)
    fill(harness, stream, 50)
    assert stream.first_offset == 0
    stream.apply(QueueOptions(kind="stream", max_bytes=10_000))
    harness.rest()
    assert stream.first_offset > 30
    stream.apply(QueueOptions(kind="stream"))
    fill(harness, stream, 50)
    before = stream.first_offset
    harness.pass_time(7200)
    assert stream.first_offset == before
    stream.apply(QueueOptions(kind="stream", max_age=60.0))
    harness.rest()
    assert stream.first_offset > before


# ---- the end


def test_nothing_is_handed_to_the_worker_after_the_end(harness: StreamHarness) -> None:
    """What was on its way is in the journal: the next life finds it there."""
    stream = harness.stream(max_age="1h")
    harness.publish_all(stream, b"a")
    harness.put(stream, message(b"b", persistent=True))
    harness.write_journal()
    assert len(harness.stream_jobs) == 1
    harness.put(stream, message(b"c", persistent=True))
    harness.write_journal()
    stream.close()
    harness.write_stream()
    harness.rest()
    harness.pass_time(600)
    assert not harness.stream_jobs
    assert in_files(stream) == [b"a", b"b"]
    assert harness.store.pages.next_sequence(stream.id, 0, 3) == 3


def test_a_stream_that_dies_takes_its_alarm_with_it(harness: StreamHarness) -> None:
    stream = harness.stream()
    fail(harness, "create", errno=ENOSPC)
    harness.publish_all(stream, b"a")
    assert harness.alarms
    stream.die()
    assert not harness.alarms
    mend(harness)
    harness.pass_time(5)
    assert not harness.alarms
    assert not harness.disk.names("streams/1")
