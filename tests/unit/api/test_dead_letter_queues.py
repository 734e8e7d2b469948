"""Where dead letters come to rest, in a virtual host where many queues share many of them."""

from __future__ import annotations

import asyncio

import pytest

from leveret.api.dead_letter_queues import MOST_NAMED, dead_letter_queues
from leveret.http import time_slice as turns
from leveret.routing.bindings import Binding, Destination
from tests.support.peer_pair import Harness

DEAD, LIVING = 40, 60


@pytest.fixture
def harness() -> Harness:
    """All dead letters go to one exchange, and from there to all queues of the dead, of which one sends to it too."""
    harness = Harness()
    vhost = harness.vhost
    dying = {"x-dead-letter-exchange": "amq.fanout"}
    for number in range(DEAD):
        vhost.declare_queue(f"dead.{number}", arguments=dying if number == 7 else {})
        vhost.bind(Binding("amq.fanout", Destination("queue", f"dead.{number}"), "", {}))
    for number in range(LIVING):
        vhost.declare_queue(f"q.{number}", arguments=dying)
    return harness


def test_of_those_who_send_some_are_named_and_all_are_counted(harness: Harness) -> None:
    found = asyncio.run(dead_letter_queues(harness.vhost))
    assert len(found) == DEAD
    first, own = found["dead.0"], found["dead.7"]
    assert (first.names[:2], len(first.names), first.count) == (["dead.7", "q.0"], MOST_NAMED, LIVING + 1)
    assert (own.names[0], len(own.names), own.count) == ("q.0", MOST_NAMED, LIVING), "a queue is no source of its own"


def test_others_get_their_turn_between_the_queues_of_one_exchange(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0.0)  # every turn is long enough
    ticks = 0

    async def looked_at_beside_others() -> None:
        nonlocal ticks
        looking = asyncio.ensure_future(dead_letter_queues(harness.vhost))
        while not looking.done():
            ticks += 1
            await asyncio.sleep(0)

    asyncio.run(looked_at_beside_others())
    assert ticks > DEAD + LIVING + DEAD
