"""Consumers over AMQP: prefetch, priorities, turns, cancelling (S4-46..S4-48, S4-55)."""

from __future__ import annotations

import pytest

from leveret.session.consumers import BURST_BYTES
from leveret.session.limits import Limits
from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    ChannelClose,
    QueueDelete,
    QueueDeleteOk,
)
from tests.support.peer_pair import Client, Content, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


def by_tag(client: Client) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for what in client.heard():
        assert isinstance(what, Content)
        found.setdefault(what.method.consumer_tag, []).append(what.body)  # type: ignore[union-attr]
    return found


@pytest.mark.feature("S4-47")
def test_consume_ok_comes_before_the_first_delivery(client: Client) -> None:
    client.publish("q", b"a")
    client.send(BasicConsume("q", "mine"))
    answer, delivery = client.heard()
    assert answer == BasicConsumeOk("mine")
    assert isinstance(delivery, Content)
    assert (delivery.tag, delivery.redelivered, delivery.body) == (1, False, b"a")


def test_a_consumer_without_a_tag_gets_one(client: Client) -> None:
    answer = client.ask(BasicConsume("q"))
    assert isinstance(answer, BasicConsumeOk)
    assert answer.consumer_tag.startswith("amq.ctag-")


@pytest.mark.feature("S4-46")
def test_consuming_from_an_unknown_queue_is_an_error(client: Client) -> None:
    client.send(BasicConsume("nothing"))
    assert client.error() == (404, "NOT_FOUND - no queue 'nothing' in vhost '/'")


def test_a_reused_consumer_tag_ends_the_connection(client: Client) -> None:
    client.consume("q", "mine")
    client.consume("q", "mine")
    assert client.error() == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'")


@pytest.mark.feature("S4-48")
def test_consumers_take_turns(client: Client) -> None:
    for tag in ("one", "two", "three"):
        client.consume("q", tag)
    client.publish("q", *[b"%d" % number for number in range(7)])
    assert by_tag(client) == {"one": [b"0", b"3", b"6"], "two": [b"1", b"4"], "three": [b"2", b"5"]}


def test_a_consumer_with_higher_priority_goes_first_until_it_is_full(client: Client) -> None:
    client.qos(2)
    client.consume("q", "low", arguments={"x-priority": -5})
    client.consume("q", "high", arguments={"x-priority": 5})
    client.publish("q", b"0", b"1", b"2", b"3", b"4")
    assert by_tag(client) == {"high": [b"0", b"1"], "low": [b"2", b"3"]}


@pytest.mark.parametrize("value", ["1", 1.5, True])
def test_a_priority_that_is_no_number_is_refused(client: Client, value: object) -> None:
    client.send(BasicConsume("q", arguments={"x-priority": value}))  # type: ignore[dict-item]
    code, text = client.error()
    assert code == 406
    assert "x-priority" in text


def test_prefetch_is_per_consumer_and_for_those_to_come(client: Client) -> None:
    client.qos(1)
    client.consume("q", "one")
    client.qos(2)
    client.consume("q", "two")
    client.publish("q", *[b"%d" % number for number in range(9)])
    assert {tag: len(bodies) for tag, bodies in by_tag(client).items()} == {"one": 1, "two": 2}


def test_a_shared_prefetch_is_for_the_whole_channel(client: Client) -> None:
    client.qos(3, shared=True)
    client.declare("p")
    client.consume("q", "one")
    client.consume("p", "two")
    client.publish("q", b"a", b"b")
    client.publish("p", b"c", b"d")
    assert client.bodies() == [b"a", b"b", b"c"]
    client.ack(1)
    assert client.bodies() == [b"d"]


def test_queues_take_turns_within_a_shared_prefetch(client: Client) -> None:
    client.qos(1, shared=True)
    queues = ("r", "s", "t")
    for queue in queues:
        client.declare(queue)
        client.publish(queue, *[queue.encode()] * 9)
    for queue in queues:
        client.consume(queue, queue)
    delivered = client.bodies()
    for tag in range(1, 9):
        client.ack(tag)
        delivered += client.bodies()
    assert sorted(delivered) == [b"r"] * 3 + [b"s"] * 3 + [b"t"] * 3


