"""A stream of another cell, as its consumers see it."""

from __future__ import annotations

import pytest

from leveret.cells.remote_queue import RemoteQueue
from leveret.errors import Unsupported
from leveret.wire.methods import BasicCancel, BasicConsume, BasicConsumeOk, BasicGet, Method, QueuePurge
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client, Content

Seen = tuple[bytes, bool]  # body, redelivered


@pytest.fixture
def pair() -> CellPair:
    pair = CellPair()
    pair.declare("s", queue_type="stream")
    return pair


def publish(pair: CellPair, *bodies: bytes, **properties: object) -> None:
    pair.home.client().publish("s", *bodies, **properties)
    pair.here.turn()


def reader(pair: CellPair, prefetch: int = 100, tag: str = "tag", **arguments: object) -> Client:
    """A client of the other cell that consumes; arguments are named without x-stream-."""
    client = pair.here.client()
    client.qos(prefetch)
    client.consume("s", tag, arguments={f"x-stream-{key}": value for key, value in arguments.items()})
    return client


def contents(client: Client) -> list[Content]:
    return [what for what in client.heard() if isinstance(what, Content)]


def seen(client: Client) -> list[Seen]:
    return [(each.body, each.redelivered) for each in contents(client)]


def read(client: Client) -> list[Seen]:
    """What has arrived, which is acknowledged."""
    got = contents(client)
    if got:
        client.ack(got[-1].tag, multiple=True)
    return [(each.body, each.redelivered) for each in got]


def new(*bodies: bytes) -> list[Seen]:
    return [(body, False) for body in bodies]


def again(*bodies: bytes) -> list[Seen]:
    return [(body, True) for body in bodies]


# ---- the link is lost


@pytest.mark.parametrize("offset", ["first", "last", "next", "1h", 0])
def test_a_consumer_that_has_read_everything_continues_behind_it(pair: CellPair, offset: object) -> None:
    client = reader(pair, offset=offset)
    publish(pair, b"0", b"1")
    assert read(client) == new(b"0", b"1")
    pair.cut()
    publish(pair, b"2")
    pair.connect()
    assert read(client) == new(b"2")
    pair.cut()
    pair.connect()
    publish(pair, b"3")
    assert read(client) == new(b"3")


@pytest.mark.parametrize("offset", ["next", "1s"])
def test_a_consumer_that_has_received_nothing_starts_where_it_would_have(pair: CellPair, offset: str) -> None:
    publish(pair, b"0", b"1")
    pair.home.advance(60)
    client = reader(pair, offset=offset)
    pair.cut()
    pair.connect()
    pair.cut()
    publish(pair, b"new")
    pair.home.advance(60)
    pair.connect()
    assert read(client) == new(b"new")


def test_what_was_not_acknowledged_is_delivered_again(pair: CellPair) -> None:
    client = reader(pair, prefetch=3, offset="first")
    publish(pair, *[b"%d" % number for number in range(6)])
    held = contents(client)
    client.ack(held[0].tag)
    assert seen(client) == new(b"3")
    client.ack(held[2].tag)  # 4 is delivered: 1, 3 and 4 are held
    assert seen(client) == new(b"4")
    pair.cut()
    client.ack(5, multiple=True)  # has no effect but on the prefetch
    publish(pair, b"6")
    pair.connect()
    assert seen(client) == again(b"1", b"2", b"3")
    client.ack(8, multiple=True)
    assert seen(client) == again(b"4") + new(b"5", b"6")


def test_messages_that_the_client_had_no_room_for_are_not_marked(pair: CellPair) -> None:
    client = reader(pair, prefetch=3, offset="first")
    client.session.outbox.set_writable(False)  # the client does not read: nothing is passed to it
    publish(pair, b"0", b"1", b"2")
    pair.cut()
    client.session.outbox.set_writable(True)
    pair.connect()
    assert read(client) == new(b"0", b"1", b"2")


def test_a_requeued_message_is_not_delivered_again(pair: CellPair) -> None:
    """As in the own cell: the consumer has settled it."""
    client = reader(pair, offset="first")
    publish(pair, b"0", b"1")
    client.nack(contents(client)[0].tag)
    client.nack(2, requeue=False)
    pair.cut()
    pair.connect()
    publish(pair, b"2")
    assert read(client) == new(b"2")


@pytest.mark.parametrize("offset", ["first", "next"])
def test_a_named_consumer_continues_after_the_link_was_lost(pair: CellPair, offset: str) -> None:
    client = reader(pair, offset=offset, consumer="billing")
    pair.cut()
    publish(pair, b"0", b"1", b"2")
    pair.connect()
    held = contents(client)
    assert [each.body for each in held] == [b"0", b"1", b"2"]
    client.ack(held[1].tag, multiple=True)
    pair.cut()
    publish(pair, b"3")
    pair.connect()
    assert seen(client) == again(b"2") + new(b"3")
    (stored,) = pair.home.vhost.stream_offsets.list("s")
    assert (stored.consumer, stored.offset) == ("billing", 2)


