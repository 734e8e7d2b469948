"""A queue moves from one cell to another while clients use it."""

from __future__ import annotations

import pytest

from leveret.broker.vhost_cells import place_vhost
from leveret.cells.message_copier import STEP_BYTES
from leveret.cells.queue_move import MOST_UNSTORED
from leveret.cells.queue_moves import DONE
from leveret.errors import AmqpError, PreconditionFailed
from leveret.wire.methods import (
    BasicAck,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.cell_cluster import CellCluster
from tests.support.cell_wires import CopyWire, QueueWire
from tests.support.peer_pair import Client
from tests.support.queue_moves import LONG, begin, bodies, client_bodies, contents, lives_in, move, where


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3)


@pytest.mark.parametrize(("source", "to"), [(0, 1), (1, 0), (1, 2), (2, 1)])
def test_messages_arrive_in_order(cells: CellCluster, source: int, to: int) -> None:
    owner = cells[source].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(1_200), delivery_mode=2)
    move(cells, to)
    assert lives_in(cells, to)
    assert cells[to].queue("q").ready == 1_200
    client = cells[3 - source - to].client()
    client.consume("q", no_ack=True)
    assert client.bodies() == bodies(1_200)


@pytest.mark.parametrize("durable", [True, False])
def test_definitions_properties_and_bindings_stay(cells: CellCluster, durable: bool) -> None:
    owner = cells[1].client()
    arguments = {"x-max-length": 7, "x-dead-letter-exchange": "amq.fanout"}
    owner.declare("q", durable=durable, arguments=arguments)
    assert owner.ask(QueueBind("q", "amq.topic", "a.#")) == QueueBindOk()
    owner.feed(owner.published("amq.topic", "a.b", b"kept", delivery_mode=2, headers={"h": 1}, priority=3))
    move(cells, 2)
    queue = cells[2].queue("q")
    assert (queue.durable, queue.arguments, queue.options.max_length) == (durable, arguments, 7)
    for cell in cells.cells:
        publisher = cell.client()
        publisher.feed(publisher.published("amq.topic", "a.c", b"new"))
        assert publisher.declare("q", durable=durable, arguments=arguments).message_count > 0
    got = cells[0].client().get("q", no_ack=True)
    assert got is not None
    assert (got.body, got.method.exchange, got.method.routing_key) == (b"kept", "amq.topic", "a.b")
    assert (got.properties.headers, got.properties.priority, got.redelivered) == ({"h": 1}, 3, False)
    assert queue.ready == 3


def test_priorities_are_kept(cells: CellCluster) -> None:
    owner = cells[0].client()
    owner.declare("q", durable=True, arguments={"x-max-priority": 5})
    for number, priority in enumerate((1, 5, 3, 5, 9, 0)):
        owner.publish("q", b"%d" % number, priority=priority)
    move(cells, 1)
    client = cells[1].client()
    client.consume("q", no_ack=True)
    assert client.bodies() == [b"1", b"3", b"4", b"2", b"0", b"5"]


