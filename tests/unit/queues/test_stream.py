"""A stream: what it keeps and shows, from the publish to the files."""

from __future__ import annotations

import pytest

from leveret.broker.publishes import write_run
from leveret.errors import PreconditionFailed, Unsupported
from leveret.store.log import Placement
from leveret.wire.content import body_of
from tests.support.spies import QueueHarness, SpyConsumer, SpyLog, message, messages, size_of
from tests.support.stream_harness import StreamHarness, numbered, offsets


@pytest.fixture
def harness() -> StreamHarness:
    return StreamHarness()


def test_messages_stay_when_they_are_read_and_acked(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, b"a", b"b", b"c")
    for _ in range(2):
        reader = harness.reader(stream, offset="first")
        harness.rest()
        assert reader.bodies == [b"a", b"b", b"c"]
        assert offsets(reader) == [0, 1, 2]
        for body in (b"a", b"b", b"c"):
            reader.ack(body)
        stream.remove_consumer(reader)
    assert stream.ready == 3
    assert stream.unacked == 0


def test_nobody_sees_what_the_journal_has_not_granted(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream, offset="first")
    harness.put(stream, *messages(b"a"))
    assert (stream.tail, stream.next_offset, stream.ready, reader.bodies) == (1, 0, 0, [])
    assert not harness.stream_jobs, "nothing is written before it is granted"
    harness.write_journal()
    assert (stream.next_offset, stream.ready, reader.bodies) == (0, 1, []), "confirmed, and not readable yet"
    harness.write_stream()
    assert (stream.next_offset, stream.ready, reader.bodies) == (1, 1, [b"a"])


def test_a_run_is_seen_as_soon_as_its_own_receipt_is_granted(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream)
    harness.put(stream, *messages(b"a"))
    harness.put(stream, *messages(b"b"))
    batches = harness.store.batches
    late = batches.pop()
    harness.write_journal()
    harness.write_stream()
    assert reader.bodies == [b"a"]
    batches.append(late)
    harness.rest()
    assert reader.bodies == [b"a", b"b"]


def test_transient_messages_are_kept_too_and_have_a_receipt(harness: StreamHarness) -> None:
    stream = harness.stream()
    run = messages(b"passing")
    receipt = write_run([stream], harness.log, run, size_of(run), False)
    assert receipt > harness.log.granted
    harness.rest()
    assert harness.log.granted >= receipt
    reader = harness.reader(stream, offset="first")
    harness.rest()
    assert reader.bodies == [b"passing"]


def test_who_publishes_without_waiting_for_the_log_is_written_all_the_same(harness: StreamHarness) -> None:
    stream = harness.stream()
    run = messages(b"m")
    stream.publish(run, size_of(run), False)
    harness.rest()
    assert stream.next_offset == 1


def test_a_stream_and_a_classic_queue_share_one_write(harness: StreamHarness) -> None:
    log = SpyLog()
    harness.context.log = log
    stream, classic = harness.stream(), harness.queue("c", durable=True)
    run = [message(b"m", persistent=True)]
    write_run([stream, classic], log, run, size_of(run), False)
    assert log.appended == [([b"m"], [Placement(stream.id, 0, 1, 1), Placement(classic.id, 0, 1, 1, 0)])]
    passing = messages(b"t")
    write_run([stream, classic], log, passing, size_of(passing), False)
    assert log.appended[1:] == [([b"t"], [Placement(stream.id, 0, 2, 1)])], "the classic queue only keeps it in memory"
    assert classic.ready == 2


def test_the_journal_lets_go_of_what_the_files_have_synced(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, *numbered(10))
    assert harness.store.pages.next_sequence(stream.id, 0, 0) == 1
    harness.pass_time(1.0)
    assert harness.store.pages.next_sequence(stream.id, 0, 0) is None
    assert body_of(stream.files.read(9, 10, 1)[0].messages[0][0]) == b"9"


def test_counters_tell_what_came_and_went(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream, 2)
    harness.publish_all(stream, b"a", b"b", b"c")
    reader.ack(b"a")
    harness.rest()
    counters = stream.counters
    assert (counters.received, counters.delivered, counters.acked, stream.unacked) == (3, 3, 1, 2)
    assert stream.tail == counters.received


