"""Ack timeouts where much is delivered: what was settled in time costs neither memory nor a walk through the rest."""

from __future__ import annotations

import time

from tests.support.peer_pair import Client, Content, Harness

SECONDS = 3.0  # far more than it takes: if every lease looked at every span it would be ten times as much


def tags(client: Client) -> list[int]:
    return [each.tag for each in client.heard() if isinstance(each, Content)]


def pair(harness: Harness, prefetch: int) -> list[Client]:
    """Two consumers: they take turns, so no two messages of one follow each other in the queue."""
    clients = [harness.client() for _ in range(2)]
    for client in clients:
        client.qos(prefetch)
        client.consume("q")
    return clients


def test_leases_that_end_do_not_look_at_all_that_is_held(harness: Harness) -> None:
    publisher = harness.client()
    publisher.declare("q", arguments={"x-consumer-timeout": 10_000})
    clients = pair(harness, prefetch=2000)
    for number in range(200):
        publisher.publish("q", *[b"x"] * 100)
        for client in clients:
            given = tags(client)
            if number < 160:
                client.ack(given[-1], multiple=True)
    assert harness.queue("q").unacked == 4000
    begun = time.thread_time()
    harness.advance(10)
    assert time.thread_time() - begun < SECONDS
    assert harness.queue("q").counters.timed_out == 4000


def test_leases_of_settled_messages_are_forgotten(harness: Harness) -> None:
    """Long before their time is over."""
    publisher = harness.client()
    publisher.declare("q", arguments={"x-consumer-timeout": 1_800_000})
    clients = pair(harness, prefetch=10)
    for _ in range(1000):
        publisher.publish("q", *[b"x"] * 10)
        for client in clients:
            for tag in tags(client):
                client.ack(tag)
    leases = harness.queue("q").ack_timeouts
    assert leases is not None
    assert len(leases) < 3000


def test_one_slow_message_among_many_quick_ones_comes_back_in_time(harness: Harness) -> None:
    publisher = harness.client()
    publisher.declare("q", arguments={"x-consumer-timeout": 10_000})
    client = harness.client()
    client.qos(50)
    client.consume("q")
    publisher.publish("q", b"slow")
    (slow,) = tags(client)
    for _ in range(200):
        publisher.publish("q", *[b"quick"] * 20)
        for tag in tags(client):
            client.ack(tag)
        harness.advance(1 / 32)
    assert harness.queue("q").counters.timed_out == 0
    harness.advance(10 - 200 / 32)
    assert harness.queue("q").counters.timed_out == 1
    assert len(tags(client)) == 1
    client.ack(slow)
    assert client.heard() == []
