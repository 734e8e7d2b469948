"""What the journal knows about streams."""

from __future__ import annotations

from leveret.store.records import Record, read_publish
from leveret.store.replica_streams import microseconds
from leveret.store.scan import scan
from leveret.store.stream_files import StreamFiles
from tests.support.spies import message
from tests.support.stream_harness import StreamHarness
from tests.support.streams import all_of


def record_times(harness: StreamHarness) -> list[int]:
    """Of each message in the journal."""
    times: list[int] = []
    for name in harness.disk.names("journal"):
        if name.endswith(".seg"):
            data = harness.disk.read(f"journal/{name}", 0, 1 << 20)
            for record in scan(data, int(name[:10]), 32):
                if isinstance(record, Record) and record.kind == 1:
                    published = read_publish(data, record)
                    times += [microseconds(published.time)] * (len(published.contents) - 1)
    return times


def publish(harness: StreamHarness, stream: object, *bodies: bytes) -> None:
    run = [message(body) for body in bodies]
    stream.publish(run, sum(map(len, bodies)), False)  # type: ignore[attr-defined]


def test_messages_of_a_stream_have_the_time_of_their_record() -> None:
    harness = StreamHarness()
    stream = harness.stream()
    clock = harness.clock
    publish(harness, stream, b"a")
    clock.move_to(clock.now() + 0.25)
    publish(harness, stream, b"b")  # the same tick, and the same record
    harness.log.hand_over()
    clock.move_to(clock.now() + 0.25)
    publish(harness, stream, b"c")  # the same tick, another record
    harness.rest()
    clock.move_to(clock.now() + 0.25)
    publish(harness, stream, b"d")
    harness.rest()
    times = [seen.time for seen in all_of(_files(harness, stream.id))]
    assert times == record_times(harness)
    assert [time - times[0] for time in times] == [0, 0, 500_000, 750_000]


def test_large_messages_that_wait_for_the_writer_have_one_time_too() -> None:
    harness = StreamHarness()
    stream = harness.stream()
    harness.log.large = 100
    for n in range(4):
        publish(harness, stream, bytes(200), bytes(n))
        harness.turn()  # the writer is busy: from the second on they wait
        harness.clock.move_to(harness.clock.now() + 0.25)
    harness.rest()
    times = [seen.time for seen in all_of(_files(harness, stream.id))]
    assert times == record_times(harness)
    assert len(set(times)) > 1


def _files(harness: StreamHarness, id_: int) -> StreamFiles:
    files = StreamFiles(harness.disk, id_, 1 << 20)
    files.open()
    return files


def test_files_are_behind_the_journal_until_they_are_synced() -> None:
    harness = StreamHarness()
    stream, streams = harness.stream(), harness.log.streams
    assert streams.are_synced(streams.granted())
    publish(harness, stream, b"a", b"b")
    harness.turn()
    assert streams.granted().get(stream.id, 0) == 0  # not granted yet
    harness.write_journal()
    granted = streams.granted()
    assert granted == {stream.id: 3}
    assert not streams.are_synced(granted)
    harness.rest()
    assert not streams.are_synced(granted)  # written, and not synced
    harness.advance(1.0)
    harness.rest()
    assert streams.are_synced(granted)


def test_a_deleted_stream_has_no_files_to_wait_for() -> None:
    harness = StreamHarness()
    stream, streams = harness.stream(), harness.log.streams
    publish(harness, stream, b"a")
    harness.turn()
    harness.write_journal()
    granted = streams.granted()
    stream.die()
    assert streams.are_synced(granted)
    assert streams.granted() == {}