def test_memory_is_counted_and_given_back(harness: StreamHarness) -> None:
    stream, gauge = harness.stream(), harness.gauge
    harness.put(stream, *messages(b"x" * 1000))
    assert gauge.used >= 1000, "it waits for the log in memory"
    harness.rest()
    assert gauge.used == 0, "nobody reads: nothing is held"
    reader = harness.reader(stream, offset="first")
    harness.rest()
    assert gauge.used >= 1000, "unacked"
    reader.ack(b"x" * 1000)
    stream.remove_consumer(reader)
    harness.rest()
    assert gauge.used == 0


def test_recent_messages_are_dropped_when_memory_is_short(harness: StreamHarness) -> None:
    stream, gauge = harness.stream(), harness.gauge
    reader = harness.reader(stream, 1)
    harness.publish_all(stream, *[b"%d" % n + bytes(1000) for n in range(10)])
    before = gauge.used
    gauge.is_short = True
    stream.touch()
    harness.turn()
    assert 0 < gauge.used < before - 5000
    for number in range(10):
        reader.ack(b"%d" % number + bytes(1000))
        harness.rest()
    assert len(offsets(reader)) == 0
    assert gauge.used >= 0


def test_a_stream_without_a_disk_counts_its_files_as_memory() -> None:
    from leveret.store.memory_disk import MemoryDisk

    harness = QueueHarness()
    harness.context.stream_disk = MemoryDisk()
    stream = StreamHarness.stream(harness)  # type: ignore[arg-type]
    reader = SpyConsumer("spy", stream, 10, arguments={"x-stream-offset": "first"})
    stream.add_consumer(reader)
    run = messages(b"a" * 5000, b"b")
    write_run([stream], harness.log, run, size_of(run), False)
    harness.turn()
    assert reader.bodies == [b"a" * 5000, b"b"]
    assert harness.gauge.used > 10_000, "in the file, and in the reader's hands"
    reader.ack(b"b")
    reader.ack(b"a" * 5000)
    stream.remove_consumer(reader)
    harness.turn()
    assert 5000 < harness.gauge.used < 6000
    stream.die()
    assert harness.gauge.used == 0


def test_get_and_purge_are_refused(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, b"m")
    with pytest.raises(Unsupported, match=r"basic\.get not supported by stream queues queue 's' in vhost '/'"):
        stream.get(no_ack=False)
    with pytest.raises(Unsupported, match=r"queue\.purge not supported by stream queues queue 's' in vhost '/'"):
        stream.purge()
    assert stream.ready == 1
    assert not stream.when_loaded(lambda: None)


def test_who_reads_has_to_bound_what_it_holds_and_to_ack(harness: StreamHarness) -> None:
    stream = harness.stream()
    with pytest.raises(PreconditionFailed, match="prefetch count is not set for stream queue 's' in vhost '/'"):
        stream.add_consumer(SpyConsumer("spy", stream))
    with pytest.raises(Unsupported, match="automatic acknowledgement not supported by stream queue 's'"):
        stream.add_consumer(SpyConsumer("spy", stream, 10, no_ack=True))
    assert len(stream.consumers) == 0


def test_a_stream_that_died_takes_nothing_more(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream)
    harness.publish_all(stream, b"a")
    harness.put(stream, *messages(b"waits"))
    assert stream.die() == 1
    assert reader.cancelled == 1
    assert harness.gauge.used == 0
    run = messages(b"late")
    assert write_run([stream], harness.log, run, size_of(run), False) == 0
    reader.ack(b"a")
    harness.rest()
    assert stream.unacked == 0
    assert harness.gauge.used == 0
    assert not harness.disk.names("streams/1"), "its files went with it"


def test_a_paused_stream_takes_messages_and_gives_none(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream)
    stream.consumers.paused = True
    harness.publish_all(stream, b"a")
    assert (stream.ready, reader.bodies) == (1, [])
    stream.consumers.paused = False
    stream.touch()
    harness.rest()
    assert reader.bodies == [b"a"]


def test_observers_are_told_after_each_drain(harness: StreamHarness) -> None:
    stream = harness.stream()
    seen: list[int] = []
    stream.observers.append(lambda queue: seen.append(queue.ready))
    harness.publish_all(stream, b"a", b"b")
    assert seen[-1] == 2


def test_counting_delivers_first_what_is_due(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, b"a")
    reader = harness.reader(stream, offset="last")
    assert stream.dirty
    stream.settle_down()
    harness.read()
    assert reader.bodies == [b"a"]
    stream.touch()
    stream.catch_up()
    assert stream.dirty
    harness.rest()
