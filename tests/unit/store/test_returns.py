"""How often a message came back and until when it waits: kept through restarts, crashes and reclaim (S1-14)."""

from __future__ import annotations

import pytest

from leveret.store.records import RETURN, WAIT, Entry, returns_body
from leveret.store.returns import MOST_TRIES, pack_return, unpack_return
from tests.support.peer_pair import Client
from tests.support.stored_harness import StoredHarness, StoredLife

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


# ---- the number


@pytest.mark.parametrize("tries", [0, 1, 20, MOST_TRIES])
@pytest.mark.parametrize("wall", [0.0, 0.001, 1_700_000_000.123, 4_000_000_000.5])
def test_both_come_back_as_they_were(tries: int, wall: float) -> None:
    assert unpack_return(pack_return(tries, wall)) == (tries, wall)


def test_more_tries_than_fit_are_the_most() -> None:
    assert unpack_return(pack_return(MOST_TRIES + 5, 1.0)) == (MOST_TRIES, 1.0)


def test_a_number_without_a_time_needs_a_small_record() -> None:
    plain, waits = Entry(1, 0, 1, 1, pack_return(3)), Entry(1, 0, 2, 1, pack_return(3, 1_700_000_000.0))
    assert returns_body([plain])[0] == RETURN
    assert returns_body([plain, waits])[0] == WAIT


# ---- lives


def begun(**arguments: object) -> tuple[StoredHarness, Client]:
    """A harness with a durable queue ``q`` and one for the dead."""
    harness = StoredHarness()
    client = harness.client()
    client.declare("dead", durable=True)
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    client.declare("q", durable=True, arguments=table)
    return harness, client


def again(life: StoredLife) -> tuple[StoredHarness, Client]:
    harness = life.again()
    return harness, harness.client()


def next_count(client: Client) -> object:
    """Take the first message, and what it says of how often it came back; it is held."""
    got = client.get("q")
    assert got is not None
    return (got.properties.headers or {}).get("x-delivery-count")


def give_back(client: Client, times: int = 1) -> None:
    for _ in range(times):
        got = client.get("q")
        assert got is not None
        client.nack(got.tag)


ENDS = pytest.mark.parametrize("end", ["stop", "crash"])


def ended(harness: StoredHarness, end: str, seconds: float = 0) -> StoredLife:
    """A stop, or a crash after all that was asked for is on disk."""
    return harness.stopped(seconds) if end == "stop" else harness.crashed(seconds, image=0)


@ENDS
def test_counts_of_deliveries_survive(end: str) -> None:
    harness, client = begun(delivery_limit=5)
    client.publish("q", b"m", delivery_mode=2)
    give_back(client, 3)
    harness, client = again(ended(harness, end))
    assert next_count(client) == 3


