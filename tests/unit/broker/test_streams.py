"""Streams in a broker: over frames, with the journal and a disk in memory, through stops and power cuts."""

from __future__ import annotations

import pytest

from leveret.broker.queue_jobs import Browse, Delete, Forward, Redrive, Scope, matching
from leveret.broker.super_streams import partitions_of
from leveret.errors import NotFound, PreconditionFailed
from leveret.queues.stream import StreamQueue
from leveret.store.stream_files import left_streams
from leveret.wire.content import body_of, properties_of
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from tests.support.peer_pair import Client, Content
from tests.support.shards import Shards
from tests.support.spies import messages, size_of
from tests.support.stored_house import StoredHouse
from tests.support.stream_house import numbered

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def house() -> StoredHouse:
    return StoredHouse()


def declare(client: Client, name: str = "s", **arguments: object) -> None:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.declare(name, durable=True, arguments={**STREAM, **table})


def stream_of(house: StoredHouse, name: str = "s") -> StreamQueue:
    queue = house.queue(name)
    assert isinstance(queue, StreamQueue)
    return queue


def read(
    house: StoredHouse, name: str = "s", *, prefetch: int = 1000, ack: bool = False, **arguments: object
) -> list[tuple[int, bytes]]:
    """Offsets and bodies, from the beginning unless it says otherwise."""
    client = house.client()
    client.qos(prefetch)
    table = {f"x-stream-{key.replace('_', '-')}": value for key, value in {"offset": "first", **arguments}.items()}
    client.consume(name, arguments=table)
    found = [what for what in client.heard() if isinstance(what, Content)]
    if ack and found:
        client.ack(found[-1].tag, multiple=True)
    client.vanish()
    return [(offset_of(content), content.body) for content in found]


def offset_of(content: Content) -> int:
    value = (content.properties.headers or {})["x-stream-offset"]
    assert isinstance(value, int)
    return value


def pairs(number: int, start: int = 0) -> list[tuple[int, bytes]]:
    return list(enumerate(numbered(number, start), start))


# ---- declaring


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ({"durable": False}, 406, "invalid property 'non-durable'"),
        ({"durable": True, "exclusive": True}, 406, "invalid property 'exclusive-owner'"),
        ({"durable": True, "auto_delete": True}, 406, "invalid property 'auto-delete'"),
        ({"durable": True, "arguments": {**STREAM, "x-message-ttl": 5}}, 406, "invalid arg 'x-message-ttl'"),
        ({"durable": True, "arguments": {**STREAM, "x-max-age": "soon"}}, 406, "invalid arg 'x-max-age'"),
        ({"durable": True, "queue": ""}, 406, "cannot declare a server-named queue for type stream"),
    ],
)
def test_declarations_that_do_not_fit(house: StoredHouse, more: dict[str, object], code: int, told: str) -> None:
    client = house.client()
    client.send(QueueDeclare(**{"queue": "s", "arguments": STREAM, **more}))  # type: ignore[arg-type]
    found, text = client.error()
    assert found == code
    assert told in text
    assert "s" not in house.vhost.queues


def test_a_stream_is_not_declared_again_as_something_else(house: StoredHouse) -> None:
    client = house.client()
    declare(client, max_age="1h")
    declare(client, max_age="1h")
    client.send(QueueDeclare("s", durable=True, arguments={**STREAM, "x-max-age": "2h"}))
    code, text = client.error()
    assert (code, "inequivalent arg 'x-max-age'" in text) == (406, True)
    client = house.client()
    client.send(QueueDeclare("s", durable=True))
    code, text = client.error()
    assert (code, "inequivalent arg 'x-queue-type'" in text) == (406, True)


