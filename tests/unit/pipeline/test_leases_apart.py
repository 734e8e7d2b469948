"""Leases beside everything else that a queue does: refusals, time, limits, purges, reading."""

from __future__ import annotations

import pytest

from leveret.backlog import lease_builder, pager
from leveret.errors import PreconditionFailed
from leveret.http.errors import Gone
from leveret.wire.methods import BasicCancel, QueueDelete, QueuePurge
from tests.support.lease_reader import (
    TEN,
    LeaseReader,
    bodies_left,
    filled,
    open_leases,
    put,
    refusal,
    rows_on_disk,
)
from tests.support.peer_pair import Harness
from tests.support.stored_harness import StoredHarness


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


# ---- refusals


def test_a_transient_message_at_the_front_is_refused_with_the_remedy(harness: StoredHarness) -> None:
    client = filled(harness, b"kept")
    client.publish("q", b"passing")
    put(client, b"kept too")
    reader = LeaseReader(harness)
    assert reader.take() == 1
    assert reader.bodies(1) == [b"kept"]
    assert "delivery mode 2" in refusal(reader, after=1)
    passing = client.get("q", no_ack=True)
    assert passing is not None
    assert reader.take(1) == 2
    assert reader.bodies(2) == [b"kept too"]


def test_a_transient_message_that_was_spilled_is_refused(harness: StoredHarness) -> None:
    harness = StoredHarness(queue_memory=1)
    client = filled(harness, b"kept")
    client.publish("q", *[b"%03d" % number for number in range(200)])
    harness.broker.gauge.is_short = True
    harness.queue("q").touch()
    harness.turn()
    assert harness.queue("q").lane.paged > 0
    reader = LeaseReader(harness)
    assert reader.take() == 1
    assert reader.bodies(1) == [b"kept"]
    assert "is transient" in refusal(reader, after=1)


def test_queues_that_cannot_be_leased_say_why(harness: StoredHarness) -> None:
    client = harness.client()
    client.declare("passing")
    client.declare("grouped", durable=True, arguments={"x-message-groups": True})
    client.declare("log", durable=True, arguments={"x-queue-type": "stream"})
    assert "groups belong to consumers" in refusal(LeaseReader(harness, "grouped"))
    assert "not durable" in refusal(LeaseReader(harness, "passing"))
    assert "by offsets" in refusal(LeaseReader(harness, "log"))


def test_a_broker_without_a_disk_has_no_leases() -> None:
    harness = Harness()
    harness.client().declare("q", durable=True)
    with pytest.raises(PreconditionFailed, match="data_dir"):
        harness.broker.leases.leasable(harness.queue("q"))


def test_a_queue_in_exclusive_use_is_refused_until_its_consumer_leaves(harness: StoredHarness) -> None:
    client = filled(harness)
    client.qos(1)
    client.consume("q", exclusive=True)
    reader = LeaseReader(harness)
    assert "in exclusive use" in refusal(reader)
    client.send(BasicCancel("tag"))
    assert reader.take() == 1


def test_a_queue_with_a_single_active_consumer_is_refused_while_there_is_one(harness: StoredHarness) -> None:
    client = filled(harness, single_active_consumer=True)
    client.qos(1)
    client.consume("q")
    reader = LeaseReader(harness)
    assert "in exclusive use" in refusal(reader)
    client.send(BasicCancel("tag"))
    assert reader.take() == 1


def test_a_paused_queue_gives_nothing(harness: StoredHarness) -> None:
    filled(harness)
    harness.vhost.pause_queue(harness.queue("q"))
    reader = LeaseReader(harness)
    assert reader.take() == 0
    harness.vhost.resume_queue(harness.queue("q"))
    assert reader.take() == 1


# ---- time, limits, purges


def test_what_is_too_old_is_not_leased_and_what_is_leased_does_not_get_too_old(harness: StoredHarness) -> None:
    client = filled(harness, b"a", b"b", message_ttl=10_000)
    harness.advance(8)
    reader = LeaseReader(harness)
    assert reader.take(most=1) == 1
    put(client, b"c")
    harness.advance(3)
    assert client.count("q") == 1  # b has died, a is leased
    assert reader.take(1) == 2
    assert (reader.bodies(1), reader.bodies(2)) == ([b"a"], [b"c"])
    reader.release(1)
    assert client.count("q") == 0  # too old, now that it may die


def test_own_expirations_end_when_a_lease_does_not_protect_any_more(harness: StoredHarness) -> None:
    client = filled(harness, b"immortal")
    put(client, b"short", expiration="5000")
    reader = LeaseReader(harness)
    reader.take()
    for _ in range(2):
        harness.advance(20)
        assert reader.bodies(1) == [b"immortal", b"short"]
        harness = harness.crashed().again()
        reader = LeaseReader(harness)
    reader.release()
    assert bodies_left(harness) == [b"immortal"]


def test_what_should_have_died_while_it_was_leased_dies_when_it_comes_back(harness: StoredHarness) -> None:
    """Also of a lease that an earlier life left, and that still lies on disk."""
    client = filled(harness, b"first", b"immortal")
    put(client, b"short", expiration="5000")
    put(client, b"last")
    client.get("q")
    LeaseReader(harness).take(most=2)
    harness = harness.crashed().again()
    harness.advance(20)
    reader = LeaseReader(harness)
    assert reader.bodies(1) == [b"immortal", b"short"]
    assert harness.queue("q").lane.is_paged(reader.find(1).runs[0].sequence)
    reader.release()
    assert bodies_left(harness) == [b"first", b"immortal", b"last"]


