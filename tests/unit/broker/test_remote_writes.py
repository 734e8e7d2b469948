"""Messages that the broker sends to queues that answer later keep their old place until these queues have them."""

from __future__ import annotations

import pytest

from leveret.broker.remote_writes import RETRY_AFTER
from leveret.wire.methods import QueueBind, QueueDelete
from tests.support.peer_pair import Client, Harness
from tests.support.remote_queues import ManualLog, make_remote
from tests.support.stored_harness import StoredHarness

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


@pytest.fixture
def client(harness: StoredHarness) -> Client:
    client = harness.client()
    client.declare("dead", durable=True)
    client.declare("q", durable=True, arguments=TO_DEAD)
    return client


@pytest.fixture
def log(harness: StoredHarness, client: Client) -> ManualLog:
    return make_remote(harness.vhost, "dead")


def reject(client: Client, *bodies: bytes, queue: str = "q") -> None:
    client.publish(queue, *bodies, delivery_mode=2)
    client.harness.rest()
    for _ in bodies:
        got = client.get(queue)
        assert got is not None
        client.nack(got.tag, requeue=False)
    client.harness.rest()


def left_by(harness: StoredHarness, queue: str) -> list[bytes]:
    """The messages that the queue would have after a crash."""
    return harness.crashed().again().waiting_on_disk(queue)


# ---- dead letters


def test_a_dead_letter_leaves_its_queue_when_the_other_queue_has_it(
    harness: StoredHarness, client: Client, log: ManualLog
) -> None:
    reject(client, b"1", b"2")
    assert len(log.waiting) == 2
    assert left_by(harness, "q") == [b"1", b"2"]
    log.receive()
    assert left_by(harness, "q") == [b"1", b"2"]
    log.grant()
    harness.rest()
    assert left_by(harness, "q") == []
    assert client.count("dead") == 2
    assert harness.queue("q").bytes == 0


@pytest.mark.parametrize("end", ["refuse", "lose"])
def test_a_dead_letter_that_is_refused_or_lost_stays_and_is_sent_again(
    harness: StoredHarness, client: Client, log: ManualLog, end: str
) -> None:
    reject(client, b"1")
    getattr(log, end)()
    harness.rest()
    assert left_by(harness, "q") == [b"1"]
    harness.advance(RETRY_AFTER)
    getattr(log, end)()
    harness.advance(RETRY_AFTER)
    assert log.waiting == [], "the pause grows"
    harness.advance(RETRY_AFTER)
    log.let_in()
    harness.rest()
    assert (left_by(harness, "q"), client.count("dead")) == ([], 1)


def test_a_dead_letter_is_not_ready_while_it_waits(harness: StoredHarness, client: Client, log: ManualLog) -> None:
    reject(client, b"1")
    assert (client.count("q"), harness.queue("q").unacked) == (0, 0)


def test_dead_letters_for_a_deleted_queue_are_dropped(harness: StoredHarness, client: Client, log: ManualLog) -> None:
    reject(client, b"1")
    client.ask(QueueDelete("dead"))
    harness.advance(RETRY_AFTER)
    harness.rest()
    assert left_by(harness, "q") == []


def test_a_queue_declared_again_gets_the_dead_letters(harness: StoredHarness, client: Client, log: ManualLog) -> None:
    reject(client, b"1")
    client.ask(QueueDelete("dead"))
    client.declare("dead", durable=True)
    harness.advance(RETRY_AFTER)
    harness.rest()
    assert (left_by(harness, "q"), client.count("dead")) == ([], 1)


def test_dead_letters_of_a_deleted_queue_change_nothing_any_more(
    harness: StoredHarness, client: Client, log: ManualLog
) -> None:
    reject(client, b"1")
    client.ask(QueueDelete("q"))
    log.let_in()
    harness.rest()
    assert client.count("dead") == 1
    assert harness.broker.gauge.used == harness.queue("dead").accounted


@pytest.mark.parametrize("end", ["refuse", "lose", "let_in"])
def test_a_queue_of_this_broker_gets_a_dead_letter_once(
    harness: StoredHarness, client: Client, log: ManualLog, end: str
) -> None:
    """With the removal from the old queue, however often the other queue is tried."""
    client.declare("beside", durable=True)
    for name in ("dead", "beside"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.declare("fans", durable=True, arguments={"x-dead-letter-exchange": "amq.fanout"})
    reject(client, b"1", queue="fans")
    getattr(log, end)()
    harness.advance(RETRY_AFTER)
    log.let_in()
    harness.rest()
    assert (client.count("beside"), client.count("dead"), left_by(harness, "fans")) == (1, 1, [])


def test_expired_and_dropped_messages_wait_in_the_same_way(
    harness: StoredHarness, client: Client, log: ManualLog
) -> None:
    client.declare("short", durable=True, arguments={**TO_DEAD, "x-message-ttl": 1000, "x-max-length": 1})
    client.publish("short", b"1", b"2", delivery_mode=2)
    harness.advance(2)
    harness.rest()
    log.refuse()
    harness.rest()
    assert harness.waiting_on_disk("short") == [b"1", b"2"]
    harness.advance(RETRY_AFTER)
    log.let_in()
    harness.rest()
    assert sorted([client.get("dead").body, client.get("dead").body]) == [b"1", b"2"]  # type: ignore[union-attr]


def test_messages_routed_by_headers_wait_one_by_one(harness: StoredHarness, client: Client, log: ManualLog) -> None:
    client.declare("here", durable=True)
    client.ask(QueueBind("dead", "amq.headers", arguments={"to": "dead"}))
    client.ask(QueueBind("here", "amq.headers", arguments={"to": "here"}))
    client.declare("both", durable=True, arguments={"x-dead-letter-exchange": "amq.headers", "x-max-length": 0})
    for to in ("here", "dead"):
        client.publish("both", to.encode(), delivery_mode=2, headers={"to": to})
    harness.rest()
    assert (client.count("here"), len(log.waiting)) == (1, 1)
    log.let_in()
    harness.rest()
    assert (client.count("dead"), harness.queue("both").bytes) == (1, 0)


# ---- scheduled messages


@pytest.mark.parametrize("end", ["refuse", "lose"])
def test_a_scheduled_message_waits_until_its_queue_has_it(
    harness: StoredHarness, client: Client, log: ManualLog, end: str
) -> None:
    due = int((harness.clock.wall() + 1) * 1000)
    client.feed(client.published("", "dead", b"later", headers={"x-deliver-at": due}, delivery_mode=2))
    harness.advance(1)
    getattr(log, end)()
    harness.rest()
    assert harness.vhost.schedules.queue.bytes > 0
    harness.advance(RETRY_AFTER)
    log.let_in()
    harness.rest()
    assert client.count("dead") == 1
    assert (harness.vhost.schedules.queue.bytes, harness.vhost.schedules.sent) == (0, 1)


def test_ordinary_queues_are_not_waited_for() -> None:
    harness = Harness()
    client = harness.client()
    client.declare("dead")
    client.declare("q", arguments=TO_DEAD)
    reject(client, b"1")
    assert (client.count("dead"), harness.queue("q").bytes) == (1, 0)