def test_messages_expire_at_the_same_time_as_before(cells: CellCluster) -> None:
    owner = cells[0].client()
    owner.declare("dead", durable=True)
    arguments = {"x-message-ttl": 30_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    owner.declare("q", durable=True, arguments=arguments)
    owner.publish("q", b"of the queue")
    owner.publish("q", b"own", expiration="10000")
    cells.advance(5)
    move(cells, 1)
    cells.advance(4)
    assert cells[1].queue("q").ready == 2
    cells.advance(1)
    assert cells[1].queue("q").ready == 1
    cells.advance(21)
    assert cells[1].queue("q").ready == 0
    assert sorted(client_bodies(cells, "dead")) == [b"of the queue", b"own"]


def test_delivery_counts_are_kept(cells: CellCluster) -> None:
    owner = cells[0].client()
    owner.declare("q", durable=True, arguments={"x-delivery-limit": 2})
    owner.publish("q", b"often", b"fresh")
    first = owner.get("q")
    assert first is not None
    owner.nack(first.tag)
    move(cells, 1)
    client = cells[2].client()
    got = client.get("q")
    assert got is not None
    assert (got.body, got.redelivered) == (b"often", True)
    client.nack(got.tag)
    again = client.get("q")
    assert again is not None
    assert (again.body, (again.properties.headers or {}).get("x-delivery-count")) == (b"often", 2)
    client.nack(again.tag)  # over the limit
    last = client.get("q")
    assert last is not None
    assert (last.body, last.redelivered) == (b"fresh", False)


def test_delayed_retries_go_on(cells: CellCluster) -> None:
    owner = cells[0].client()
    owner.declare("q", durable=True, arguments={"x-retry-delays": [10_000]})
    owner.publish("q", b"delayed", b"ready")
    got = owner.get("q")
    assert got is not None
    owner.nack(got.tag)
    move(cells, 1)
    queue = cells[1].queue("q")
    assert (queue.ready, queue.delayed_messages) == (1, 1)
    cells.advance(10)
    client = cells[1].client()
    client.consume("q", no_ack=True)
    assert client.bodies() == [b"delayed", b"ready"]


@pytest.mark.parametrize("is_purged", [False, True])
def test_requeued_messages_are_sent_in_parts(cells: CellCluster, is_purged: bool) -> None:
    number, size = 300, 64 << 10
    owner = cells[0].client()
    owner.declare("q", durable=True, arguments={"x-retry-delays": [500]})
    for body in bodies(number):
        owner.publish("q", body.ljust(size))
    client = cells[0].client()
    client.consume("q")
    for at, got in enumerate(contents(client)):
        client.nack(got.tag, requeue=True) if at % 2 else None
    client.vanish()
    started = begin(cells, 1)
    (wire,) = [each for each in cells.wires if isinstance(each, CopyWire)]
    wire.is_held = True
    cells.advance(0.1)
    sent = [message for frame in wire.to_there for message in frame.get("run", [0] * 5)[4] or ()]
    assert 0 < sum(len(content) for content, *_ in sent) <= MOST_UNSTORED * (STEP_BYTES + 2 * size)
    if is_purged:
        assert owner.ask(QueuePurge("q")) == QueuePurgeOk(number // 2)
    wire.is_held = False
    cells.advance(1)
    assert started.state == DONE, started.reason
    left = [body for body in bodies(number) if not is_purged or int(body) % 2]
    assert [body.strip() for body in client_bodies(cells, "q")] == left


def test_duplicates_of_messages_before_the_move_are_dropped(cells: CellCluster) -> None:
    owner = cells[0].client()
    owner.declare("q", durable=True, arguments={"x-message-deduplication": True})
    owner.publish("q", b"one", headers={"x-deduplication-header": "1"})
    owner.publish("q", b"two", headers={"x-deduplication-header": "2"})
    assert owner.get("q", no_ack=True) is not None
    move(cells, 1)
    client = cells[2].client()
    client.publish("q", b"one again", headers={"x-deduplication-header": "1"})
    client.publish("q", b"three", headers={"x-deduplication-header": "3"})
    client.consume("q", no_ack=True)
    assert client.bodies() == [b"two", b"three"]


def test_a_paused_queue_stays_paused(cells: CellCluster) -> None:
    cells[0].client().declare("q", durable=True)
    cells[0].vhost.pause_queue(cells[0].queue("q"))
    move(cells, 1)
    client = cells[1].client()
    client.publish("q", b"waits")
    assert client.get("q") is None
    cells[1].vhost.resume_queue(cells[1].queue("q"))
    assert client.get("q") is not None


# ---- clients during the move


@pytest.mark.parametrize("place", [0, 1, 2])
def test_publishes_during_the_move_are_confirmed_and_in_order(cells: CellCluster, place: int) -> None:
    cells[0].client().declare("q", durable=True)
    publisher = cells[place].client()
    assert publisher.ask(ConfirmSelect()) == ConfirmSelectOk()
    publisher.publish("q", *bodies(20))
    started, number = begin(cells, 1), 20
    for frames in (0, 1, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 5, None):
        cells.frames_left = frames  # the move stops in its middle
        publisher.publish("q", *bodies(3, number))
        number += 3
        cells.rest()
        cells.advance(0.05)
    cells.advance(0.5)
    assert started.state == DONE, started.reason
    assert sum(confirmed(publisher)) == number
    client = cells[2].client()
    client.consume("q", no_ack=True)
    assert client.bodies() == bodies(number)


def test_a_publish_does_not_overtake_an_earlier_one_that_goes_through_the_old_home(cells: CellCluster) -> None:
    cells[0].client().declare("q", durable=True)
    publisher = cells[2].client()
    publisher.publish("q", b"first")
    links = [
        each for each in cells.wires if isinstance(each, QueueWire) and (each.here, each.there) == (cells[2], cells[0])
    ]
    for link in links:
        link.is_held = True
    publisher.publish("q", b"slow")
    move(cells, 1)
    publisher.publish("q", b"last")
    assert cells[1].queue("q").ready == 1
    for link in links:
        link.is_held = False
    cells.rest()
    client = cells[1].client()
    client.consume("q", no_ack=True)
    assert client.bodies() == [b"first", b"slow", b"last"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_publishes_without_confirms_wait_in_order_and_their_memory_is_returned(cells: CellCluster, place: int) -> None:
    """Also those that the tick has gathered when the queue is held."""
    owner, publisher = cells[0].client(), cells[place].client()
    owner.declare("q", durable=True)
    gauge = cells[place].broker.gauge
    publisher.publish("q", b"0")
    cells.rest()
    before = gauge.used - (cells[0].queue("q").accounted if place == 0 else 0)
    begin(cells, 1)
    for number in range(1, 200):  # each step of the move is between two publishes
        cells.frames_left = 1
        publisher.publish("q", b"%d" % number)
        cells.rest()
    cells.frames_left = None
    cells.advance(1)
    assert lives_in(cells, 1)
    assert gauge.used - (cells[1].queue("q").accounted if place == 1 else 0) == before
    assert client_bodies(cells, "q") == bodies(200)


def confirmed(client: Client) -> list[int]:
    """How many publishes each confirm is for."""
    last, numbers = 0, []
    for what in client.heard():
        assert isinstance(what, BasicAck), what
        numbers.append(what.delivery_tag - last if what.multiple else 1)
        last = max(last, what.delivery_tag)
    return numbers


@pytest.mark.parametrize("place", [0, 1, 2])
def test_consumers_stay_and_get_the_rest(cells: CellCluster, place: int) -> None:
    cells[0].client().declare("q", durable=True)
    consumer = cells[place].client()
    consumer.qos(10)
    consumer.consume("q")
    cells[0].client().publish("q", *bodies(30))
    first = contents(consumer)
    assert [each.body for each in first] == bodies(10)
    started = begin(cells, 1)
    cells.advance(1)
    consumer.ack(first[-1].tag, multiple=True)
    cells.advance(0.5)
    assert started.state == DONE, started.reason
    got = contents(consumer)
    assert [(each.body, each.redelivered) for each in got] == [(body, False) for body in bodies(10, 10)]
    consumer.ack(got[-1].tag, multiple=True)
    assert [each.body for each in contents(consumer)] == bodies(10, 20)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_a_consumer_holds_too_long_is_delivered_again(cells: CellCluster, place: int) -> None:
    cells[0].client().declare("q", durable=True)
    cells[0].client().publish("q", *bodies(3))
    consumer = cells[place].client()
    consumer.qos(2)
    consumer.consume("q")
    held = contents(consumer)
    assert [each.body for each in held] == bodies(2)
    started = begin(cells, 1)
    cells.advance(4)
    assert not started.is_over  # it waits for the consumer
    cells.advance(2)
    assert started.state == DONE, started.reason
    again = contents(consumer)
    assert [(each.body, each.redelivered) for each in again] == [(b"0", True), (b"1", True)]
    consumer.ack(held[-1].tag, multiple=True)  # too late, and no error
    assert cells[1].queue("q").unacked == 2
    consumer.ack(again[-1].tag, multiple=True)
    assert [each.body for each in contents(consumer)] == [b"2"]


def test_a_purge_during_the_copy_counts(cells: CellCluster) -> None:
    owner = cells[0].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(700))
    started = begin(cells, 1)
    cells.frames_left = 3
    cells.rest()
    assert owner.ask(QueuePurge("q")) == QueuePurgeOk(700)
    owner.publish("q", b"later")
    cells.frames_left = None
    cells.advance(0.5)
    assert started.state == DONE, started.reason
    assert client_bodies(cells, "q") == [b"later"]


@pytest.mark.parametrize("frames", [0, 3, 7, 9, 12])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_queue_that_is_deleted_during_its_move_is_gone(cells: CellCluster, place: int, frames: int) -> None:
    owner = cells[0].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(5))
    started = begin(cells, 1)
    cells.frames_left = frames
    cells.rest()
    client = cells[place].client()
    client.send(QueueDelete("q"))
    cells.frames_left = None
    cells.advance(LONG)
    assert started.is_over
    assert where(cells, "q") == ["-"] * 3
    assert not any(cell.vhost.internal.queues for cell in cells.cells)
    client = cells[1].client()
    assert client.declare("q", durable=True).message_count == 0


# ---- refusals


def test_what_cannot_be_moved_is_refused_with_the_cause(cells: CellCluster) -> None:
    moves = cells[0].queue_moves
    assert moves is not None
    owner = cells[0].client()
    owner.declare("q", durable=True)
    owner.declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    owner.declare("own", exclusive=True)
    for queue, to, reason in [
        ("q", "c9", "no cell 'c9': it must be one of c1, c2, c3"),
        ("q", "c1", "is in cell c1 already"),
        ("none", "c2", "no queue 'none'"),
        ("stream", "c2", "is a stream, which cannot be moved"),
    ]:
        with pytest.raises(AmqpError, match=reason):
            moves.begin("/", queue, to)
    with pytest.raises(AmqpError, match="exclusive"):
        moves.begin("/", "own", "c2")
    moves.begin("/", "q", "c2")
    with pytest.raises(PreconditionFailed, match="is being moved already"):
        moves.begin("/", "q", "c3")


def test_queues_of_a_virtual_host_in_one_cell_are_refused(cells: CellCluster) -> None:
    broker, moves = cells[0].broker, cells[0].queue_moves
    assert moves is not None
    place_vhost(broker, broker.add_vhost("v"), "c2")
    with pytest.raises(PreconditionFailed, match="vhost 'v' is in cell c2: its queues cannot be moved"):
        moves.begin("v", "q", "c3")