def test_declare_ok_counts_what_is_confirmed_and_who_reads(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", b"a", b"b")
    client.qos(10)
    client.consume("s")
    answer = client.declare("s", passive=True)
    assert (answer.message_count, answer.consumer_count) == (2, 1)


@pytest.mark.parametrize(
    ("prefetch", "no_ack", "code", "told"),
    [
        (0, False, 406, "consumer prefetch count is not set for stream queue 's' in vhost '/'"),
        (0, True, 406, "consumer prefetch count is not set for stream queue 's' in vhost '/'"),
        (10, True, 540, "automatic acknowledgement not supported by stream queue 's' in vhost '/'"),
    ],
)
def test_consuming_as_streams_cannot(house: StoredHouse, prefetch: int, no_ack: bool, code: int, told: str) -> None:
    client = house.client()
    declare(client)
    client.qos(prefetch)
    client.consume("s", no_ack=no_ack)
    found, text = client.error()
    assert found == code
    assert told in text
    assert len(house.queue("s").consumers) == 0


def test_a_shared_prefetch_is_one_too(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(10))
    client.qos(3, shared=True)
    client.consume("s", arguments={"x-stream-offset": "first"})
    assert client.bodies() == numbered(3)


def test_get_and_purge_close_the_connection(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", b"m")
    client.send(QueuePurge("s"))
    assert client.error()[0] == 540
    client = house.client()
    assert client.get("s") is None
    assert house.queue("s").ready == 1


# ---- confirms and transactions


def test_a_confirm_waits_for_the_journal_also_for_a_transient_message(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.ask(ConfirmSelect())
    house.is_slow = True
    client.publish("s", b"m", delivery_mode=1)
    assert client.heard() == []
    house.write()
    assert [type(what) for what in client.heard()] == [BasicAck]
    assert stream_of(house).next_offset == 0, "the confirm does not wait for the stream's own files"
    house.work()
    assert stream_of(house).next_offset == 1


def test_a_transaction_is_read_when_it_is_committed(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.ask(TxSelect())
    client.publish("s", b"a", b"b")
    assert house.queue("s").ready == 0
    client.ask(TxCommit())
    assert read(house) == [(0, b"a"), (1, b"b")]


def test_a_guarded_stream_keeps_transient_messages_too(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    house.vhost.guard_queue(house.queue("s"))
    client.publish("s", b"a", delivery_mode=1)
    client.publish("s", b"b", delivery_mode=2)
    house = house.crashed().again()
    assert read(house) == [(0, b"a"), (1, b"b")]


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
            self.broker.turn()
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


# ---- ways in


def test_dead_letters_go_to_a_stream_with_their_story(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.ask(
        QueueDeclare("q", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "s"})
    )
    client.publish("q", b"a", b"b", delivery_mode=2)
    client.consume("q")
    tags = [what.tag for what in client.heard() if isinstance(what, Content)]
    client.nack(tags[1], requeue=False)
    client.nack(tags[0], requeue=False)
    house = house.crashed().again()
    assert read(house) == [(0, b"b"), (1, b"a")]
    assert house.queue("q").ready == 0
    stream = stream_of(house)
    headers = properties_of(stream.files.read(0, 1, 1)[0].messages[0][0]).headers or {}
    assert headers["x-first-death-queue"] == "q"


def test_a_fanout_to_a_stream_and_a_classic_queue(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.declare("q", durable=True)
    for queue in ("s", "q"):
        client.ask(QueueBind(queue, "amq.fanout"))
    before = len(house.disk.content(_segment(house)))
    body = b"x" * 5000
    client.feed(client.published("amq.fanout", "", body, delivery_mode=2))
    assert len(house.disk.content(_segment(house))) - before < 7000, "written to the journal once"
    assert read(house) == [(0, body)]
    assert client.get("q") is not None
    house.stopped()


def _segment(house: StoredHouse) -> str:
    return f"journal/{[name for name in house.disk.names('journal') if name.endswith('.seg')][-1]}"


# ---- policies


def test_policies_set_retention_and_leave_out_what_streams_cannot(house: StoredHouse) -> None:
    declare(house.client())
    definition = {"max-length-bytes": 5000, "max-age": "1h", "message-ttl": 5000, "dead-letter-exchange": "x"}
    house.broker.policies.set("/", "p", ".*", definition, apply_to="queues")
    stream = stream_of(house)
    assert (stream.retention.max_bytes, stream.retention.max_age) == (5000, 3600)
    declare(house.client(), "later")
    assert stream_of(house, "later").retention.max_age == 3600
    house.broker.policies.delete("/", "p")
    assert stream.retention.max_age is None
    house.broker.policies.set("/", "p", ".*", {"max-age": "5m"}, apply_to="streams")
    assert stream.retention.max_age == 300
    house = house.stopped().again()
    assert stream_of(house).retention.max_age == 300


# ---- looking, and what people do to messages


def test_a_stream_can_be_looked_into(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.publish("s", *numbered(1200))
    errands = house.broker.errands
    job = Browse(house.queue("s"), errands, Scope(limit=700))
    job.start()
    house.turn()
    assert job.is_over
    assert [body_of(seen.message[0]) for seen in job.found] == numbered(700)
    assert properties_of(job.found[5].message[0]).headers == {"x-stream-offset": 5}
    everything = Browse(house.queue("s"), errands)
    everything.start()
    house.turn()
    assert (everything.is_over, everything.looked_at) == (True, 1200)
    assert house.queue("s").ready == 1200


def test_an_empty_stream_can_be_looked_into(house: StoredHouse) -> None:
    declare(house.client())
    job = Browse(house.queue("s"), house.broker.errands, Scope(only=matching("n = 1")))
    job.start()
    house.turn()
    assert (job.is_over, job.found) == (True, [])


def test_messages_of_a_stream_are_copied_and_never_taken(house: StoredHouse) -> None:
    client = house.client()
    declare(client)
    client.declare("q", durable=True)
    client.publish("s", *numbered(20))
    queue, vhost, errands = house.queue("s"), house.vhost, house.broker.errands
    with pytest.raises(PreconditionFailed, match="messages of stream 's' in vhost '/' cannot be moved or deleted"):
        Delete(queue, errands)
    with pytest.raises(PreconditionFailed, match="cannot be moved"):
        Forward(vhost, queue, errands, "", "q")
    with pytest.raises(PreconditionFailed, match="cannot be moved"):
        Redrive(vhost, queue, errands, house.broker.timers)
    job = Forward(vhost, queue, errands, "", "q", Scope(limit=5), keeps=True)
    job.start()
    house.turn()
    assert (job.is_over, job.done) == (True, 5)
    assert (house.queue("q").ready, queue.ready) == (5, 20)


# ---- partitions


def test_a_policy_shards_an_exchange_over_streams(house: StoredHouse) -> None:
    shards = Shards(house, durable=True)
    shards.policy(3, shard_queue_type="stream")
    assert all(isinstance(shards.queue(index), StreamQueue) for index in range(3))
    client = house.client()
    for number in range(60):
        client.feed(client.published("images", f"key{number % 20}", b"%d" % number))
    assert sum(shards.counts()) == 60
    assert [queue.name for queue in partitions_of(house.vhost, "images")] == shards.names(3)
    client.qos(1000)
    client.consume("images", arguments={"x-shard-all": True, "x-stream-offset": "first"})
    found = [what for what in client.heard() if isinstance(what, Content)]
    assert sorted(int(each.body) for each in found) == list(range(60))
    for key in range(20):
        assert [int(each.body) for each in found if int(each.body) % 20 == key] == [key, key + 20, key + 40]


def test_streams_are_never_waited_for_when_shards_change(house: StoredHouse) -> None:
    """An ordered resize holds messages back until the old shard is empty, which a stream never is."""
    shards = Shards(house, durable=True)
    shards.policy(2, shard_queue_type="stream", ordered_resize=True)
    client = house.client()
    for number in range(40):
        client.feed(client.published("images", f"key{number}", b"%d" % number))
    shards.policy(4, shard_queue_type="stream", ordered_resize=True)
    shards.policy(4, ordered_resize=True)  # the streams are there already
    shards.policy(5, ordered_resize=True)
    for number in range(40):
        client.feed(client.published("images", f"key{number}", b"%d" % number))
    assert sum(shards.counts()) == 80


def test_a_super_stream_as_rabbitmq_declares_it(house: StoredHouse) -> None:
    client = house.client()
    client.ask(ExchangeDeclare("invoices", "direct", durable=True, arguments={"x-super-stream": True}))
    for number in (2, 0, 1):
        declare(client, f"invoices-{number}")
        order = {"x-stream-partition-order": number}
        client.ask(QueueBind(f"invoices-{number}", "invoices", str(number), arguments=order))
    assert [queue.name for queue in partitions_of(house.vhost, "invoices")] == [f"invoices-{n}" for n in range(3)]
    house = house.stopped().again()
    assert [queue.name for queue in partitions_of(house.vhost, "invoices")] == [f"invoices-{n}" for n in range(3)]


def test_partitions_without_an_order_are_sorted_by_key_or_name(house: StoredHouse) -> None:
    client = house.client()
    client.ask(ExchangeDeclare("x", "direct", durable=True))
    for name, key in (("b", "10"), ("c", "9"), ("a", "amer"), ("d", "emea")):
        declare(client, name)
        client.ask(QueueBind(name, "x", key))
    assert [queue.name for queue in partitions_of(house.vhost, "x")] == ["c", "b", "a", "d"]


def test_what_is_no_super_stream(house: StoredHouse) -> None:
    client = house.client()
    client.ask(ExchangeDeclare("x", "direct", durable=True))
    with pytest.raises(NotFound, match="super stream 'x' in vhost '/' has no partitions"):
        partitions_of(house.vhost, "x")
    with pytest.raises(NotFound, match="no exchange 'nobody'"):
        partitions_of(house.vhost, "nobody")
    declare(client)
    client.declare("q", durable=True)
    for name in ("s", "q"):
        client.ask(QueueBind(name, "x", name))
    with pytest.raises(PreconditionFailed, match="queue 'q' is not a stream"):
        partitions_of(house.vhost, "x")


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
