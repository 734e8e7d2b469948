"""Ack timeouts where much is delivered: what was settled in time costs neither memory nor a walk through the rest."""

from __future__ import annotations

import time

import pytest

from tests.support.peer_pair import Client, Content, House

SECONDS = 3.0  # far more than it takes: if every lease looked at every span it would be ten times as much


@pytest.fixture
def house() -> House:
    return House()


def tags(client: Client) -> list[int]:
    return [each.tag for each in client.heard() if isinstance(each, Content)]


def pair(house: House, prefetch: int) -> list[Client]:
    """Two consumers: they take turns, so no two messages of one follow each other in the queue."""
    clients = [house.client() for _ in range(2)]
    for client in clients:
        client.qos(prefetch)
        client.consume("q")
    return clients


def test_leases_that_end_do_not_look_at_all_that_is_held(house: House) -> None:
    publisher = house.client()
    publisher.declare("q", arguments={"x-consumer-timeout": 10_000})
    clients = pair(house, prefetch=2000)
    for number in range(200):
        publisher.publish("q", *[b"x"] * 100)
        for client in clients:
            given = tags(client)
            if number < 160:
                client.ack(given[-1], multiple=True)
    assert house.queue("q").unacked == 4000
    begun = time.perf_counter()
    house.advance(10)
    assert time.perf_counter() - begun < SECONDS
    assert house.queue("q").counters.timed_out == 4000


def test_leases_of_settled_messages_are_forgotten(house: House) -> None:
    """Long before their time is over."""
    publisher = house.client()
    publisher.declare("q", arguments={"x-consumer-timeout": 1_800_000})
    clients = pair(house, prefetch=10)
    for _ in range(1000):
        publisher.publish("q", *[b"x"] * 10)
        for client in clients:
            for tag in tags(client):
                client.ack(tag)
    leases = house.queue("q").ack_timeouts
    assert leases is not None
    assert len(leases) < 3000


def test_one_slow_message_among_many_quick_ones_comes_back_in_time(house: House) -> None:
    publisher = house.client()
    publisher.declare("q", arguments={"x-consumer-timeout": 10_000})
    client = house.client()
    client.qos(50)
    client.consume("q")
    publisher.publish("q", b"slow")
    (slow,) = tags(client)
    for _ in range(200):
        publisher.publish("q", *[b"quick"] * 20)
        for tag in tags(client):
            client.ack(tag)
        house.advance(1 / 32)
    assert house.queue("q").counters.timed_out == 0
    house.advance(10 - 200 / 32)
    assert house.queue("q").counters.timed_out == 1
    assert len(tags(client)) == 1
    client.ack(slow)
    assert client.heard() == []
