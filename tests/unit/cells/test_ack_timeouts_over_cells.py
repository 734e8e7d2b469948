"""Extending the ack timeout of a message from a queue of another cell."""

from __future__ import annotations

import pytest

from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client, Content
from tests.unit.queues.test_ack_timeouts import extend

MINUTE = 60_000  # milliseconds


@pytest.fixture
def pair() -> CellPair:
    pair = CellPair()
    pair.declare("timed", consumer_timeout=MINUTE)
    pair.declare("q")
    return pair


def advance(pair: CellPair, seconds: float) -> None:
    pair.home.advance(seconds)
    pair.here.advance(seconds)


def take_two(client: Client, how: str) -> list[int]:
    """The delivery tags of two messages, the oldest first."""
    client.publish("timed", b"1", b"2")
    if how == "consume":
        client.consume("timed")
        return [what.tag for what in client.heard() if isinstance(what, Content)]
    got = [client.get("timed"), client.get("timed")]
    return [each.tag for each in got if each is not None]


@pytest.mark.parametrize("how", ["consume", "get"])
def test_the_timeout_of_one_message_is_extended(pair: CellPair, client: Client, how: str) -> None:
    home = pair.home.queue("timed")
    _, second = take_two(client, how)
    advance(pair, 50)
    extend(client, delivery_tag=second)
    advance(pair, 50)
    assert home.counters.timed_out == 1
    advance(pair, 11)
    assert home.counters.timed_out == 2


def test_the_time_can_be_chosen(pair: CellPair, client: Client) -> None:
    home = pair.home.queue("timed")
    take_two(client, "consume")
    extend(client, delivery_tag=1, timeout=10 * MINUTE)
    extend(client, delivery_tag=2, timeout=5 * MINUTE)
    advance(pair, 299)
    assert home.counters.timed_out == 0
    advance(pair, 2)
    assert home.counters.timed_out == 1
    client.ack(1)
    client.ack(3)
    advance(pair, 600)
    assert (home.counters.timed_out, home.counters.acked) == (1, 2)


def test_an_extension_that_comes_too_late_has_no_effect(pair: CellPair, client: Client) -> None:
    """The home cell has taken the message back; the client does not know it yet."""
    take_two(client, "consume")
    advance(pair, 61)
    assert [what.body for what in client.heard() if isinstance(what, Content)] == [b"1", b"2"]  # delivered again
    extend(client, delivery_tag=1)
    extend(client, delivery_tag=3)
    client.ack(3)
    client.ack(4)
    assert client.heard() == []
    assert pair.home.queue("timed").unacked == 0


def test_an_extension_while_the_home_cell_is_away_has_no_effect(pair: CellPair, client: Client) -> None:
    take_two(client, "consume")
    pair.cut()
    extend(client, delivery_tag=1)
    pair.connect()
    assert [(what.body, what.redelivered) for what in client.heard() if isinstance(what, Content)] == [
        (b"1", True),
        (b"2", True),
    ]


def test_a_timeout_that_was_removed_meanwhile_closes_no_channel_of_the_link(pair: CellPair, client: Client) -> None:
    take_two(client, "consume")
    timeouts = pair.home.queue("timed").ack_timeouts
    assert timeouts is not None
    timeouts.seconds = None
    extend(client, delivery_tag=1)
    client.publish("timed", b"3")
    assert client.bodies() == [b"3"]


def test_an_extension_does_not_block_the_link_while_the_home_cell_has_an_alarm(pair: CellPair, client: Client) -> None:
    take_two(client, "consume")
    pair.home.broker.set_alarm("memory", "for a test")
    extend(client, delivery_tag=1)
    client.ack(2)
    assert pair.home.queue("timed").unacked == 1


def test_a_queue_without_a_timeout_refuses(client: Client) -> None:
    client.publish("q", b"1")
    got = client.get("q")
    assert got is not None
    extend(client, delivery_tag=got.tag)
    assert client.error() == (
        406,
        f"PRECONDITION_FAILED - cannot extend: the queue of delivery tag {got.tag} has no x-consumer-timeout: "
        "nothing to extend",
    )


def test_deliveries_with_gaps_are_found(pair: CellPair, client: Client) -> None:
    """The client has other tags than the link: it consumes from two queues."""
    client.publish("q", b"a", b"b", b"c")
    client.consume("q", "other")
    assert take_two(client, "consume")[-2:] == [4, 5]
    client.ack(4)
    extend(client, delivery_tag=5, timeout=10 * MINUTE)
    advance(pair, 61)
    assert pair.home.queue("timed").counters.timed_out == 0
    advance(pair, 540)
    assert pair.home.queue("timed").counters.timed_out == 1
