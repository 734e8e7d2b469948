"""Messages without an entry among the deadlines die in time all the same, whatever stands before them."""

from __future__ import annotations

import pytest

from leveret.queues.options import QueueOptions
from leveret.wire.methods import BasicNack
from tests.support.peer_pair import Client, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


@pytest.mark.feature("S0-29")
def test_a_ttl_that_comes_later_counts_behind_messages_without_one(harness: Harness, client: Client) -> None:
    """Those that were there before live on, in front."""
    client.publish("q", b"old")
    harness.queue("q").apply(QueueOptions(ttl=5.0))
    client.publish("q", b"new", b"newer")
    harness.advance(5)
    assert client.count("q") == 1
    got = client.get("q")
    assert got is not None
    assert got.body == b"old"


def test_one_that_came_back_does_not_keep_others_alive(harness: Harness, client: Client) -> None:
    client.publish("q", b"immortal")
    held = client.get("q")
    assert held is not None
    client.publish("q", b"mortal", expiration="5000")
    client.send(BasicNack(held.tag, requeue=True))
    harness.advance(5)
    assert client.count("q") == 1
    got = client.get("q")
    assert got is not None
    assert got.body == b"immortal"


@pytest.mark.parametrize("first", ["1000", "9000"])
def test_each_dies_at_its_own_moment(harness: Harness, client: Client, first: str) -> None:
    client.publish("q", b"a", expiration=first)
    client.publish("q", b"b", expiration="3000")
    client.publish("q", b"c")
    client.publish("q", b"d", expiration="2000")
    left = []
    for _ in range(10):
        harness.advance(1)
        left.append(client.count("q"))
    assert left == ([3, 2] if first == "1000" else [4, 3]) + ([1] * 8 if first == "1000" else [2] * 6 + [1] * 2)


def test_types_of_headers_stay_when_blind_copies_are_taken_out(harness: Harness, client: Client) -> None:
    """A small number of 64 bits is one for the receiver, too."""
    frames = client.published("", "q", b"m", headers={"wide": 1, "BCC": ["nowhere"]})
    assert b"\x04wideI\x00\x00\x00\x01" in frames
    wide = frames.replace(b"\x04wideI\x00\x00\x00\x01", b"\x04widel\x00\x00\x00\x00\x00\x00\x00\x01")
    start = wide.index(b"\x02\x00\x01")
    size = int.from_bytes(wide[start + 3 : start + 7], "big") + 4
    wide = wide[: start + 3] + size.to_bytes(4, "big") + wide[start + 7 :]
    table = start + 7 + 14
    length = int.from_bytes(wide[table : table + 4], "big") + 4
    client.feed(wide[:table] + length.to_bytes(4, "big") + wide[table + 4 :])
    (waiting,) = [message for _, _, message in harness.queue("q").lane]
    assert b"\x04widel\x00\x00\x00\x00\x00\x00\x00\x01" in waiting[0]
    assert b"BCC" not in waiting[0]
