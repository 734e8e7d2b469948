"""Messages that are on disk only die like any other: of age, and of a limit, with and without somebody to send them to
(S0-24, S0-25)."""

from __future__ import annotations

import pytest

from tests.support.peer_pair import Client
from tests.support.stored_harness import StoredHarness

DEAD: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
MANY = 400


def body(number: int) -> bytes:
    return b"%04d" % number + b"." * 96


def numbers(client: Client, queue: str) -> list[int]:
    """What waits in the queue, in order; takes everything out."""
    found = []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(int(got.body[:4]))
    return found


def stocked(arguments: dict[str, object], *, expiring: range = range(0)) -> tuple[StoredHarness, Client]:
    """A queue of which most is on disk only; some of its messages die after ten seconds."""
    harness = StoredHarness(queue_memory=4000)
    client = harness.client()
    client.declare("dead", durable=True)
    client.declare("q", durable=True, arguments=arguments)
    for number in range(MANY):
        expiration = "10000" if number in expiring else None
        client.publish("q", body(number), delivery_mode=2, expiration=expiration)
    harness.rest()
    return harness, client


def on_disk_only(harness: StoredHarness) -> int:
    return sum(lane.paged for lane in harness.queue("q").lanes)


def settled(harness: StoredHarness) -> bool:
    """Whether counts, bytes and memory are what an empty queue has."""
    queue = harness.queue("q")
    assert queue.pager is not None
    return (queue.ready, queue.unacked, queue.bytes, queue.pager.bytes) == (0, 0, 0, 0)


# ---- age


@pytest.mark.parametrize("expiring", [range(0, MANY, 3), range(200, 300), range(MANY)], ids=["some", "middle", "all"])
@pytest.mark.feature("S0-25")
def test_expired_ones_on_disk_go_to_the_dead_letters(expiring: range) -> None:
    """Each once, and the others stay where they are."""
    harness, client = stocked(DEAD, expiring=expiring)
    assert on_disk_only(harness) > 200
    harness.advance(10)
    assert harness.queue("q").ready == MANY - len(expiring)
    assert sorted(numbers(client, "dead")) == list(expiring)
    assert numbers(client, "q") == [number for number in range(MANY) if number not in expiring]
    assert settled(harness)


def test_expired_ones_on_disk_are_gone_without_somebody_to_send_them_to() -> None:
    harness, client = stocked({}, expiring=range(0, MANY, 2))
    harness.advance(10)
    assert numbers(client, "q") == list(range(1, MANY, 2))
    assert settled(harness)


def test_the_queues_ttl_reaches_what_is_on_disk() -> None:
    harness, client = stocked({"x-message-ttl": 10_000, **DEAD})
    harness.advance(9)
    assert harness.queue("q").ready == MANY
    harness.advance(1)
    assert numbers(client, "dead") == list(range(MANY))
    assert settled(harness)


def test_what_is_read_for_the_dead_letters_is_not_delivered_as_well() -> None:
    """A consumer makes the front run low while expired ones behind it are being read."""
    harness, client = stocked(DEAD, expiring=range(60, MANY, 2))
    harness.is_slow = True
    harness.advance(10)
    consumer = harness.client()
    consumer.consume("q", no_ack=True)
    seen: list[int] = []
    while harness.store.jobs:
        harness.read()
        seen += [int(each[:4]) for each in consumer.bodies()]
    harness.is_slow = False
    harness.rest()
    seen += [int(each[:4]) for each in consumer.bodies()]
    dead = numbers(client, "dead")
    assert sorted(seen + dead) == list(range(MANY))
    assert sorted(dead) == list(range(60, MANY, 2))
    assert seen == sorted(seen)
    assert settled(harness)


def test_what_is_being_loaded_when_its_time_comes_dies_once() -> None:
    harness, client = stocked(DEAD, expiring=range(60, MANY, 2))
    harness.is_slow = True
    consumer = harness.client()
    consumer.consume("q", no_ack=True)  # the first load is under way
    harness.advance(10)
    harness.is_slow = False
    harness.rest()
    seen = [int(each[:4]) for each in consumer.bodies()]
    dead = numbers(client, "dead")
    assert sorted(seen + dead) == list(range(MANY))
    assert settled(harness)


def test_a_purge_while_the_dead_are_read_takes_the_living_only() -> None:
    harness, client = stocked(DEAD, expiring=range(200, 300))
    harness.is_slow = True
    harness.advance(10)
    harness.vhost.purge_queue("q")
    harness.is_slow = False
    harness.rest()
    assert client.count("q") == 0
    assert sorted(numbers(client, "dead")) == list(range(200, 300))
    assert settled(harness)


def test_a_queue_that_is_deleted_while_its_dead_are_read() -> None:
    harness, client = stocked(DEAD, expiring=range(200, 300))
    harness.is_slow = True
    harness.advance(10)
    harness.vhost.delete_queue("q")
    harness.is_slow = False
    harness.rest()
    client.declare("q", durable=True)
    assert client.count("q") == 0


@pytest.mark.parametrize("image", range(6))
def test_a_crash_while_the_dead_are_read_loses_none(image: int) -> None:
    """In the next life each is in one of the two queues, or dies then."""
    harness, client = stocked(DEAD, expiring=range(100, 300))
    harness.is_slow = True
    harness.advance(10)
    for _ in range(50):
        harness.read()
    harness.write()
    harness = harness.crashed(1, image=image).again()
    client = harness.client()
    harness.advance(1)
    assert sorted(numbers(client, "dead")) == list(range(100, 300))
    assert numbers(client, "q") == [number for number in range(MANY) if number not in range(100, 300)]


