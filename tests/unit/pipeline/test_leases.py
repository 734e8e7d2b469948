"""Leases on classic queues: what they take, how they end."""

from __future__ import annotations

import asyncio

import pytest

from leveret.backlog import lease_builder, lease_release
from leveret.errors import PreconditionFailed
from tests.support.lease_reader import (
    TEN,
    LeaseReader,
    bodies_left,
    filled,
    finish,
    open_leases,
    put,
    refusal,
    rows_on_disk,
    taken,
)
from tests.support.stored_harness import StoredHarness


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


# ---- taking


def test_a_lease_holds_the_first_messages_in_order_and_nobody_else_gets_them(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    assert reader.take(most=4) == 1
    assert reader.bodies(1) == TEN[:4]
    assert (client.count("q"), harness.queue("q").unacked) == (6, 4)
    assert bodies_left(harness) == TEN[4:]


def test_asking_again_gives_the_same_lease_even_if_more_is_asked_for(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    assert reader.take(most=4) == 1
    put(client, b"later")
    assert reader.take(most=1_000) == 1
    assert reader.bodies(1) == TEN[:4]
    assert open_leases(harness) == {("q", "reader", 1): 4}


def test_leases_follow_each_other_before_any_is_committed(harness: StoredHarness) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    assert [reader.take(0, 4), reader.take(1, 4), reader.take(2, 4)] == [1, 2, 3]
    assert [reader.bodies(number) for number in (1, 2, 3)] == [TEN[:4], TEN[4:8], TEN[8:]]
    assert reader.take(3) == 3  # nothing is left, and no lease 4 is made
    assert rows_on_disk(harness) == ["1/1/reader", "1/2/reader", "1/3/reader", "1/reader"]


def test_consumers_have_leases_of_their_own(harness: StoredHarness) -> None:
    filled(harness)
    one, other = LeaseReader(harness, consumer="one"), LeaseReader(harness, consumer="other/1")
    assert (one.take(most=3), other.take(most=3)) == (1, 1)
    assert (one.bodies(1), other.bodies(1)) == (TEN[:3], TEN[3:6])
    one.commit(1)
    assert open_leases(harness) == {("q", "other/1", 1): 3}


def test_two_that_ask_for_the_same_lease_at_once_get_one(
    harness: StoredHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_builder, "STEP", 2)
    filled(harness)
    reader = LeaseReader(harness)

    async def both() -> list[int]:
        calls = [reader.leases.take(reader.queue, "reader", 0, 6, 1 << 40) for _ in range(2)]
        return [lease.number for lease in await asyncio.gather(*calls) if lease is not None]

    assert finish(harness, both()) == [1, 1]
    assert reader.bodies(1) == TEN[:6]
    assert bodies_left(harness) == TEN[6:]


def test_priorities_go_first(harness: StoredHarness) -> None:
    client = filled(harness, b"low", max_priority=3)
    put(client, b"high", priority=3)
    put(client, b"low2")
    put(client, b"mid", priority=1)
    put(client, b"high2", priority=9)
    reader = LeaseReader(harness)
    assert reader.take(most=4) == 1
    assert reader.bodies(1) == [b"high", b"high2", b"mid", b"low"]
    harness = harness.crashed().again()
    reader = LeaseReader(harness)
    assert reader.bodies(1) == [b"high", b"high2", b"mid", b"low"]
    assert bodies_left(harness) == [b"low2"]


def test_what_came_back_is_leased_first_and_marked(harness: StoredHarness) -> None:
    client = filled(harness)
    first = client.get("q")
    second = client.get("q")
    assert first is not None
    assert second is not None
    client.nack(second.tag)
    reader = LeaseReader(harness)
    assert reader.take(most=3) == 1
    rows = reader.rows(1)
    assert [(row["body"], row["redelivered"]) for row in rows] == [(b"01", True), (b"02", False), (b"03", False)]
    assert [row["offset"] for row in rows] == [2, 3, 4]
    client.ack(first.tag)
    assert bodies_left(harness) == TEN[4:]


@pytest.mark.parametrize(("most_bytes", "expected"), [(1, 1), (1 << 40, 10)])
def test_max_bytes_bounds_a_lease_but_one_message_always_fits(
    harness: StoredHarness, most_bytes: int, expected: int
) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take(most_bytes=most_bytes)
    assert reader.find(1).messages == expected


def test_max_bytes_holds_on_disk_too(harness: StoredHarness) -> None:
    filled(harness)
    size = harness.queue("q").bytes // 10
    harness = harness.stopped().again()
    reader = LeaseReader(harness)
    assert reader.take(most_bytes=3 * size + 1) == 1
    assert (reader.find(1).messages, reader.find(1).bytes) == (3, 3 * size)
    assert reader.bodies(1) == TEN[:3]


def test_a_large_lease_takes_its_turns(harness: StoredHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_builder, "STEP", 3)
    monkeypatch.setattr(lease_release, "STEP", 3)
    filled(harness)
    reader = LeaseReader(harness)
    assert reader.take() == 1
    assert reader.bodies(1) == TEN
    assert reader.find(1).runs == ((0, 1, 10, False),)
    reader.commit(1)
    assert harness.waiting_on_disk("q") == []


def test_whoever_goes_away_in_the_middle_finds_what_was_taken_as_the_lease(
    harness: StoredHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_builder, "STEP", 3)
    filled(harness)
    reader = LeaseReader(harness)

    async def go_away() -> None:
        call = asyncio.ensure_future(reader.leases.take(reader.queue, "reader", 0, 10, 1 << 40))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    finish(harness, go_away())
    assert reader.take() == 1
    assert reader.bodies(1) == TEN[:3]
    assert bodies_left(harness) == TEN[3:]


def test_what_is_not_on_disk_yet_is_waited_for(harness: StoredHarness) -> None:
    client = filled(harness)
    harness.is_slow = True
    put(client, b"fresh")
    reader = LeaseReader(harness)
    lease = harness.broker.leases
    taking = lease_builder.LeaseBuilder(reader.queue, 20, 1 << 40)
    assert taking.step() is lease_builder.Next.UNSYNCED
    assert taking.number == 10
    lease.give_up(reader.queue, taking)
    harness.is_slow = False
    harness.turn()
    assert reader.take(most=20) == 1
    assert reader.bodies(1) == [*TEN, b"fresh"]


def test_consumers_with_room_get_theirs_first(harness: StoredHarness) -> None:
    client = filled(harness)
    client.qos(2)
    client.consume("q")
    assert client.bodies() == TEN[:2]
    reader = LeaseReader(harness)
    assert reader.take() == 1
    assert reader.bodies(1) == TEN[2:]
    client.ack(0, multiple=True)
    assert client.bodies() == []


# ---- committing


def test_commit_acks_all_leases_up_to_its_number(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    for after in range(3):
        reader.take(after, 3)
    assert reader.commit(2) == (2, 6)
    assert harness.waiting_on_disk("q") == TEN[6:]
    assert (harness.queue("q").unacked, client.count("q")) == (3, 1)
    assert rows_on_disk(harness) == ["1/3/reader", "1/reader"]
    assert open_leases(harness) == {("q", "reader", 3): 3}
    assert harness.queue("q").counters.acked == 6


def test_commit_again_says_the_same_and_does_nothing(harness: StoredHarness) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 3)
    reader.take(1, 3)
    assert [reader.commit(1), reader.commit(1), reader.commit(0)] == [(1, 3), (1, 3), (1, 0)]
    assert harness.waiting_on_disk("q") == TEN[3:]
    assert harness.queue("q").unacked == 3


def test_what_was_never_given_cannot_be_committed(harness: StoredHarness) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    for _ in range(2):
        with pytest.raises(PreconditionFailed, match="does not exist"):
            reader.commit(2)
        reader.take()
    assert reader.commit(1) == (1, 10)


def test_a_committed_lease_is_not_given_again(harness: StoredHarness) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take()
    reader.commit(1)
    assert "go on after 1" in refusal(reader, after=0)
    assert reader.take(1) == 1  # nothing is left
    harness = harness.crashed().again()
    assert "go on after 1" in refusal(LeaseReader(harness), after=0)


# ---- releasing


def test_released_messages_go_back_to_their_places_and_are_marked(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 3)
    reader.take(1, 3)
    assert reader.release(1) == 3
    assert taken(harness)[:4] == [(b"00", True), (b"01", True), (b"02", True), (b"06", False)]
    assert open_leases(harness) == {("q", "reader", 2): 3}
    assert rows_on_disk(harness) == ["1/2/reader", "1/reader"]
    assert (client.count("q"), harness.queue("q").unacked) == (7, 3)


def test_releasing_all_of_a_consumer_lets_its_numbers_start_anew(harness: StoredHarness) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 3)
    reader.commit(1)
    reader.take(1, 3)
    assert reader.release() == 3
    assert rows_on_disk(harness) == []
    assert reader.take(0) == 1
    assert reader.bodies(1) == TEN[3:]


def test_release_does_not_count_as_a_delivery(harness: StoredHarness) -> None:
    filled(harness, delivery_limit=1)
    reader = LeaseReader(harness)
    for _ in range(3):
        reader.take()
        reader.release()
    assert bodies_left(harness) == TEN


def test_what_was_released_is_gone_after_a_restart_only_if_it_was_acked(harness: StoredHarness) -> None:
    client = filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 4)
    reader.release()
    first = client.get("q")
    assert first is not None
    client.ack(first.tag)
    harness = harness.crashed().again()
    assert bodies_left(harness) == TEN[1:]
    assert open_leases(harness) == {}
