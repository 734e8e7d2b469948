"""While all deliveries are paused, messages are accepted and settled, and none leaves a queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.broker.access import in_process_access
from leveret.broker.local import Delivered, LocalSession
from leveret.delivery.delivery_pause import NO_ANSWER
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    ChannelClose,
    ConnectionBlocked,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
    QueueDelete,
)
from leveret.wire.properties import Properties
from tests.support.peer_pair import Client, Content, Harness
from tests.support.stomp_harness import StompPeer

Pause = Callable[[Harness], None]
REASON = "the replicated log does not answer"
SECONDS = 3.0


def by_call(harness: Harness) -> None:
    harness.broker.pause_deliveries(REASON)


def by_deadline(harness: Harness) -> None:
    """As in a process that was stopped: no call has announced the pause."""
    harness.broker.resume_deliveries(harness.clock.machine_time() + SECONDS)
    harness.clock.move_to(harness.clock.now() + SECONDS + 1)


@pytest.fixture(params=[by_call, by_deadline])
def pause(request: pytest.FixtureRequest) -> Pause:
    return request.param  # type: ignore[no-any-return]


def publish(harness: Harness, *bodies: bytes, key: str = "q", **properties: object) -> None:
    """In the process, where publishers are not blocked."""
    session = LocalSession(in_process_access(harness.vhost), lambda tag, delivered: None)
    for body in bodies:
        session.publish("", key, body, Properties(**properties))  # type: ignore[arg-type]
    harness.turn()


def resume(harness: Harness) -> None:
    harness.broker.resume_deliveries()
    harness.rest()


KINDS: dict[str, tuple[dict[str, object], dict[str, object]]] = {  # arguments of the queue, and of the consumer
    "plain": ({}, {}),
    "no-ack": ({}, {"no_ack": True}),
    "single active consumer": ({"x-single-active-consumer": True}, {}),
    "priorities": ({"x-max-priority": 3}, {}),
    "TTL": ({"x-message-ttl": 600_000}, {}),
    "length limit": ({"x-max-length": 10, "x-overflow": "reject-publish"}, {}),
    "groups": ({"x-message-groups": True}, {}),
    "selector": ({}, {"arguments": {"x-selector": "JMSPriority = 2"}}),
    "retries": ({"x-delivery-limit": 5}, {}),
    "stream": ({"x-queue-type": "stream"}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("consumers", [1, 2])
def test_nothing_is_delivered_from_any_queue(harness: Harness, pause: Pause, kind: str, consumers: int) -> None:
    arguments, options = KINDS[kind]
    client = harness.client()
    client.declare("q", durable=True, arguments=arguments)
    client.qos(100)
    for number in range(consumers):
        client.consume("q", f"consumer {number}", **options)
    message = {"priority": 2, "headers": {"x-group-id": "g"}}
    publish(harness, b"before", **message)
    assert set(client.bodies()) == {b"before"}
    pause(harness)
    publish(harness, b"1", b"2", **message)
    publish(harness, b"3", **message)
    late = harness.client()
    late.qos(100)
    late.consume("q", "late", **options)
    assert client.bodies() + late.bodies() == []
    assert harness.queue("q").ready == (4 if kind == "stream" else 3)
    late.vanish()
    resume(harness)
    assert client.bodies() == [b"1", b"2", b"3"] * (consumers if kind == "stream" else 1)
    publish(harness, b"after", **message)
    assert set(client.bodies()) == {b"after"}


def test_requeued_messages_are_not_delivered_and_acks_count(harness: Harness, pause: Pause) -> None:
    client = harness.client()
    client.declare("q")
    client.qos(2)
    client.consume("q")
    publish(harness, b"1", b"2", b"3", b"4")
    assert client.bodies() == [b"1", b"2"]
    pause(harness)
    client.ack(1)
    client.nack(2)
    assert client.bodies() == []
    assert (harness.queue("q").unacked, harness.queue("q").ready) == (0, 3)
    resume(harness)
    first, second = client.heard()
    assert isinstance(first, Content)
    assert isinstance(second, Content)
    assert (first.body, first.redelivered) == (b"2", True)
    assert second.body == b"3"


@pytest.mark.parametrize("method", [QueueDeclare("q", passive=True), BasicCancel("tag"), BasicGet("q")])
@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "stream"}], ids=["classic", "stream"])
def test_a_deadline_is_checked_outside_of_ticks(harness: Harness, arguments: dict[str, object], method: Method) -> None:
    """These methods first deliver what is due."""
    client = harness.client()
    client.declare("q", durable=True, arguments=arguments)
    client.qos(1)
    client.consume("q")
    publish(harness, b"1", b"2")
    assert client.bodies() == [b"1"]
    by_deadline(harness)
    client.send(BasicAck(1), method)  # in one read: the queue is drained for the method, before the tick
    assert client.bodies() == []
    assert harness.queue("q").ready == (2 if arguments else 1)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_queue_paused_by_its_operator_stays_paused(harness: Harness, pause: Pause, is_first: bool) -> None:
    client = harness.client()
    client.declare("q")
    client.consume("q")
    if is_first:
        harness.vhost.pause_queue(harness.queue("q"))
    pause(harness)
    publish(harness, b"1")
    if not is_first:
        harness.vhost.pause_queue(harness.queue("q"))
    resume(harness)
    assert client.bodies() == []
    harness.vhost.resume_queue(harness.queue("q"))
    harness.turn()
    assert client.bodies() == [b"1"]


def test_an_operator_cannot_end_the_pause_of_all_queues(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    client.consume("q")
    harness.vhost.pause_queue(harness.queue("q"))
    by_call(harness)
    publish(harness, b"1")
    harness.vhost.resume_queue(harness.queue("q"))
    harness.turn()
    assert client.bodies() == []
    resume(harness)
    assert client.bodies() == [b"1"]


def test_a_queue_declared_during_the_pause_is_paused_too(harness: Harness) -> None:
    by_call(harness)
    client = harness.client()
    client.declare("q")
    client.consume("q")
    publish(harness, b"1")
    assert client.bodies() == []
    resume(harness)
    assert client.bodies() == [b"1"]


def test_replies_wait(harness: Harness, pause: Pause) -> None:
    client = harness.client()
    client.declare("q")
    client.consume("amq.rabbitmq.reply-to", "replies", no_ack=True)
    client.publish("q", b"question", reply_to="amq.rabbitmq.reply-to")
    question = client.get("q")
    assert question is not None
    pause(harness)
    publish(harness, b"answer", key=str(question.properties.reply_to))
    assert client.bodies() == []
    resume(harness)
    assert client.bodies() == [b"answer"]


def test_a_consumer_of_one_message_waits(harness: Harness, pause: Pause) -> None:
    client = harness.client()
    client.declare("q")
    publish(harness, b"1", b"2")
    pause(harness)
    client.send(BasicConsume("q", "one", nowait=True, arguments={"x-pull-one": True}))
    assert client.bodies() == []
    resume(harness)
    assert client.bodies() == [b"1"]


def test_stomp_subscriptions_wait(harness: Harness, pause: Pause) -> None:
    harness.vhost.declare_queue("q", durable=True)
    peer = StompPeer.open(harness)
    peer.ask("SUBSCRIBE", id=1, destination="/queue/q")
    pause(harness)
    publish(harness, b"1")
    assert peer.bodies() == []
    resume(harness)
    assert peer.bodies() == [b"1"]


def test_consumers_in_the_process_wait(harness: Harness, pause: Pause) -> None:
    harness.vhost.declare_queue("q")
    given: list[Delivered] = []
    session = LocalSession(in_process_access(harness.vhost), lambda tag, delivered: given.append(delivered))
    session.consume("q")
    pause(harness)
    publish(harness, b"1")
    assert given == []
    resume(harness)
    assert [delivered.body for delivered in given] == [b"1"]


# ---- basic.get


def test_a_get_waits_for_the_end_of_the_pause(harness: Harness, pause: Pause) -> None:
    """get-empty would mean that the queue is empty."""
    client = harness.client()
    client.declare("q")
    publish(harness, b"1")
    pause(harness)
    client.send(BasicGet("q"), BasicGet("q"))
    assert client.heard() == []
    resume(harness)
    got, empty = client.heard()
    assert isinstance(got, Content)
    assert got.body == b"1"
    assert isinstance(empty, BasicGetEmpty)


def test_a_get_that_waits_does_not_survive_its_connection(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    publish(harness, b"1")
    by_call(harness)
    client.send(BasicGet("q"))
    client.vanish()
    resume(harness)
    assert harness.queue("q").ready == 1


def test_the_queue_of_a_get_that_waits_may_be_deleted(harness: Harness) -> None:
    client, other = harness.client(), harness.client()
    client.declare("q")
    by_call(harness)
    client.send(BasicGet("q"))
    other.ask(QueueDelete("q"))
    resume(harness)
    (close,) = client.heard()
    assert isinstance(close, ChannelClose)
    assert close.reply_code == 404


# ---- publishers


def test_publishers_are_blocked_during_the_pause(harness: Harness, client: Client) -> None:
    by_call(harness)
    client.publish("q", b"1")
    assert client.heard() == [ConnectionBlocked(REASON)]
    harness.broker.pause_deliveries("another reason")
    client.publish("q", b"2")
    assert client.heard() == []
    assert harness.broker.alarms == {"engine": REASON}
    resume(harness)
    assert client.heard() == [ConnectionUnblocked()]
    assert harness.queue("q").ready == 2
    assert harness.broker.alarms == {}


def test_other_alarms_stay_when_the_pause_is_over(harness: Harness, client: Client) -> None:
    by_call(harness)
    harness.broker.set_alarm("disk", "free disk space below limit")
    client.publish("q", b"1")
    assert client.heard() == [ConnectionBlocked(f"low on disk, {REASON}")]
    resume(harness)
    assert client.heard() == []
    assert harness.broker.alarms == {"disk": "free disk space below limit"}


def test_the_pause_at_the_deadline_has_a_reason(harness: Harness, client: Client) -> None:
    by_deadline(harness)
    harness.queue("q").touch()
    harness.turn()
    assert harness.broker.alarms == {"engine": NO_ANSWER}


def test_the_deadline_moves_on(harness: Harness, client: Client) -> None:
    client.consume("q")
    for number in range(5):
        harness.broker.resume_deliveries(harness.clock.machine_time() + SECONDS)
        harness.clock.move_to(harness.clock.now() + SECONDS)
        publish(harness, b"%d" % number)
        assert client.bodies() == [b"%d" % number]


@pytest.mark.parametrize("is_paused", [True, False])
def test_stopped_deliveries_do_not_resume(harness: Harness, client: Client, is_paused: bool) -> None:
    client.consume("q")
    if is_paused:
        by_call(harness)
    harness.broker.stop_deliveries("another node leads")
    publish(harness, b"1")
    resume(harness)
    harness.turn()
    assert client.bodies() == []


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client
