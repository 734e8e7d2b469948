"""A mark is over when all that was in the queue at that moment has left it for good."""

from __future__ import annotations

import pytest

from tests.support.peer_pair import Client, Harness
from tests.support.stored_harness import StoredHarness


class Marked:
    """Marks ``q`` now, and knows whether that is over."""

    def __init__(self, harness: Harness) -> None:
        self.times = 0
        harness.queue("q").when_gone(self._over)

    def _over(self) -> None:
        self.times += 1

    @property
    def is_over(self) -> bool:
        assert self.times <= 1
        return self.times == 1


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


def test_a_mark_on_an_empty_queue_is_over_at_once(harness: Harness, client: Client) -> None:
    assert Marked(harness).is_over


def test_what_is_acked_counts_and_what_comes_later_does_not(harness: Harness, client: Client) -> None:
    client.publish("q", b"1", b"2")
    mark = Marked(harness)
    client.publish("q", b"3", b"4")
    client.consume("q")
    client.ack(4)
    client.ack(3)
    client.ack(1)
    assert not mark.is_over
    client.ack(2)
    assert mark.is_over


def test_one_ack_for_messages_on_both_sides_of_the_mark(harness: Harness, client: Client) -> None:
    client.publish("q", b"1", b"2")
    mark = Marked(harness)
    client.publish("q", b"3")
    client.consume("q")
    client.ack(3, multiple=True)
    assert mark.is_over


def test_what_comes_back_keeps_the_mark_waiting(harness: Harness, client: Client) -> None:
    client.publish("q", b"1")
    client.consume("q")
    mark = Marked(harness)
    client.nack(1)
    assert not mark.is_over
    client.nack(2, requeue=False)
    assert mark.is_over


def test_what_waits_for_a_retry_keeps_the_mark_waiting(harness: Harness, client: Client) -> None:
    harness.broker.policies.set("/", "p", "^q$", {"retry-delays": [1000]})
    client.publish("q", b"1")
    client.consume("q", no_ack=False)
    client.nack(1)
    assert harness.queue("q").ready == harness.queue("q").unacked == 0
    mark = Marked(harness)
    assert not mark.is_over
    harness.advance(1)
    client.ack(2)
    assert mark.is_over


def test_purge_deletes_all_but_what_is_unacked(harness: Harness, client: Client) -> None:
    client.publish("q", b"1", b"2", b"3")
    got = client.get("q")
    assert got is not None
    mark = Marked(harness)
    harness.vhost.purge_queue("q")
    assert not mark.is_over
    client.ack(got.tag)
    assert mark.is_over


def test_expired_messages_have_left(harness: Harness, client: Client) -> None:
    client.publish("q", b"1", expiration="1000")
    mark = Marked(harness)
    harness.advance(2)
    assert mark.is_over


def test_no_ack_deliveries_have_left(harness: Harness, client: Client) -> None:
    client.publish("q", b"1", b"2")
    mark = Marked(harness)
    client.consume("q", no_ack=True)
    assert mark.is_over


def test_with_its_queue_a_mark_is_over(harness: Harness, client: Client) -> None:
    client.publish("q", b"1")
    mark = Marked(harness)
    queue = harness.queue("q")
    client.publish("q", b"2")
    harness.vhost.delete_queue("q")
    assert mark.is_over
    times: list[int] = []
    queue.when_gone(lambda: times.append(1))
    assert times == [1]


def test_two_marks_are_over_one_after_the_other(harness: Harness, client: Client) -> None:
    client.publish("q", b"1")
    first = Marked(harness)
    client.publish("q", b"2")
    second = Marked(harness)
    client.consume("q")
    client.ack(1)
    assert first.is_over
    assert not second.is_over
    client.ack(2)
    assert second.is_over


def test_a_purge_of_what_is_on_disk_counts_only_what_was_there() -> None:
    """Some of the stretch on disk was settled before; the one message that is unacked is still waited for."""
    harness = StoredHarness(queue_memory=4096)
    client = harness.client()
    client.declare("q", durable=True)
    client.publish("q", *[b"%04d" % number + bytes(200) for number in range(500)], delivery_mode=2)
    got = client.get("q")
    assert got is not None
    assert harness.queue("q").lane.paged > 0
    mark = Marked(harness)
    client.publish("q", b"later", delivery_mode=2)
    harness.vhost.purge_queue("q")
    harness.rest()
    assert not mark.is_over
    client.ack(got.tag)
    assert mark.is_over
