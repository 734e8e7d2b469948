"""Lives of a broker on one disk: what comes back after a clean stop and after a crash, and how it is marked."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.store.definitions import QueueRow
from leveret.wire.fields import encode_table
from leveret.wire.methods import BasicGetEmpty, ConfirmSelect, QueuePurge, TxCommit, TxSelect
from tests.support.peer_pair import Client, Content
from tests.support.stored_harness import StoredHarness


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness(queue_memory=64 << 10)


def put(client: Client, queue: str, *bodies: bytes, **more: object) -> None:
    client.publish(queue, *bodies, delivery_mode=2, **more)


def taken(harness: StoredHarness, queue: str) -> list[tuple[bytes, bool]]:
    """All messages of a queue, with their redelivered marks; they stay unacked."""
    client = harness.client()
    client.consume(queue)
    return [(what.body, what.redelivered) for what in client.heard() if isinstance(what, Content)]


def durable(harness: StoredHarness, **arguments: object) -> Client:
    client = harness.client()
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    client.declare("q", durable=True, arguments=table)
    return client


# ---- a clean stop


@pytest.mark.feature("S4-30")
def test_everything_comes_back_after_a_clean_stop(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", b"b", b"c")
    harness = harness.stopped().again()
    assert harness.restored == 3
    assert harness.client().count("q") == 3
    assert taken(harness, "q") == [(b"a", False), (b"b", False), (b"c", False)]


@pytest.mark.feature("S4-30")
def test_exactly_those_delivered_before_are_marked_after_a_clean_stop(harness: StoredHarness) -> None:
    """Delivered and unacked, got, or returned; those behind were never seen."""
    client = durable(harness)
    put(client, "q", *[b"%d" % number for number in range(8)])
    client.qos(4)
    client.consume("q")
    assert len(client.bodies()) == 4
    client.ack(2)
    client.send()
    harness = harness.stopped().again()
    marks = taken(harness, "q")
    assert marks == [(b"0", True), (b"2", True), (b"3", True), (b"4", True), *[(b"%d" % n, False) for n in (5, 6, 7)]]


@pytest.mark.feature("S4-30")
def test_marks_last_through_lives_in_which_nothing_is_delivered(harness: StoredHarness) -> None:
    """Also when the messages were never loaded."""
    client = durable(harness)
    put(client, "q", b"a", b"b", b"c")
    assert client.get("q") is not None
    for _ in range(3):
        harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"a", True), (b"b", False), (b"c", False)]


def test_marks_of_a_crash_last_through_clean_stops(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", b"b")
    harness = harness.crashed().again()
    put(harness.client(), "q", b"c")
    for _ in range(2):
        harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"a", True), (b"b", True), (b"c", False)]


@pytest.mark.feature("S4-30")
def test_marks_last_although_the_messages_stay_on_disk(harness: StoredHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivered in no life since the crash, and read in none."""
    monkeypatch.setattr(pager, "LOAD_BYTES", 100)
    put(durable(harness), "q", *[b"%02d" % number for number in range(20)])
    harness = harness.crashed().again()
    put(harness.client(), "q", b"20")
    harness = harness.stopped().again()
    assert harness.queue("q").lane.paged >= 15
    harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"%02d" % number, number < 20) for number in range(21)]


def test_messages_of_a_queue_that_cannot_be_restored_are_kept(harness: StoredHarness) -> None:
    """Another version of the program may know what to do with it."""
    put(durable(harness), "q", b"a")
    life = harness.stopped()
    (key, row) = next((key, row) for key, row in life.disk.rows.items() if isinstance(row, QueueRow))
    life.disk.rows[key] = row._replace(arguments=encode_table({"x-queue-type": "of-a-newer-version"}))
    harness = life.again()
    assert "q" not in harness.vhost.queues
    assert harness.restored == 0
    life = harness.stopped()
    life.disk.rows[key] = row
    assert taken(life.again(), "q") == [(b"a", False)]


def test_transient_messages_do_not_come_back(harness: StoredHarness) -> None:
    client = durable(harness)
    client.publish("q", b"t")
    put(client, "q", b"a")
    client.publish("q", b"u")
    harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"a", False)]