def test_a_named_consumer_whose_stored_offset_was_deleted_continues_too(pair: CellPair) -> None:
    client = reader(pair, offset="first", consumer="billing")
    publish(pair, b"0", b"1")
    read(client)
    pair.cut()
    assert pair.home.vhost.stream_offsets.drop("s", "billing")
    publish(pair, b"2")
    pair.connect()
    assert read(client) == new(b"2")


def test_filtered_messages_are_skipped_again(pair: CellPair) -> None:
    client = reader(pair, offset="first", filter="eu")
    for number in range(3):
        publish(pair, b"eu %d" % number, headers={"x-stream-filter-value": "eu"})
        publish(pair, b"us %d" % number, headers={"x-stream-filter-value": "us"})
    held = contents(client)
    assert [each.body for each in held] == [b"eu 0", b"eu 1", b"eu 2"]
    client.ack(held[0].tag)
    client.ack(held[2].tag)
    pair.cut()
    publish(pair, b"eu 3", headers={"x-stream-filter-value": "eu"})
    pair.connect()
    assert read(client) == again(b"eu 1", b"eu 2") + new(b"eu 3")
    pair.cut()
    pair.connect()
    assert seen(client) == []


def test_large_messages_are_counted_too(pair: CellPair) -> None:
    large = bytes(2 << 20)
    client = reader(pair, offset="first")
    publish(pair, b"0", large, b"1", large)
    held = contents(client)
    assert [each.body for each in held] == [b"0", large, b"1", large]
    client.ack(held[1].tag, multiple=True)
    pair.cut()
    pair.connect()
    assert seen(client) == again(b"1", large)


def test_a_consumer_that_waits_for_an_offset_still_waits(pair: CellPair) -> None:
    client = reader(pair, offset=2)
    pair.cut()
    pair.connect()
    publish(pair, b"0", b"1", b"2")
    assert read(client) == new(b"2")


def test_a_stream_that_has_lost_its_end_is_read_from_there(pair: CellPair) -> None:
    client = reader(pair, offset="first")
    publish(pair, b"0", b"1", b"2")
    read(client)
    pair.cut()
    pair.home.vhost.delete_queue("s")
    pair.home.vhost.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    pair.connect()
    publish(pair, b"new")
    assert [body for body, _ in read(client)] == [b"new"]


def test_a_consumer_that_leaves_and_comes_back_is_a_new_one(pair: CellPair) -> None:
    client = reader(pair, offset="first")
    publish(pair, b"0", b"1")
    read(client)
    client.send(BasicCancel("tag", nowait=True))
    pair.cut()
    pair.connect()
    client.consume("s", arguments={"x-stream-offset": "first"})
    assert read(client) == new(b"0", b"1")


def test_consume_is_answered_when_the_link_is_lost_before_the_home_cell_has_answered(pair: CellPair) -> None:
    """As for a consumer that comes while the home cell is away."""
    client = pair.here.client()
    client.qos(10)
    pair.wires[1].is_held = True
    client.send(BasicConsume("s", "tag"))
    assert client.heard() == []
    pair.cut()
    assert client.heard() == [BasicConsumeOk("tag")]
    pair.connect()
    publish(pair, b"0")
    assert read(client) == new(b"0")


# ---- what streams refuse

STREAM = "queue 's' in vhost '/'"


@pytest.mark.parametrize(
    ("prefetch", "method", "code", "text"),
    [
        (0, BasicConsume("s", "tag", no_ack=True), 406, f"consumer prefetch count is not set for stream {STREAM}"),
        (0, BasicConsume("s", "tag"), 406, f"consumer prefetch count is not set for stream {STREAM}"),
        (1, BasicConsume("s", "tag", no_ack=True), 540, f"automatic acknowledgement not supported by stream {STREAM}"),
        (1, BasicConsume("s", "tag", arguments={"x-stream-offset": "none"}), 406, "invalid arg 'x-stream-offset'"),
        (1, BasicGet("s"), 540, f"basic.get not supported by stream queues {STREAM}"),
        (1, QueuePurge("s"), 540, f"queue.purge not supported by stream queues {STREAM}"),
    ],
    ids=["no_ack", "no prefetch", "no_ack with a prefetch", "argument", "get", "purge"],
)
def test_a_stream_refuses_what_it_refuses_at_home(
    pair: CellPair, prefetch: int, method: Method, code: int, text: str
) -> None:
    errors = []
    pair.cut()  # the cell of the client refuses it
    for cell in (pair.here, pair.home):
        client = cell.client()
        client.qos(prefetch)
        client.send(method)
        errors.append(client.error())
    here, home = errors
    assert here == home
    assert here[0] == code
    assert text in here[1]
    assert not pair.here.vhost.queues["s"].consumers


def test_a_request_that_the_queue_does_not_support_leaves_the_link_open(pair: CellPair) -> None:
    client = reader(pair)
    answers: list[object] = []
    queue = pair.here.vhost.queues["s"]
    assert isinstance(queue, RemoteQueue)
    queue.gets.get(answers.append)
    pair.here.turn()
    (answer,) = answers
    assert isinstance(answer, Unsupported)
    publish(pair, b"0")
    assert read(client) == new(b"0")