def test_a_used_up_shared_prefetch_holds_back_consumers_without_acks(client: Client) -> None:
    client.declare("p")
    client.qos(1, shared=True)
    client.consume("q", "one")
    client.consume("p", "two", no_ack=True)
    client.publish("q", b"a")
    client.publish("p", b"b", b"c")
    assert client.bodies() == [b"a"]
    client.ack(1)
    assert client.bodies() == [b"b", b"c"]


def test_replies_pass_a_used_up_shared_prefetch(client: Client) -> None:
    """They are delivered past the queue's prefetch, as RabbitMQ does it."""
    client.qos(1, shared=True)
    client.consume("q")
    client.publish("q", b"a")
    client.consume("amq.rabbitmq.reply-to", "replies", no_ack=True)
    client.publish("q", b"question", reply_to="amq.rabbitmq.reply-to")
    assert client.bodies() == [b"a"]
    client.ack(1)
    (question,) = client.heard()
    assert isinstance(question, Content)
    client.publish(str(question.properties.reply_to), b"answer")
    assert client.bodies() == [b"answer"]


def test_a_shared_and_a_consumers_own_prefetch_hold_together(client: Client) -> None:
    client.qos(3, shared=True)
    client.qos(2)
    client.consume("q", "one")
    client.publish("q", b"a", b"b", b"c")
    assert client.bodies() == [b"a", b"b"]
    client.consume("q", "two")
    assert client.bodies() == [b"c"]


def test_changing_the_shared_prefetch_takes_effect_at_once(client: Client) -> None:
    client.qos(1, shared=True)
    client.consume("q")
    client.publish("q", b"a", b"b", b"c", b"d")
    assert client.bodies() == [b"a"]
    client.send(BasicQos(0, 3, True))
    assert client.bodies() == [b"b", b"c"]
    client.send(BasicQos(0, 1, True))
    client.send(BasicAck(2, multiple=True))
    assert client.bodies() == []
    client.ack(3)
    assert client.bodies() == [b"d"]
    client.publish("q", b"e", b"f")
    client.send(BasicQos(0, 0, True))
    assert client.bodies() == [b"e", b"f"]


def test_messages_that_need_no_ack_do_not_count(client: Client) -> None:
    client.qos(1)
    client.qos(1, shared=True)
    client.consume("q", no_ack=True)
    client.publish("q", b"a", b"b", b"c")
    assert client.bodies() == [b"a", b"b", b"c"]
    client.ack(1)
    assert client.error()[0] == 406


def test_getting_by_hand_counts_against_no_prefetch(client: Client) -> None:
    client.qos(1, shared=True)
    client.publish("q", b"a", b"b")
    assert client.get("q").body == b"a"  # type: ignore[union-attr]
    client.consume("q")
    assert client.bodies() == [b"b"]


def test_a_cancelled_consumer_keeps_what_it_has(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"a")
    client.heard()
    assert client.ask(BasicCancel("tag")) == BasicCancelOk("tag")
    client.publish("q", b"b")
    assert client.heard() == []
    assert (harness.queue("q").unacked, client.count("q")) == (1, 1)
    client.ack(1)
    assert harness.queue("q").unacked == 0
    assert client.ask(BasicCancel("unknown")) == BasicCancelOk("unknown")
    client.send(BasicCancel("unknown", nowait=True))
    assert client.heard() == []


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}])
def test_a_consumer_gets_what_arrived_before_its_cancel(client: Client, arguments: Table) -> None:
    client.declare("p", arguments=arguments)
    client.consume("p", "low", no_ack=True)
    client.consume("p", "high", no_ack=True, arguments={"x-priority": 5})
    publishes = b"".join(client.published("", "p", b"%d" % number) for number in range(10))
    client.feed(publishes + method_frame(1, BasicCancel("high", nowait=True)) + client.published("", "p", b"last"))
    assert by_tag(client) == {"high": [b"%d" % number for number in range(10)], "low": [b"last"]}