def test_what_was_acked_does_not_come_back_after_a_clean_stop(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", b"b", b"c")
    client.consume("q")
    client.bodies()
    harness.is_slow = True
    client.ack(2, multiple=True)
    harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"c", True)]


def test_a_returned_message_comes_back_in_its_place(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", b"b", b"c")
    assert client.get("q") is not None
    assert client.get("q") is not None
    client.nack(1)
    client.ack(2)
    harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"a", True), (b"c", False)]


@pytest.mark.feature("S4-30")
def test_a_queue_that_was_emptied_goes_on(harness: StoredHarness) -> None:
    """Sequences are not used twice, so nothing old settles anything new."""
    client = durable(harness)
    for life in range(4):
        put(client, "q", *[b"%d-%d" % (life, number) for number in range(5)])
        client.consume("q", no_ack=True)
        assert len(client.bodies()) == 5
        harness = (harness.stopped() if life % 2 else harness.crashed()).again()
        client = harness.client()
        assert client.count("q") == 0
    put(client, "q", b"last")
    harness = harness.crashed().again()
    assert taken(harness, "q") == [(b"last", True)]


@pytest.mark.feature("S4-15", "S4-73")
def test_durable_auto_delete_queues_survive_a_stop(harness: StoredHarness) -> None:
    """Their consumers leave because the broker goes; in the next life they live on."""
    client = harness.client()
    client.declare("auto", durable=True, auto_delete=True)
    put(client, "auto", b"a")
    client.consume("auto")
    harness = harness.stopped().again()
    assert taken(harness, "auto") == [(b"a", True)]
    harness.clients[-1].vanish()
    assert "auto" not in harness.vhost.queues
    harness = harness.stopped().again()
    assert "auto" not in harness.vhost.queues


def test_exclusive_queues_do_not_come_back(harness: StoredHarness) -> None:
    client = harness.client()
    client.declare("own", durable=True, exclusive=True)
    put(client, "own", b"a")
    harness = harness.crashed().again()
    assert "own" not in harness.vhost.queues
    assert harness.restored == 0


# ---- priorities and time


def test_priorities_come_back_in_their_order(harness: StoredHarness) -> None:
    client = durable(harness, max_priority=2)
    for number, priority in enumerate([0, 2, 1, 5, 0, 1]):
        put(client, "q", b"%d" % number, priority=priority)
    assert client.get("q") is not None, "the first of the highest"
    harness = harness.stopped().again()
    assert taken(harness, "q") == [(b"1", True), (b"3", False), *[(b"%d" % n, False) for n in (2, 5, 0, 4)]]


