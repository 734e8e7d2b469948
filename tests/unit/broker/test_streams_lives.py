"""Streams through clean stops and power cuts, and how they end."""

from __future__ import annotations

import pytest

from leveret.queues.stream import StreamQueue
from leveret.store.stream_files import left_streams
from leveret.wire.methods import (
    BasicCancel,
    QueueDelete,
    QueueDeleteOk,
)
from tests.support.peer_pair import Content
from tests.support.spies import messages, size_of
from tests.support.stored_harness import StoredHarness
from tests.support.stream_clients import STREAM, declare, pairs, read, stream_of
from tests.support.stream_harness import numbered


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


# ---- lives


def test_everything_is_there_after_a_clean_stop(harness: StoredHarness) -> None:
    declare(client := harness.client())
    client.publish("s", *numbered(20))
    harness = harness.stopped().again()
    assert harness.restored == 20
    assert read(harness) == pairs(20)
    harness.client().publish("s", b"20")
    assert read(harness, offset=19) == [(19, b"19"), (20, b"20")]


@pytest.mark.parametrize("image", range(6))
def test_what_is_confirmed_is_there_after_a_power_cut(harness: StoredHarness, image: int) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(10))
    harness.is_slow = True
    client.publish("s", *numbered(10, 10))
    harness.write()  # granted, and not in the files of the stream
    harness = harness.crashed(image=image).again()
    assert read(harness) == pairs(20)
    harness.client().publish("s", b"20")
    assert read(harness) == pairs(21)


@pytest.mark.parametrize("image", range(6))
def test_a_power_cut_between_the_files_and_their_sync(harness: StoredHarness, image: int) -> None:
    client = harness.client()
    declare(client)
    for body in numbered(10):
        client.publish("s", body)
    assert stream_of(harness).next_offset == 10
    life = harness.crashed(image=image)
    for _ in range(3):  # and again, before the first has come to rest
        harness = life.again()
        assert read(harness) == pairs(10)
        life = harness.crashed(image=image)


def test_the_journal_need_not_keep_what_was_written_before_the_stop(harness: StoredHarness) -> None:
    declare(client := harness.client())
    client.publish("s", *numbered(10))
    harness = harness.crashed(image=0).again()
    assert harness.waiting_on_disk("s") == []
    assert read(harness.crashed().again()) == pairs(10)


def test_what_comes_before_the_left_ones_are_loaded_comes_behind_them(harness: StoredHarness) -> None:
    """A dead letter, say: it is published while the stream still waits for the journal."""
    client = harness.client()
    declare(client)
    harness.vhost.declare_queue(
        "dies",
        durable=True,
        arguments={
            "x-message-ttl": 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "s",
        },
    )
    client.publish("dies", b"dead", delivery_mode=2)
    harness.is_slow = True
    client.publish("s", *numbered(5))
    harness.write()
    life = harness.crashed(seconds=10)
    harness = BusyHarness(life.disk, wall=life.wall, **life.settings)
    assert read(harness) == [*pairs(5), (5, b"dead")]
    assert read(harness.crashed().again()) == [*pairs(5), (5, b"dead")]


class BusyHarness(StoredHarness):
    """Takes turns, and writes, before what an earlier life left is loaded."""

    def _load_left(self) -> None:
        for _ in range(5):
            self.broker.tick()
            self.store.read()
            self.store.write()
        assert harness_tail(self) == 6, "the dead letter has come"
        super()._load_left()


def harness_tail(harness: StoredHarness) -> int:
    queue = harness.broker.vhost("/").queues["s"]
    assert isinstance(queue, StreamQueue)
    return queue.tail


def test_offsets_of_deleted_segments_are_not_used_again(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client, stream_max_segment_size_bytes=4096, max_length_bytes=5000)
    for number in range(30):
        client.publish("s", b"%d" % number + bytes(1000))
    first = stream_of(harness).first_offset
    assert first > 20
    harness = harness.stopped().again()
    assert stream_of(harness).first_offset == first
    assert stream_of(harness).tail == 30
    assert [offset for offset, _ in read(harness)] == list(range(first, 30))


def test_named_readers_go_on_after_a_stop_and_after_a_power_cut(harness: StoredHarness) -> None:
    declare(client := harness.client())
    client.publish("s", *numbered(10))
    assert read(harness, prefetch=4, consumer="c") == pairs(4)
    assert read(harness, prefetch=4, consumer="c", ack=True) == pairs(4), "it acked nothing before"
    harness = harness.stopped().again()
    assert read(harness, prefetch=3, consumer="c", ack=True) == pairs(3, 4)
    harness = harness.crashed().again()
    assert read(harness, consumer="c") == pairs(3, 7)