def test_what_expired_while_nobody_ran_is_sent_on_at_the_start() -> None:
    harness, client = stocked(DEAD, expiring=range(0, MANY, 2))
    harness = harness.stopped(60).again()
    client = harness.client()
    harness.advance(0)
    assert sorted(numbers(client, "dead")) == list(range(0, MANY, 2))
    assert numbers(client, "q") == list(range(1, MANY, 2))


# ---- limits


@pytest.mark.parametrize("arguments", [{}, DEAD], ids=["no exchange", "an exchange"])
@pytest.mark.feature("S0-24")
def test_a_limit_reaches_what_is_on_disk(arguments: dict[str, object]) -> None:
    """The head is dropped wherever it is, in order."""
    harness, client = stocked({"x-max-length": MANY, **arguments})
    for number in range(MANY, MANY + 250):
        client.publish("q", body(number), delivery_mode=2)
    assert harness.queue("q").ready == MANY
    assert numbers(client, "dead") == (list(range(250)) if arguments else [])
    assert numbers(client, "q") == list(range(250, MANY + 250))
    assert settled(harness)


@pytest.mark.parametrize("arguments", [{}, DEAD], ids=["no exchange", "an exchange"])
def test_one_large_run_pushes_out_all_that_is_on_disk(arguments: dict[str, object]) -> None:
    harness, client = stocked({"x-max-length": MANY, **arguments})
    client.publish("q", *[body(number) for number in range(MANY, 2 * MANY + 100)], delivery_mode=2)
    harness.rest()
    assert harness.queue("q").ready == MANY
    assert numbers(client, "dead") == (list(range(MANY + 100)) if arguments else [])
    assert numbers(client, "q") == list(range(MANY + 100, 2 * MANY + 100))


@pytest.mark.parametrize("arguments", [{}, DEAD], ids=["no exchange", "an exchange"])
def test_a_limit_in_bytes_reaches_what_is_on_disk(arguments: dict[str, object]) -> None:
    harness, client = stocked({"x-max-length-bytes": 100 * MANY, **arguments})
    assert harness.queue("q").ready == MANY
    for number in range(MANY, MANY + 50):
        client.publish("q", body(number), delivery_mode=2)
    assert numbers(client, "dead") == (list(range(50)) if arguments else [])
    assert numbers(client, "q") == list(range(50, MANY + 50))


@pytest.mark.parametrize("arguments", [{}, DEAD], ids=["no exchange", "an exchange"])
def test_a_limit_holds_for_a_backlog_of_an_earlier_life(arguments: dict[str, object]) -> None:
    harness, client = stocked({"x-max-length": MANY, **arguments})
    harness = harness.stopped().again()
    client = harness.client()
    client.publish("q", *[body(number) for number in range(MANY, MANY + 30)], delivery_mode=2)
    harness.rest()
    assert harness.queue("q").ready == MANY
    assert numbers(client, "dead") == (list(range(30)) if arguments else [])
    assert numbers(client, "q") == list(range(30, MANY + 30))


def test_while_the_disk_is_slow_the_limit_is_kept_as_soon_as_it_answers() -> None:
    harness, client = stocked({"x-max-length": MANY, **DEAD})
    harness.is_slow = True
    client.publish("q", *[body(number) for number in range(MANY, MANY + 200)], delivery_mode=2)
    harness.is_slow = False
    harness.rest()
    assert harness.queue("q").ready == MANY
    assert numbers(client, "dead") == list(range(200))
    assert numbers(client, "q") == list(range(200, MANY + 200))
    assert settled(harness)


def test_a_full_backlog_on_disk_refuses() -> None:
    _, client = stocked({"x-max-length": MANY, "x-overflow": "reject-publish"})
    client.publish("q", body(MANY), delivery_mode=2)
    assert numbers(client, "q") == list(range(MANY))
    client.publish("q", body(MANY), delivery_mode=2)
    assert numbers(client, "q") == [MANY]


@pytest.mark.parametrize("arguments", [{}, DEAD], ids=["no exchange", "an exchange"])
@pytest.mark.parametrize("headers", [None, {"a": "long header " * 50}], ids=["plain", "with headers"])
def test_a_restart_drops_nothing_of_what_is_just_within_its_bytes(
    arguments: dict[str, object], headers: dict[str, object] | None
) -> None:
    """At a start all of it is on disk only, and its bodies must not be taken for larger than they are."""
    harness = StoredHarness()
    client = harness.client()
    client.declare("dead", durable=True)
    client.declare("q", durable=True, arguments={"x-max-length-bytes": 1000, **arguments})
    client.publish("q", *[body(number) for number in range(10)], delivery_mode=2, headers=headers)
    assert client.count("q") == 10
    harness = harness.stopped().again()
    client = harness.client()
    assert [client.count("q"), client.count("dead")] == [10, 0]
    client.publish("q", body(10), delivery_mode=2)
    assert numbers(client, "q") == list(range(1, 11))


@pytest.mark.parametrize("arguments", [{}, DEAD], ids=["no exchange", "an exchange"])
def test_bytes_are_right_again_when_all_that_was_on_disk_is_gone(arguments: dict[str, object]) -> None:
    """However many died there unseen, with headers larger than their bodies."""
    harness = StoredHarness(queue_memory=4000)
    client = harness.client()
    client.declare("dead", durable=True)
    client.declare("q", durable=True, arguments={"x-max-length-bytes": 100 * MANY, **arguments})
    for number in range(MANY):
        expiration = "10000" if number % 2 else None
        client.publish("q", body(number), delivery_mode=2, expiration=expiration, headers={"large": "x" * 300})
    assert on_disk_only(harness) > 200
    harness.advance(10)
    assert numbers(client, "q") == list(range(0, MANY, 2))
    client.publish("q", *[body(number) for number in range(MANY + 7)], delivery_mode=2)
    assert client.count("q") == MANY
