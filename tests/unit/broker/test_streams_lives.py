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
from tests.support.stored_house import StoredHouse
from tests.support.stream_clients import STREAM, declare, pairs, read, stream_of
from tests.support.stream_house import numbered


@pytest.fixture
def house() -> StoredHouse:
    return StoredHouse()


# ---- lives


def test_everything_is_there_after_a_clean_stop(house: StoredHouse) -> None:
    declare(client := house.client())
    client.publish("s", *numbered(20))
    house = house.stopped().again()
    assert house.restored == 20
    assert read(house) == pairs(20)
    house.client().publish("s", b"20")
    assert read(house, offset=19) == [(19, b"19"), (20, b"20")]


@pytest.mark.parametrize("image", range(6))
def test_what_is_confirmed_is_there_after_a_power_cut(house: StoredHouse, image: int) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(10))
    house.is_slow = True
    client.publish("s", *numbered(10, 10))
    house.write()  # granted, and not in the files of the stream
    house = house.crashed(image=image).again()
    assert read(house) == pairs(20)
    house.client().publish("s", b"20")
    assert read(house) == pairs(21)


@pytest.mark.parametrize("image", range(6))
def test_a_power_cut_between_the_files_and_their_sync(house: StoredHouse, image: int) -> None:
    client = house.client()
    declare(client)
    for body in numbered(10):
        client.publish("s", body)
    assert stream_of(house).next_offset == 10
    life = house.crashed(image=image)
    for _ in range(3):  # and again, before the first has come to rest
        house = life.again()
        assert read(house) == pairs(10)
        life = house.crashed(image=image)


def test_the_journal_need_not_keep_what_was_written_before_the_stop(house: StoredHouse) -> None:
    declare(client := house.client())
    client.publish("s", *numbered(10))
    house = house.crashed(image=0).again()
    assert house.waiting_on_disk("s") == []
    assert read(house.crashed().again()) == pairs(10)


def test_what_comes_before_the_left_ones_are_loaded_comes_behind_them(house: StoredHouse) -> None:
    """A dead letter, say: it is published while the stream still waits for the journal."""
    client = house.client()
    declare(client)
    house.vhost.declare_queue(
        "dies",
        durable=True,
        arguments={
            "x-message-ttl": 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "s",
        },
    )
    client.publish("dies", b"dead", delivery_mode=2)
    house.is_slow = True
    client.publish("s", *numbered(5))
    house.write()
    life = house.crashed(seconds=10)
    house = BusyHouse(life.disk, wall=life.wall, **life.settings)
    assert read(house) == [*pairs(5), (5, b"dead")]
    assert read(house.crashed().again()) == [*pairs(5), (5, b"dead")]


class BusyHouse(StoredHouse):
    """Takes turns, and writes, before what an earlier life left is loaded."""

    def _load_left(self) -> None:
        for _ in range(5):
            self.broker.tick()
            self.store.read()
            self.store.write()
        assert house_tail(self) == 6, "the dead letter has come"
        super()._load_left()


def house_tail(house: StoredHouse) -> int:
    queue = house.broker.vhost("/").queues["s"]
    assert isinstance(queue, StreamQueue)
    return queue.tail


def test_offsets_of_deleted_segments_are_not_used_again(house: StoredHouse) -> None:
    client = house.client()
    declare(client, stream_max_segment_size_bytes=4096, max_length_bytes=5000)
    for number in range(30):
        client.publish("s", b"%d" % number + bytes(1000))
    first = stream_of(house).first_offset
    assert first > 20
    house = house.stopped().again()
    assert stream_of(house).first_offset == first
    assert stream_of(house).tail == 30
    assert [offset for offset, _ in read(house)] == list(range(first, 30))


def test_named_readers_go_on_after_a_stop_and_after_a_power_cut(house: StoredHouse) -> None:
    declare(client := house.client())
    client.publish("s", *numbered(10))
    assert read(house, prefetch=4, consumer="c") == pairs(4)
    assert read(house, prefetch=4, consumer="c", ack=True) == pairs(4), "it acked nothing before"
    house = house.stopped().again()
    assert read(house, prefetch=3, consumer="c", ack=True) == pairs(3, 4)
    house = house.crashed().again()
    assert read(house, consumer="c") == pairs(3, 7)