def test_a_power_cut_costs_at_most_the_acks_of_the_last_moment(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(10))
    client.qos(100)
    client.consume("s", arguments={"x-stream-offset": "first", "x-stream-consumer": "c"})
    tags = [what.tag for what in client.heard() if isinstance(what, Content)]
    client.ack(tags[3], multiple=True)
    harness.advance(1.0)
    harness.work()
    client.ack(tags[6], multiple=True)
    harness = harness.crashed().again()
    assert read(harness, consumer="c") == pairs(6, 4)


def test_a_cancelled_reader_may_still_ack(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(4))
    client.qos(100)
    client.consume("s", arguments={"x-stream-offset": "first", "x-stream-consumer": "c"})
    tags = [what.tag for what in client.heard() if isinstance(what, Content)]
    client.ask(BasicCancel("tag"))
    client.ack(tags[2], multiple=True)
    client.vanish()
    harness.advance(1.0)
    assert harness.vhost.stream_offsets.get("s", "c") == 3


def test_what_is_damaged_in_the_journal_is_passed_over(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", b"first")
    harness.is_slow = True
    client.publish("s", b"damaged")
    harness.write()
    life = harness.crashed(image=0)
    path = next(path for path, data in life.disk.files().items() if b"damaged" in data)
    life.disk.put(path, life.disk.content(path).replace(b"damaged", b"d?maged"))
    harness = life.again()
    reader = harness.client()
    reader.qos(10)
    reader.consume("s", arguments={"x-stream-offset": "first"})
    harness.client().publish("s", b"more")
    found = [what.body for what in reader.heard() if isinstance(what, Content)]
    assert found == [b"first", b"more"]
    seen: list[int] = []
    stream_of(harness).when_visible(lambda: seen.append(1))
    assert seen, "nobody waits for what is lost"


# ---- deleting


def test_a_deleted_stream_takes_its_files_and_offsets_with_it(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(5))
    read(harness, consumer="c", pinned=True)
    assert left_streams(harness.disk) == [stream_of(harness).id]
    answer = client.ask(QueueDelete("s"))
    assert isinstance(answer, QueueDeleteOk)
    assert answer.message_count == 5
    harness.rest()
    assert left_streams(harness.disk) == []
    assert harness.vhost.stream_offsets.list() == []
    declare(client)
    assert read(harness) == []
    assert read(harness.stopped().again()) == []


def test_its_files_stay_until_the_deletion_is_on_disk(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(5))
    harness.advance(1.0)
    assert harness.waiting_on_disk("s") == [], "only the files have them"
    harness.is_slow = True
    client.send(QueueDelete("s"))
    while harness.write_stream():
        pass
    again = harness.crashed(image=0).again()
    assert read(again) == pairs(5)
    harness.write()
    harness = harness.crashed(image=0).again()
    assert "s" not in harness.vhost.queues
    assert left_streams(harness.disk) == [], "what a crash left of it is removed by the next start"


def test_files_of_a_stream_that_cannot_be_restored_are_left_alone(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(5))
    life = harness.stopped()
    key, row = next(pair for pair in life.disk.rows.items() if getattr(pair[1], "name", None) == "s")
    life.disk.rows[key] = row._replace(vhost="gone")  # type: ignore[call-arg]
    harness = life.again()
    assert len(left_streams(harness.disk)) == 1


def test_deleting_only_if_it_is_empty_or_unused(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", b"m")
    client.send(QueueDelete("s", if_empty=True))
    assert client.error()[0] == 406
    client = harness.client()
    client.qos(1)
    client.consume("s")
    other = harness.client()
    other.send(QueueDelete("s", if_unused=True))
    assert other.error()[0] == 406
    declare(harness.client(), "empty")
    assert isinstance(harness.client().ask(QueueDelete("empty", if_empty=True)), QueueDeleteOk)


def test_a_deleted_virtual_host_takes_its_streams_with_it(harness: StoredHarness) -> None:
    vhost = harness.broker.add_vhost("other")
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    queue = vhost.queues["s"]
    run = messages(b"m")
    queue.publish(run, size_of(run), False)
    harness.turn()
    assert left_streams(harness.disk)
    harness.broker.delete_vhost("other")
    harness.turn()
    assert left_streams(harness.disk) == []
