"""Messages that the broker sends to queues that answer later keep their old place until these queues have them."""

from __future__ import annotations

import pytest

from leveret.api.views.queue import state_of
from leveret.backlog.scattered_read import STRETCH
from leveret.broker.remote_writes import RETRY_AFTER
from leveret.queues import departures
from leveret.queues.options import BATCH
from leveret.wire.methods import BasicQos, QueueBind, QueueDelete
from tests.support.peer_pair import Client, Content, Harness
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


def test_of_a_run_of_dead_letters_only_what_was_refused_is_sent_again(
    harness: StoredHarness, client: Client, log: ManualLog
) -> None:
    client.publish("q", b"1", b"2", b"3", delivery_mode=2)
    harness.rest()
    client.consume("q")
    client.nack(3, multiple=True, requeue=False)
    harness.rest()
    (run,) = log.waiting
    log.waiting.clear()
    harness.queue("dead").publish([run.publish.run[place] for place in (0, 2)], run.size, timed=False)
    run.receipts[0].refused([1])
    harness.rest()
    assert left_by(harness, "q") == [b"1", b"2", b"3"]
    harness.advance(RETRY_AFTER)
    log.let_in()
    harness.rest()
    assert left_by(harness, "q") == []
    client.consume("dead", "dead", no_ack=True)
    assert client.bodies()[3:] == [b"1", b"3", b"2"]


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


# ---- a cell that is away for long


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many messages may be on their way."""
    monkeypatch.setattr(departures, "MOST_CREDITS", 100)
    return 100


def under_way(log: ManualLog) -> int:
    """Messages in memory on their way to the other cell, which refuses everything."""
    number = sum(len(each.publish.run) for each in log.waiting)
    log.refuse()
    return number


@pytest.mark.parametrize("memory", [4_000, 1 << 20], ids=["on disk", "in memory"])
def test_few_expired_messages_wait_for_a_cell_that_is_away(few: int, memory: int) -> None:
    """The others wait in their queue, and expire when the cell is back."""
    harness = StoredHarness(queue_memory=memory)
    client = harness.client()
    client.declare("dead", durable=True)
    client.declare("q", durable=True, arguments={**TO_DEAD, "x-message-ttl": 1_000})
    log = make_remote(harness.vhost, "dead")
    number = 3_000
    client.publish("q", *(b"%d" % body for body in range(number)), delivery_mode=2)
    harness.rest()
    harness.advance(2)
    assert few <= under_way(log) < few + 2 * STRETCH
    harness.advance(60)
    assert few <= under_way(log) < few + 2 * STRETCH
    assert client.get("q") is None, "what has expired is not delivered"
    assert state_of(harness.queue("q")) == "flow"
    for _ in range(number):
        harness.advance(RETRY_AFTER)
        log.let_in()
        harness.rest()
        if client.count("dead") == number:
            break
    bodies = [got.body for _ in range(number) if (got := client.get("dead", no_ack=True)) is not None]
    assert sorted(bodies, key=int) == [b"%d" % body for body in range(number)]
    assert (harness.queue("q").outstanding, harness.queue("q").bytes) == (0, 0)
    assert state_of(harness.queue("q")) == "running"
    client.publish("q", b"next")
    assert client.get("q", no_ack=True) is not None


def test_a_consumer_that_rejects_gets_nothing_more_while_many_dead_letters_wait(
    harness: StoredHarness, client: Client, log: ManualLog, few: int
) -> None:
    client.publish("q", *(b"%d" % body for body in range(300)), delivery_mode=2)
    client.send(BasicQos(0, 10))
    client.consume("q")
    rejected = 0
    while got := client.heard():
        for each in got:
            if isinstance(each, Content):
                client.nack(each.tag, requeue=False)
                rejected += 1
        harness.rest()
    assert few <= rejected <= few + 10
    log.let_in()
    harness.rest()
    assert len([each for each in client.heard() if isinstance(each, Content)]) == 10


def test_dead_letters_of_rejected_publishes_are_dropped_when_too_many_wait(
    harness: StoredHarness, client: Client, log: ManualLog, few: int
) -> None:
    full = {**TO_DEAD, "x-max-length": 1, "x-overflow": "reject-publish-dlx"}
    client.declare("full", durable=True, arguments=full)
    client.publish("full", *(b"%d" % body for body in range(1 + 2 * few)), delivery_mode=2)
    harness.rest()
    assert under_way(log) == few


def test_scheduled_messages_that_are_due_wait_in_the_schedule(
    harness: StoredHarness, client: Client, log: ManualLog, few: int
) -> None:
    due = int((harness.clock.wall() + 1) * 1000)
    number = few + 2 * BATCH
    for body in range(number):
        client.feed(client.published("", "dead", b"%d" % body, headers={"x-deliver-at": due}, delivery_mode=2))
    harness.advance(1)
    assert few <= under_way(log) < few + BATCH
    for _ in range(8):
        harness.advance(RETRY_AFTER)
        log.let_in()
        harness.rest()
    assert client.count("dead") == number