@ENDS
@pytest.mark.feature("S1-20")
def test_the_limit_holds_over_lives(end: str) -> None:
    """No restart gives a message another six."""
    harness, client = begun(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    client.publish("q", b"m", delivery_mode=2)
    give_back(client, 2)
    harness, client = again(ended(harness, end))
    give_back(client)
    assert [client.count("q"), client.count("dead")] == [0, 1]


@ENDS
@pytest.mark.feature("S1-14")
def test_a_message_that_waits_goes_on_waiting(end: str) -> None:
    """By the wall, not by how long the broker ran."""
    harness, client = begun(retry_delays=[60_000, 60_000])
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    harness.advance(20)
    harness, client = again(ended(harness, end, 15))
    assert client.get("q") is None
    assert harness.queue("q").ready == 0
    harness.advance(24.9)
    assert client.get("q") is None
    harness.advance(0.2)
    assert next_count(client) == 1


@ENDS
def test_a_wait_that_was_over_while_nobody_ran_is_over(end: str) -> None:
    harness, client = begun(retry_delays=[10_000])
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    harness, client = again(ended(harness, end, 10))
    assert next_count(client) == 1


def test_a_message_that_waits_through_two_lives() -> None:
    harness, client = begun(retry_delays=[60_000])
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    for _ in range(2):
        harness, client = again(harness.stopped(10))
        assert client.get("q") is None
    harness.advance(39)
    assert client.get("q") is None
    harness.advance(1)
    assert next_count(client) == 1


def test_what_waits_dies_of_its_age_in_the_next_life() -> None:
    harness, client = begun(retry_delays=[60_000], dead_letter_exchange="", dead_letter_routing_key="dead")
    client.publish("q", b"m", delivery_mode=2, expiration="30000")
    give_back(client)
    harness, client = again(harness.stopped(10))
    assert client.count("dead") == 0
    harness.advance(20)
    assert [client.count("q"), client.count("dead")] == [0, 1]
    harness.advance(60)
    assert (client.count("q"), harness.queue("q").bytes) == (0, 0)


def test_what_waits_dies_of_the_queues_ttl_in_the_next_life() -> None:
    harness, client = begun(
        retry_delays=[60_000], message_ttl=30_000, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    harness, client = again(harness.stopped(10))
    harness.advance(20)
    assert client.count("dead") == 1


@ENDS
def test_order_is_kept_when_some_wait(end: str) -> None:
    harness, client = begun(retry_delays=[10_000, 10_000])
    client.publish("q", b"a", b"b", b"c", delivery_mode=2)
    give_back(client, 2)
    harness, client = again(ended(harness, end))
    third = client.get("q")
    assert third is not None
    assert (third.body, client.get("q")) == (b"c", None)
    client.nack(third.tag)
    harness.advance(10)
    assert [client.get("q").body for _ in range(3)] == [b"a", b"b", b"c"]  # type: ignore[union-attr]


@ENDS
def test_a_later_return_beats_an_earlier_wait(end: str) -> None:
    """It waited once, was given again, and its consumer vanished: that is two."""
    harness, client = begun(retry_delays=[1000] * 4)
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    harness.advance(1)
    client.get("q")
    client.vanish()
    client = harness.client()
    assert harness.queue("q").ready == 1
    harness, client = again(ended(harness, end))
    assert next_count(client) == 2


def test_the_latest_of_several_waits_counts() -> None:
    harness, client = begun(retry_delays=[1000, 50_000, 50_000])
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    harness.advance(1)
    give_back(client)
    harness, client = again(harness.crashed(49, image=0))
    assert client.get("q") is None
    harness.advance(1)
    assert next_count(client) == 2


def test_an_acked_message_leaves_no_wait_behind() -> None:
    harness, client = begun(retry_delays=[1000])
    client.publish("q", b"m", delivery_mode=2)
    give_back(client)
    harness.advance(1)
    got = client.get("q")
    assert got is not None
    client.ack(got.tag)
    harness.rest()
    harness, client = again(harness.crashed(100, image=0))
    harness.advance(100)
    assert client.count("q") == 0


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_waits_are_carried_when_their_segment_is_reclaimed(end: str) -> None:
    """Much comes and goes behind them, until the segment they were written in is gone."""
    harness, client = begun(retry_delays=[3_600_000, 1000])
    client.declare("busy", durable=True)
    client.publish("q", *[b"%d" % number for number in range(5)], delivery_mode=2)
    give_back(client, 5)
    harness.rest()
    before = {name for name in harness.disk.files() if name.endswith(".seg")}
    for _ in range(60):
        client.publish("busy", *[b"x" * 1000] * 20, delivery_mode=2)
        while client.get("busy", no_ack=True) is not None:
            pass
        harness.rest()
    assert not before & {name for name in harness.disk.files() if name.endswith(".seg")}, "nothing was reclaimed"
    harness, client = again(ended(harness, end, 60))
    assert client.get("q") is None
    harness.advance(3600)
    found = [client.get("q") for _ in range(5)]
    assert [(each.body, (each.properties.headers or {}).get("x-delivery-count")) for each in found if each] == [
        (b"%d" % number, 1) for number in range(5)
    ]


def test_transient_messages_wait_too_and_are_gone_with_the_life() -> None:
    harness, client = begun(retry_delays=[1000])
    client.publish("q", b"m")
    give_back(client)
    harness.advance(1)
    assert next_count(client) == 1
    harness, client = again(harness.stopped(10))
    harness.advance(10)
    assert client.count("q") == 0


def test_counts_that_were_not_looked_at_in_a_life_are_there_in_the_next() -> None:
    """A backlog whose front is not even loaded keeps what is known of it."""
    harness, client = begun(delivery_limit=9)
    client.publish("q", *[b"x" * 1000] * 5, delivery_mode=2)
    client.publish("q", b"last", delivery_mode=2)
    held = [client.get("q") for _ in range(6)]
    for _ in range(2):
        last = held[-1]
        assert last is not None
        client.nack(last.tag)
        held[-1] = client.get("q")
    life = harness.stopped()
    life.settings["queue_memory"] = 100
    for _ in range(3):
        life = life.again().stopped()
    harness, client = again(life)
    counts = [next_count(client) for _ in range(6)]
    assert counts == [1, 1, 1, 1, 1, 3]


def test_what_waits_far_behind_the_front_is_not_given_before_its_time_in_the_next_life() -> None:
    """Nobody has read it yet: it is counted with those on disk until then, and waits all the same."""
    harness, client = begun(retry_delays=[3_600_000])
    client.publish("q", *[b"%02d" % number + b"x" * 200_000 for number in range(30)], delivery_mode=2)
    held = [client.get("q") for _ in range(30)]
    last = held[-1]
    assert last is not None
    client.nack(last.tag)
    harness, client = again(harness.crashed(image=0))
    given = []
    while (got := client.get("q", no_ack=True)) is not None:
        given.append(got.body[:2])
    assert given == [b"%02d" % number for number in range(29)]
    assert client.count("q") == 0
    harness.advance(3600)
    got = client.get("q")
    assert got is not None
    assert got.body[:2] == b"29"