@pytest.mark.parametrize("nowait", [False, True])
def test_a_channel_that_deletes_its_queue_gets_delete_ok_before_the_cancel(client: Client, nowait: bool) -> None:
    client.consume("q")
    client.send(QueueDelete("q", nowait=nowait))
    answers = [] if nowait else [QueueDeleteOk(0)]
    assert client.heard() == [*answers, BasicCancel("tag", nowait=True)]


@pytest.mark.feature("S4-73")
def test_a_consumer_of_a_deleted_queue_is_told_if_it_wants(harness: Harness, client: Client) -> None:
    modest = harness.client(capabilities={})
    for each in (client, modest):
        each.consume("q")
    harness.client().ask(QueueDelete("q"))
    assert client.heard() == [BasicCancel("tag", nowait=True)]
    assert modest.heard() == []
    client.declare("q")
    client.consume("q")
    assert client.count("q") == 0


def test_an_exclusive_consumer_shuts_out_the_others(harness: Harness, client: Client) -> None:
    client.consume("q", exclusive=True)
    other = harness.client()
    other.consume("q")
    assert other.error() == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


@pytest.mark.feature("S4-55", "S4-61")
def test_a_closed_channel_gives_its_messages_to_the_others_in_their_place(harness: Harness, client: Client) -> None:
    other = harness.client()
    client.consume("q")
    client.publish("q", b"a", b"b", b"c")
    client.heard()
    client.ack(2)
    other.consume("q")
    client.send(ChannelClose(200, "bye"))
    assert [(what.body, what.redelivered) for what in other.heard()] == [(b"a", True), (b"c", True)]  # type: ignore[union-attr]


@pytest.mark.feature("S4-61")
def test_a_vanished_client_leaves_nothing_behind(harness: Harness, client: Client) -> None:
    client.declare("own", exclusive=True)
    client.publish("q", b"a")
    client.consume("q")
    client.heard()
    client.feed(client.published("", "q", b"x" * 1000)[:500])
    client.vanish()
    other = harness.client()
    assert (other.count("q"), list(harness.vhost.queues)) == (1, ["q"])
    assert other.get("q").redelivered  # type: ignore[union-attr]
    other.ack(1)
    harness.turn()
    assert harness.broker.gauge.used == 0
    assert len(harness.broker.registry) == 1


def test_content_is_made_to_fit_the_consumers_channel_and_frames(harness: Harness) -> None:
    wide, narrow = harness.client(), harness.client(frame_max=4096)
    narrow.open_channel(9)
    wide.declare("q")
    narrow.consume("q", channel=9)
    bodies = [b"x" * size for size in (0, 1, 4088, 4089, 50_000)]
    wide.publish("q", *bodies)
    assert len(narrow.socket.written) > 50_000
    assert narrow.bodies(9) == bodies


def test_a_consumer_that_cannot_be_written_to_gets_nothing_and_goes_on_later(harness: Harness, client: Client) -> None:
    client.consume("q", no_ack=True)
    client.session.outbox.set_writable(False)
    client.publish("q", b"a", b"b")
    assert (client.heard(), harness.queue("q").ready) == ([], 2)
    client.session.outbox.set_writable(True)
    harness.turn()
    assert client.bodies() == [b"a", b"b"]


def test_one_consumers_large_messages_come_in_portions_and_all_arrive() -> None:
    harness = Harness(limits=Limits(write_high_watermark=BURST_BYTES))
    client = harness.client()
    client.declare("q")
    client.consume("q")
    bodies = [b"%d" % number + b"x" * 100_000 for number in range(30)]
    client.publish("q", *bodies)
    assert client.bodies() == bodies
