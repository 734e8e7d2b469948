"""Leases on classic queues: what they take, how they end."""

from __future__ import annotations

import asyncio

import pytest

from leveret.backlog import lease_builder, lease_release
from leveret.errors import PreconditionFailed
from tests.support.leasing import (
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
from tests.support.stored_house import StoredHouse


@pytest.fixture
def house() -> StoredHouse:
    return StoredHouse()


# ---- taking


def test_a_lease_holds_the_first_messages_in_order_and_nobody_else_gets_them(house: StoredHouse) -> None:
    client = filled(house)
    reader = LeaseReader(house)
    assert reader.take(most=4) == 1
    assert reader.bodies(1) == TEN[:4]
    assert (client.count("q"), house.queue("q").unacked) == (6, 4)
    assert bodies_left(house) == TEN[4:]


def test_asking_again_gives_the_same_lease_even_if_more_is_asked_for(house: StoredHouse) -> None:
    client = filled(house)
    reader = LeaseReader(house)
    assert reader.take(most=4) == 1
    put(client, b"later")
    assert reader.take(most=1_000) == 1
    assert reader.bodies(1) == TEN[:4]
    assert open_leases(house) == {("q", "reader", 1): 4}


def test_leases_follow_each_other_before_any_is_committed(house: StoredHouse) -> None:
    filled(house)
    reader = LeaseReader(house)
    assert [reader.take(0, 4), reader.take(1, 4), reader.take(2, 4)] == [1, 2, 3]
    assert [reader.bodies(number) for number in (1, 2, 3)] == [TEN[:4], TEN[4:8], TEN[8:]]
    assert reader.take(3) == 3  # nothing is left, and no lease 4 is made
    assert rows_on_disk(house) == ["1/1/reader", "1/2/reader", "1/3/reader", "1/reader"]


def test_consumers_have_leases_of_their_own(house: StoredHouse) -> None:
    filled(house)
    one, other = LeaseReader(house, consumer="one"), LeaseReader(house, consumer="other/1")
    assert (one.take(most=3), other.take(most=3)) == (1, 1)
    assert (one.bodies(1), other.bodies(1)) == (TEN[:3], TEN[3:6])
    one.commit(1)
    assert open_leases(house) == {("q", "other/1", 1): 3}


def test_two_that_ask_for_the_same_lease_at_once_get_one(house: StoredHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_builder, "STEP", 2)
    filled(house)
    reader = LeaseReader(house)

    async def both() -> list[int]:
        calls = [reader.leases.take(reader.queue, "reader", 0, 6, 1 << 40) for _ in range(2)]
        return [lease.number for lease in await asyncio.gather(*calls) if lease is not None]

    assert finish(house, both()) == [1, 1]
    assert reader.bodies(1) == TEN[:6]
    assert bodies_left(house) == TEN[6:]


def test_priorities_go_first(house: StoredHouse) -> None:
    client = filled(house, b"low", max_priority=3)
    put(client, b"high", priority=3)
    put(client, b"low2")
    put(client, b"mid", priority=1)
    put(client, b"high2", priority=9)
    reader = LeaseReader(house)
    assert reader.take(most=4) == 1
    assert reader.bodies(1) == [b"high", b"high2", b"mid", b"low"]
    house = house.crashed().again()
    reader = LeaseReader(house)
    assert reader.bodies(1) == [b"high", b"high2", b"mid", b"low"]
    assert bodies_left(house) == [b"low2"]


def test_what_came_back_is_leased_first_and_marked(house: StoredHouse) -> None:
    client = filled(house)
    first = client.get("q")
    second = client.get("q")
    assert first is not None
    assert second is not None
    client.nack(second.tag)
    reader = LeaseReader(house)
    assert reader.take(most=3) == 1
    rows = reader.rows(1)
    assert [(row["body"], row["redelivered"]) for row in rows] == [(b"01", True), (b"02", False), (b"03", False)]
    assert [row["offset"] for row in rows] == [2, 3, 4]
    client.ack(first.tag)
    assert bodies_left(house) == TEN[4:]


@pytest.mark.parametrize(("most_bytes", "expected"), [(1, 1), (1 << 40, 10)])
def test_max_bytes_bounds_a_lease_but_one_message_always_fits(
    house: StoredHouse, most_bytes: int, expected: int
) -> None:
    filled(house)
    reader = LeaseReader(house)
    reader.take(most_bytes=most_bytes)
    assert reader.find(1).messages == expected


def test_max_bytes_holds_on_disk_too(house: StoredHouse) -> None:
    filled(house)
    size = house.queue("q").bytes // 10
    house = house.stopped().again()
    reader = LeaseReader(house)
    assert reader.take(most_bytes=3 * size + 1) == 1
    assert (reader.find(1).messages, reader.find(1).bytes) == (3, 3 * size)
    assert reader.bodies(1) == TEN[:3]


def test_a_large_lease_takes_its_turns(house: StoredHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_builder, "STEP", 3)
    monkeypatch.setattr(lease_release, "STEP", 3)
    filled(house)
    reader = LeaseReader(house)
    assert reader.take() == 1
    assert reader.bodies(1) == TEN
    assert reader.find(1).runs == ((0, 1, 10, False),)
    reader.commit(1)
    assert house.waiting_on_disk("q") == []


def test_whoever_goes_away_in_the_middle_finds_what_was_taken_as_the_lease(
    house: StoredHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_builder, "STEP", 3)
    filled(house)
    reader = LeaseReader(house)

    async def go_away() -> None:
        call = asyncio.ensure_future(reader.leases.take(reader.queue, "reader", 0, 10, 1 << 40))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    finish(house, go_away())
    assert reader.take() == 1
    assert reader.bodies(1) == TEN[:3]
    assert bodies_left(house) == TEN[3:]


def test_what_is_not_on_disk_yet_is_waited_for(house: StoredHouse) -> None:
    client = filled(house)
    house.is_slow = True
    put(client, b"fresh")
    reader = LeaseReader(house)
    lease = house.broker.leases
    taking = lease_builder.LeaseBuilder(reader.queue, 20, 1 << 40)
    assert taking.step() is lease_builder.Next.UNSYNCED
    assert taking.number == 10
    lease.give_up(reader.queue, taking)
    house.is_slow = False
    house.turn()
    assert reader.take(most=20) == 1
    assert reader.bodies(1) == [*TEN, b"fresh"]


def test_consumers_with_room_get_theirs_first(house: StoredHouse) -> None:
    client = filled(house)
    client.qos(2)
    client.consume("q")
    assert client.bodies() == TEN[:2]
    reader = LeaseReader(house)
    assert reader.take() == 1
    assert reader.bodies(1) == TEN[2:]
    client.ack(0, multiple=True)
    assert client.bodies() == []


# ---- committing


def test_commit_acks_all_leases_up_to_its_number(house: StoredHouse) -> None:
    client = filled(house)
    reader = LeaseReader(house)
    for after in range(3):
        reader.take(after, 3)
    assert reader.commit(2) == (2, 6)
    assert house.waiting_on_disk("q") == TEN[6:]
    assert (house.queue("q").unacked, client.count("q")) == (3, 1)
    assert rows_on_disk(house) == ["1/3/reader", "1/reader"]
    assert open_leases(house) == {("q", "reader", 3): 3}
    assert house.queue("q").counters.acked == 6


def test_commit_again_says_the_same_and_does_nothing(house: StoredHouse) -> None:
    filled(house)
    reader = LeaseReader(house)
    reader.take(0, 3)
    reader.take(1, 3)
    assert [reader.commit(1), reader.commit(1), reader.commit(0)] == [(1, 3), (1, 3), (1, 0)]
    assert house.waiting_on_disk("q") == TEN[3:]
    assert house.queue("q").unacked == 3


def test_what_was_never_given_cannot_be_committed(house: StoredHouse) -> None:
    filled(house)
    reader = LeaseReader(house)
    for _ in range(2):
        with pytest.raises(PreconditionFailed, match="does not exist"):
            reader.commit(2)
        reader.take()
    assert reader.commit(1) == (1, 10)


def test_a_committed_lease_is_not_given_again(house: StoredHouse) -> None:
    filled(house)
    reader = LeaseReader(house)
    reader.take()
    reader.commit(1)
    assert "go on after 1" in refusal(reader, after=0)
    assert reader.take(1) == 1  # nothing is left
    house = house.crashed().again()
    assert "go on after 1" in refusal(LeaseReader(house), after=0)


# ---- releasing


def test_released_messages_go_back_to_their_places_and_are_marked(house: StoredHouse) -> None:
    client = filled(house)
    reader = LeaseReader(house)
    reader.take(0, 3)
    reader.take(1, 3)
    assert reader.release(1) == 3
    assert taken(house)[:4] == [(b"00", True), (b"01", True), (b"02", True), (b"06", False)]
    assert open_leases(house) == {("q", "reader", 2): 3}
    assert rows_on_disk(house) == ["1/2/reader", "1/reader"]
    assert (client.count("q"), house.queue("q").unacked) == (7, 3)


def test_releasing_all_of_a_consumer_lets_its_numbers_start_anew(house: StoredHouse) -> None:
    filled(house)
    reader = LeaseReader(house)
    reader.take(0, 3)
    reader.commit(1)
    reader.take(1, 3)
    assert reader.release() == 3
    assert rows_on_disk(house) == []
    assert reader.take(0) == 1
    assert reader.bodies(1) == TEN[3:]


def test_release_does_not_count_as_a_delivery(house: StoredHouse) -> None:
    filled(house, delivery_limit=1)
    reader = LeaseReader(house)
    for _ in range(3):
        reader.take()
        reader.release()
    assert bodies_left(house) == TEN


def test_what_was_released_is_gone_after_a_restart_only_if_it_was_acked(house: StoredHouse) -> None:
    client = filled(house)
    reader = LeaseReader(house)
    reader.take(0, 4)
    reader.release()
    first = client.get("q")
    assert first is not None
    client.ack(first.tag)
    house = house.crashed().again()
    assert bodies_left(house) == TEN[1:]
    assert open_leases(house) == {}