def test_an_expiration_goes_on_while_the_broker_is_down(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a")
    put(client, "q", b"b", expiration="5500")
    put(client, "q", b"c", expiration="20500")
    harness.advance(2)
    harness = harness.stopped(seconds=2).again()
    assert harness.client().count("q") == 3
    harness.advance(1)
    assert harness.client().count("q") == 3
    harness.advance(1)
    assert harness.client().count("q") == 2
    harness = harness.crashed(seconds=60).again()
    assert taken(harness, "q") == [(b"a", True)]


def test_the_ttl_of_a_queue_goes_on_while_the_broker_is_down(harness: StoredHarness) -> None:
    client = durable(harness, message_ttl=10_500)
    put(client, "q", b"a")
    harness.advance(4)
    put(client, "q", b"b")
    harness = harness.stopped(seconds=5).again()
    assert harness.client().count("q") == 2
    harness.advance(2)
    assert harness.client().count("q") == 1
    harness = harness.stopped(seconds=60).again()
    assert taken(harness, "q") == []
    assert harness.queue("q").ready == 0
    assert harness.broker.gauge.used == 0


def test_an_expired_message_is_not_delivered_to_the_first_consumer_of_the_next_life(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", expiration="500")
    put(client, "q", b"b")
    life = harness.crashed(seconds=1)
    assert taken(life.again(), "q") == [(b"b", True)]


def test_queues_that_expire_unused_begin_anew(harness: StoredHarness) -> None:
    durable(harness, expires=10_000)
    harness.advance(9)
    harness = harness.stopped().again()
    harness.advance(9)
    assert "q" in harness.vhost.queues
    harness.advance(1)
    assert "q" not in harness.vhost.queues
    assert "q" not in harness.stopped().again().vhost.queues


# ---- a crash


@pytest.mark.feature("S4-30")
def test_what_was_confirmed_comes_back_after_a_crash_and_is_marked(harness: StoredHarness) -> None:
    client = durable(harness)
    client.ask(ConfirmSelect())
    put(client, "q", b"a", b"b")
    assert len(client.heard()) == 1
    harness.is_slow = True
    put(client, "q", b"c")
    assert client.heard() == []
    harness = harness.crashed().again()
    assert taken(harness, "q") == [(b"a", True), (b"b", True)]


def test_what_was_written_and_not_synced_may_come_back(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a")
    harness.is_slow = True
    put(client, "q", b"b")
    harness.store.journal.hand_over()
    batches = harness.store.batches
    for batch in batches:
        batch.sync = False
    harness.store.writer.run(batches)
    assert taken(harness.crashed(image=0).again(), "q") == [(b"a", True), (b"b", True)]
    assert taken(harness.crashed().again(), "q") == [(b"a", True)]


def test_a_purge_that_was_answered_is_not_undone_by_a_crash(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", b"b")
    client.ask(QueuePurge("q"))
    put(client, "q", b"c")
    assert taken(harness.crashed().again(), "q") == [(b"c", True)]


def test_a_transaction_comes_back_whole_or_not_at_all(harness: StoredHarness) -> None:
    client = durable(harness)
    client.declare("out", durable=True)
    put(client, "q", b"a")
    client.ask(TxSelect())
    assert client.get("q") is not None
    client.ack(1)
    put(client, "out", b"b")
    harness.is_slow = True
    client.send(TxCommit())
    before = harness.crashed().again()
    assert (taken(before, "q"), taken(before, "out")) == ([(b"a", True)], [])
    harness.write()
    assert len(client.heard()) == 1
    after = harness.crashed().again()
    assert (taken(after, "q"), taken(after, "out")) == ([], [(b"b", True)])


@pytest.mark.feature("S4-26")
def test_what_is_restored_waits_on_disk_until_it_is_wanted(
    harness: StoredHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million messages must not be read before the doors open."""
    monkeypatch.setattr(pager, "LOAD_BYTES", 200)
    client = durable(harness)
    put(client, "q", *[b"%02d" % number for number in range(50)])
    harness = harness.stopped().again()
    queue = harness.queue("q")
    assert queue.ready == 50
    assert queue.lane.paged >= 40
    client = harness.client()
    assert client.count("q") == 50
    client.consume("q", no_ack=True)
    assert client.bodies() == [b"%02d" % number for number in range(50)]
    client.send()
    assert client.get("q") is None
    assert harness.broker.gauge.used == 0
    assert BasicGetEmpty() not in client.heard()


# ---- what is read at a start


def on_disk(harness: StoredHarness, queue: str) -> int:
    backlog = harness.broker.vhost("/").queues[queue].backlog
    assert backlog is not None
    return sum(lane.paged for lane in backlog.lanes)


def test_a_queue_without_consumers_reads_nothing_before_it_is_asked(harness: StoredHarness) -> None:
    client = durable(harness)
    put(client, "q", b"a", b"b", b"c")
    harness = harness.stopped().again()
    assert on_disk(harness, "q") == 3
    assert harness.client().get("q").body == b"a"
    assert on_disk(harness, "q") == 0


@pytest.mark.parametrize("argument", [{"message_ttl": 60_000}, {"max_length": 10}])
def test_a_queue_that_expires_or_drops_messages_reads_the_first_ones(
    harness: StoredHarness, argument: dict[str, int]
) -> None:
    client = durable(harness, **argument)
    put(client, "q", b"a", b"b", b"c")
    harness = harness.stopped().again()
    assert on_disk(harness, "q") == 0