def test_a_paged_queue_with_a_ttl_is_read_before_it_is_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "LOAD_BYTES", 200)
    harness = StoredHarness(queue_memory=1)
    client = filled(harness, *[b"%03d" % number for number in range(300)], message_ttl=10_000)
    harness.advance(9)
    put(client, b"young", b"younger")
    harness.turn()
    assert harness.queue("q").lane.paged > 200
    harness = harness.crashed(seconds=2).again()
    reader = LeaseReader(harness)
    assert reader.take(most=1) == 1
    assert reader.bodies(1) == [b"young"]
    assert bodies_left(harness) == [b"younger"]


def test_what_may_be_too_old_is_not_leased_before_it_was_read(
    harness: StoredHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(harness, message_ttl=10_000)
    life = harness.crashed(seconds=11)
    with monkeypatch.context() as patch:
        patch.setattr(StoredHarness, "work", lambda self: None)
        harness = life.again()
    taking = lease_builder.LeaseBuilder(harness.queue("q"), 10, 1 << 40)
    assert taking.step() is lease_builder.Next.UNREAD
    assert taking.number == 0
    harness.work()
    assert LeaseReader(harness).take() == 0


def test_limits_do_not_see_what_is_leased(harness: StoredHarness) -> None:
    client = filled(harness, max_length=10)
    reader = LeaseReader(harness)
    reader.take(most=4)
    put(client, *[b"n%d" % number for number in range(6)])
    assert reader.bodies(1) == TEN[:4]
    assert len(bodies_left(harness)) == 10
    harness = harness.crashed().again()
    reader = LeaseReader(harness)
    client = harness.client()
    put(client, b"last")
    assert reader.bodies(1) == TEN[:4]
    assert bodies_left(harness) == [*TEN[5:], *[b"n%d" % number for number in range(6)], b"last"][-10:]


def test_a_purge_leaves_what_is_leased(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    reader.take(most=4)
    client.ask(QueuePurge("q"))
    assert reader.bodies(1) == TEN[:4]
    assert harness.waiting_on_disk("q") == TEN[:4]


def test_a_purge_after_a_restart_leaves_what_is_leased(harness: StoredHarness) -> None:
    client = filled(harness)
    client.get("q")  # so that something waits before the lease, too
    LeaseReader(harness).take(most=4)
    harness = harness.crashed().again()
    answer = harness.client().ask(QueuePurge("q"))
    assert answer.message_count == 6  # type: ignore[attr-defined]
    reader = LeaseReader(harness)
    assert reader.bodies(1) == TEN[1:5]
    assert harness.waiting_on_disk("q") == TEN[1:5]
    reader.release()
    assert bodies_left(harness) == TEN[1:5]


def test_a_queue_that_is_deleted_takes_its_leases_with_it(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 4)
    reader.take(1, 4)
    reader.commit(1)
    client.ask(QueueDelete("q"))
    harness.turn()
    assert (open_leases(harness), rows_on_disk(harness)) == ({}, [])
    client = filled(harness, b"new")
    harness = harness.crashed().again()
    assert bodies_left(harness) == [b"new"]


# ---- reading


@pytest.mark.parametrize("of", [1, 2, 3, 7, 10, 13])
def test_slices_are_contiguous_and_make_up_the_lease(harness: StoredHarness, of: int) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take()
    slices = [reader.bodies(1, index, of) for index in range(of)]
    assert [body for some in slices for body in some] == TEN
    assert max(map(len, slices)) - min(map(len, slices)) <= 1


def test_a_lease_with_gaps_is_read_without_the_gaps(harness: StoredHarness) -> None:
    client = filled(harness)
    held = [client.get("q") for _ in range(6)]
    for each in held[1::2]:
        assert each is not None
        client.nack(each.tag)
    reader = LeaseReader(harness)
    reader.take()
    assert reader.bodies(1) == [b"01", b"03", b"05", *TEN[6:]]
    assert [reader.bodies(1, index, 2) for index in range(2)] == [[b"01", b"03", b"05"], TEN[6:]]


def test_messages_that_a_damaged_disk_lost_are_an_error_and_not_a_gap(harness: StoredHarness) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take()
    harness.broker.log.settle(reader.queue.id, 0, 5, 1)
    with pytest.raises(Gone, match="damaged"):
        reader.rows(1)
    with pytest.raises(Gone):
        reader.rows(1, 1, 3)
    assert reader.bodies(1, 2, 3) == TEN[6:]
    assert reader.release() == 9
    assert harness.queue("q").unacked == 0
    assert bodies_left(harness) == [*TEN[:4], *TEN[5:]]


def test_reclaim_carries_leased_messages_along() -> None:
    harness = StoredHarness(segment_size=2_000)
    client = filled(harness)
    reader = LeaseReader(harness)
    reader.take(most=3)
    before = reader.find(1).runs
    for _ in range(60):
        put(client, b"x" * 100)
        got = client.get("q", no_ack=True)
        assert got is not None
    harness.turn()
    assert "0000000001.seg" not in str(harness.disk.files())
    assert reader.find(1).runs == before
    assert reader.bodies(1) == TEN[:3]


def test_leased_messages_take_no_memory(harness: StoredHarness) -> None:
    filled(harness, *[b"x" * 1_000] * 50)
    assert harness.broker.gauge.used > 50_000
    reader = LeaseReader(harness)
    reader.take()
    assert harness.broker.gauge.used == 0
    reader.release()
    assert harness.broker.gauge.used > 50_000