def test_a_power_cut_costs_at_most_the_acks_of_the_last_moment(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(10))
    client.qos(100)
    client.consume("s", arguments={"x-stream-offset": "first", "x-stream-consumer": "c"})
    tags = [what.tag for what in client.heard() if isinstance(what, Content)]
    client.ack(tags[3], multiple=True)
    house.advance(1.0)
    house.work()
    client.ack(tags[6], multiple=True)
    house = house.crashed().again()
    assert read(house, consumer="c") == pairs(6, 4)


def test_a_cancelled_reader_may_still_ack(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(4))
    client.qos(100)
    client.consume("s", arguments={"x-stream-offset": "first", "x-stream-consumer": "c"})
    tags = [what.tag for what in client.heard() if isinstance(what, Content)]
    client.ask(BasicCancel("tag"))
    client.ack(tags[2], multiple=True)
    client.vanish()
    house.advance(1.0)
    assert house.vhost.stream_offsets.get("s", "c") == 3


def test_what_is_damaged_in_the_journal_is_passed_over(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", b"first")
    house.is_slow = True
    client.publish("s", b"damaged")
    house.write()
    life = house.crashed(image=0)
    path = next(path for path, data in life.disk.files().items() if b"damaged" in data)
    life.disk.put(path, life.disk.content(path).replace(b"damaged", b"d?maged"))
    house = life.again()
    reader = house.client()
    reader.qos(10)
    reader.consume("s", arguments={"x-stream-offset": "first"})
    house.client().publish("s", b"more")
    found = [what.body for what in reader.heard() if isinstance(what, Content)]
    assert found == [b"first", b"more"]
    seen: list[int] = []
    stream_of(house).when_visible(lambda: seen.append(1))
    assert seen, "nobody waits for what is lost"


# ---- deleting


def test_a_deleted_stream_takes_its_files_and_offsets_with_it(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(5))
    read(house, consumer="c", pinned=True)
    assert left_streams(house.disk) == [stream_of(house).id]
    answer = client.ask(QueueDelete("s"))
    assert isinstance(answer, QueueDeleteOk)
    assert answer.message_count == 5
    house.rest()
    assert left_streams(house.disk) == []
    assert house.vhost.stream_offsets.list() == []
    declare(client)
    assert read(house) == []
    assert read(house.stopped().again()) == []


def test_its_files_stay_until_the_deletion_is_on_disk(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(5))
    house.advance(1.0)
    assert house.waiting_on_disk("s") == [], "only the files have them"
    house.is_slow = True
    client.send(QueueDelete("s"))
    while house.write_stream():
        pass
    again = house.crashed(image=0).again()
    assert read(again) == pairs(5)
    house.write()
    house = house.crashed(image=0).again()
    assert "s" not in house.vhost.queues
    assert left_streams(house.disk) == [], "what a crash left of it is removed by the next start"


def test_files_of_a_stream_that_cannot_be_restored_are_left_alone(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(5))
    life = house.stopped()
    key, row = next(pair for pair in life.disk.rows.items() if getattr(pair[1], "name", None) == "s")
    life.disk.rows[key] = row._replace(vhost="gone")  # type: ignore[call-arg]
    house = life.again()
    assert len(left_streams(house.disk)) == 1


def test_deleting_only_if_it_is_empty_or_unused(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", b"m")
    client.send(QueueDelete("s", if_empty=True))
    assert client.error()[0] == 406
    client = house.client()
    client.qos(1)
    client.consume("s")
    other = house.client()
    other.send(QueueDelete("s", if_unused=True))
    assert other.error()[0] == 406
    declare(house.client(), "empty")
    assert isinstance(house.client().ask(QueueDelete("empty", if_empty=True)), QueueDeleteOk)


def test_a_deleted_virtual_host_takes_its_streams_with_it(house: StoredHouse) -> None:
    vhost = house.broker.add_vhost("other")
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    queue = vhost.queues["s"]
    run = messages(b"m")
    queue.publish(run, size_of(run), False)
    house.turn()
    assert left_streams(house.disk)
    house.broker.delete_vhost("other")
    house.turn()
    assert left_streams(house.disk) == []
