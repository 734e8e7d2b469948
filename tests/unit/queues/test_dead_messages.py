"""How messages leave a queue without being consumed: what is counted, what is sent on, and what ActiveMQ's users expect
(S1-12, S1-20..S1-24)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from leveret.errors import PreconditionFailed
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import DeadMessage, QueueOptions
from leveret.wire.content import body_of
from tests.support.peer_pair import Client, Harness
from tests.support.spies import QueueHarness, SpyConsumer, message, messages, ready

DLX: dict[str, Any] = {"dead_letter_exchange": "dlx"}


class Morgue(QueueHarness):
    """A harness in which the dead are only written down."""

    def __init__(self) -> None:
        super().__init__()
        self.dead: list[tuple[str, list[bytes]]] = []
        self.context.dead_letters = self

    def send(self, queue: ClassicQueue, reason: str, messages: Sequence[DeadMessage]) -> None:
        self.dead.append((reason, [body_of(each.message[0]) for each in messages]))
        for each in messages:
            queue.release(each.lane, each.sequence, 1, len(each.message[0]))


@pytest.fixture
def morgue() -> Morgue:
    return Morgue()


def consumer_of(queue: ClassicQueue, credit: int = 1 << 60) -> SpyConsumer:
    consumer = SpyConsumer(queue=queue, credit=credit)
    queue.add_consumer(consumer)
    return consumer


# ---- what dies, and of what


@pytest.mark.feature("S0-21")
def test_ttl_zero_without_a_dead_letter_exchange_is_discarded(morgue: Morgue) -> None:
    queue = morgue.queue(message_ttl=0)
    morgue.publish(queue, message())
    morgue.turn()
    assert (queue.ready, queue.bytes, morgue.dead, queue.counters.expired) == (0, 0, [], 1)


@pytest.mark.feature("S0-22")
def test_ttl_zero_with_a_dead_letter_exchange_is_sent_on(morgue: Morgue) -> None:
    queue = morgue.queue(message_ttl=0, **DLX)
    morgue.publish(queue, *messages(b"a", b"b"))
    morgue.turn()
    assert morgue.dead == [("expired", [b"a", b"b"])]
    assert queue.bytes == 0


@pytest.mark.parametrize("arguments", [{}, DLX], ids=["no exchange", "an exchange"])
def test_ttl_zero_with_a_ready_consumer_is_delivered(morgue: Morgue, arguments: dict[str, Any]) -> None:
    queue = morgue.queue(message_ttl=0, **arguments)
    consumer = consumer_of(queue, credit=2)
    morgue.publish(queue, *messages(b"a", b"b", b"c"))
    morgue.turn()
    assert consumer.bodies == [b"a", b"b"]
    assert morgue.dead == ([("expired", [b"c"])] if arguments else [])


def test_ttl_zero_of_the_message_alone_is_the_same(morgue: Morgue) -> None:
    queue = morgue.queue(**DLX)
    consumer = consumer_of(queue, credit=1)
    morgue.publish(queue, *[message(body, deadline=morgue.clock.now()) for body in (b"a", b"b")])
    morgue.turn()
    assert consumer.bodies == [b"a"]
    assert morgue.dead == [("expired", [b"b"])]


def test_ttl_zero_that_is_given_back_dies(morgue: Morgue) -> None:
    queue = morgue.queue(message_ttl=0, **DLX)
    consumer = consumer_of(queue, credit=1)
    morgue.publish(queue, message(b"a"))
    morgue.turn()
    consumer.requeue(b"a")
    morgue.turn()
    assert morgue.dead == [("expired", [b"a"])]


@pytest.mark.feature("S0-25")
def test_the_limit_comes_before_age(morgue: Morgue) -> None:
    """What is over the limit has gone already when age is looked at."""
    queue = morgue.queue(message_ttl=0, max_length=1, **DLX)
    morgue.publish(queue, *messages(b"a", b"b", b"c"))
    morgue.turn()
    assert morgue.dead == [("maxlen", [b"a", b"b"]), ("expired", [b"c"])]


def test_expired_ones_in_the_middle_are_sent_on(morgue: Morgue) -> None:
    queue = morgue.queue(**DLX)
    soon = morgue.clock.now() + 1
    morgue.publish(queue, message(b"a"), message(b"b", deadline=soon), message(b"c"), message(b"d", deadline=soon))
    morgue.turn()
    morgue.advance(1)
    assert morgue.dead == [("expired", [b"b", b"d"])]
    assert ready(queue) == [b"a", b"c"]


def test_many_that_expire_together_are_sent_on_in_batches_and_in_order(morgue: Morgue) -> None:
    queue = morgue.queue(message_ttl=1000, **DLX)
    bodies = [b"%d" % number for number in range(1000)]
    morgue.publish(queue, *messages(*bodies))
    morgue.turn()
    morgue.advance(1)
    assert [body for _, batch in morgue.dead for body in batch] == bodies
    assert len(morgue.dead) > 1
    assert queue.counters.expired == queue.counters.dead_lettered == 1000


def test_what_is_unacked_does_not_die_of_age(morgue: Morgue) -> None:
    queue = morgue.queue(message_ttl=1000, **DLX)
    consumer = consumer_of(queue, credit=1)
    morgue.publish(queue, message(b"a"))
    morgue.turn()
    morgue.advance(5)
    assert morgue.dead == []
    consumer.requeue(b"a")
    morgue.turn()
    assert morgue.dead == [("expired", [b"a"])]


@pytest.mark.feature("S1-12")
def test_a_refusal_for_good_is_a_death(morgue: Morgue) -> None:
    """Poison, given up."""
    queue = morgue.queue(**DLX)
    consumer = consumer_of(queue)
    morgue.publish(queue, *messages(b"a", b"b"))
    morgue.turn()
    consumer.drop(b"b")
    assert morgue.dead == [("rejected", [b"b"])]
    assert (queue.counters.dropped, queue.counters.dead_lettered, queue.unacked) == (1, 1, 1)


@pytest.mark.feature("S1-12")
def test_without_a_dead_letter_exchange_it_is_deleted(morgue: Morgue) -> None:
    queue = morgue.queue(durable=True)
    consumer = consumer_of(queue)
    morgue.publish(queue, message(b"a", persistent=True))
    morgue.turn()
    consumer.drop(b"a")
    assert (morgue.dead, queue.bytes, queue.counters.dead_lettered) == ([], 0, 0)
    assert morgue.log.settled == [(queue.id, 0, 1, 1)]  # type: ignore[attr-defined]


def test_neither_purge_nor_delete_make_dead_letters(morgue: Morgue) -> None:
    queue = morgue.queue(**DLX)
    morgue.publish(queue, *messages(b"a"))
    morgue.turn()
    queue.purge()
    morgue.publish(queue, *messages(b"b"))
    morgue.turn()
    queue.die()
    assert morgue.dead == []


# ---- as ActiveMQ has it


@pytest.fixture
def client() -> Client:
    return Harness().client()


def spoil(client: Client, queue: str, times: int) -> list[int | None]:
    """Give the first message back so often; how often it was delivered before, each time."""
    counts: list[int | None] = []
    for _ in range(times):
        got = client.get(queue)
        assert got is not None
        counts.append((got.properties.headers or {}).get("x-delivery-count"))  # type: ignore[arg-type]
        client.nack(got.tag)
    return counts


@pytest.mark.feature("S1-20", "S1-21")
def test_seven_deliveries_and_the_next_failure_is_the_end(client: Client) -> None:
    """Six redeliveries; then it lies in ActiveMQ.DLQ and is never given again."""
    client.declare("q", arguments={"x-dead-letter-strategy": "shared"})
    client.publish("q", b"m", delivery_mode=2)
    assert spoil(client, "q", 7) == [None, 1, 2, 3, 4, 5, 6]
    assert client.get("q") is None
    dead = client.get("ActiveMQ.DLQ")
    assert dead is not None
    assert dead.properties.headers["x-first-death-reason"] == "delivery_limit"  # type: ignore[index]


@pytest.mark.feature("S1-21")
def test_the_queue_of_the_dead_is_made_when_it_is_needed(client: Client) -> None:
    """Durable, and for all."""
    harness = client.harness
    for name in ("one", "two"):
        client.declare(name, arguments={"x-dead-letter-strategy": "shared"})
        client.publish(name, name.encode(), delivery_mode=2)
    assert "ActiveMQ.DLQ" not in harness.vhost.queues
    for name in ("one", "two"):
        got = client.get(name)
        assert got is not None
        client.nack(got.tag, requeue=False)
    assert harness.queue("ActiveMQ.DLQ").durable
    assert [client.get("ActiveMQ.DLQ", no_ack=True).body for _ in range(2)] == [b"one", b"two"]  # type: ignore[union-attr]


@pytest.mark.feature("S1-23")
def test_the_shared_queue_may_have_another_name(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-strategy": "shared", "x-dead-letter-queue": "graveyard"})
    client.publish("q", b"m", delivery_mode=2)
    got = client.get("q")
    assert got is not None
    client.nack(got.tag, requeue=False)
    assert client.count("graveyard") == 1


@pytest.mark.parametrize(("more", "name"), [({}, "DLQ.q"), ({"x-dead-letter-queue-prefix": "Dead."}, "Dead.q")])
@pytest.mark.feature("S1-24")
def test_each_queue_may_have_its_own(client: Client, more: dict[str, object], name: str) -> None:
    client.declare("q", arguments={"x-dead-letter-strategy": "individual", **more})
    client.publish("q", b"m", delivery_mode=2)
    got = client.get("q")
    assert got is not None
    client.nack(got.tag, requeue=False)
    assert client.count(name) == 1


@pytest.mark.feature("S1-17", "S1-22")
def test_expired_persistent_messages_go_there_and_others_do_not(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-strategy": "shared"})
    client.publish("q", b"kept", delivery_mode=2, expiration="1000")
    client.publish("q", b"passing", delivery_mode=1, expiration="1000")
    client.harness.advance(1)
    assert client.count("q") == 0
    assert [client.get("ActiveMQ.DLQ").body, client.get("ActiveMQ.DLQ")] == [b"kept", None]  # type: ignore[union-attr]
    assert client.harness.queue("q").bytes == 0


@pytest.mark.feature("S1-22")
def test_unless_it_is_configured(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-strategy": "shared", "x-process-non-persistent": True})
    client.publish("q", b"passing", expiration="1000")
    client.harness.advance(1)
    assert client.count("ActiveMQ.DLQ") == 1


@pytest.mark.feature("S1-22")
def test_expired_ones_may_be_left_out(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-strategy": "shared", "x-process-expired": False})
    client.publish("q", b"old", delivery_mode=2, expiration="1000")
    client.harness.advance(1)
    client.publish("q", b"refused", delivery_mode=2)
    got = client.get("q")
    assert got is not None
    client.nack(got.tag, requeue=False)
    assert [client.get("ActiveMQ.DLQ").body, client.get("ActiveMQ.DLQ")] == [b"refused", None]  # type: ignore[union-attr]


def test_poison_that_is_not_persistent_is_dropped(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-strategy": "shared", "x-max-redeliveries": 0})
    client.publish("q", b"m")
    spoil(client, "q", 1)
    assert "ActiveMQ.DLQ" not in client.harness.vhost.queues
    assert client.harness.queue("q").bytes == 0


@pytest.mark.feature("S1-27")
def test_the_queue_of_the_dead_is_an_ordinary_one(client: Client) -> None:
    """What lies in it can be consumed, given back and sent again; what dies in it stays dead."""
    client.declare("ActiveMQ.DLQ", durable=True, arguments={"x-dead-letter-strategy": "shared"})
    client.declare("q", arguments={"x-dead-letter-strategy": "shared"})
    client.publish("q", b"m", delivery_mode=2)
    got = client.get("q")
    assert got is not None
    client.nack(got.tag, requeue=False)
    assert spoil(client, "ActiveMQ.DLQ", 1) == [None]
    again = client.get("ActiveMQ.DLQ")
    assert again is not None
    assert again.body == b"m"
    client.nack(again.tag, requeue=False)
    assert client.count("ActiveMQ.DLQ") == 0


def test_a_name_that_grows_too_long_costs_the_message_and_nothing_else(client: Client) -> None:
    name = "q" * 255
    client.declare(name, arguments={"x-dead-letter-strategy": "individual"})
    client.publish(name, b"m", delivery_mode=2)
    got = client.get(name)
    assert got is not None
    client.nack(got.tag, requeue=False)
    queue = client.harness.queue(name)
    assert (queue.unacked, queue.bytes) == (0, 0)
    assert all(len(each) <= 255 for each in client.harness.vhost.queues)
    assert client.count(name) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"x-dead-letter-strategy": "none"}, "none"),
        ({"x-dead-letter-routing-key": "k"}, "x-dead-letter-routing-key"),
        ({"x-dead-letter-exchange": 1}, "x-dead-letter-exchange"),
        ({"x-dead-letter-strategy": "shared", "x-process-expired": "yes"}, "x-process-expired"),
        ({"x-max-redeliveries": -2}, "x-max-redeliveries"),
        ({"x-overflow": "drop-tail"}, "drop-tail"),
        ({"x-max-length": -1}, "x-max-length"),
        ({"x-max-length-bytes": 1.5}, "1.5"),
        ({"x-pending-message-limit": True}, "x-pending-message-limit"),
    ],
)
def test_a_wrong_value_is_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        QueueOptions.of(arguments)
    assert named in refusal.value.text
