"""A paused queue takes and does not give."""

from __future__ import annotations

import pytest

from leveret.wire.methods import BasicAck
from tests.support.broker_harness import BrokerHarness
from tests.support.peer_pair import Harness
from tests.support.store_harness import FULL_SIZE


@pytest.mark.parametrize("arguments", [{}, {"x-single-active-consumer": True}], ids=["plain", "single active"])
def test_a_paused_queue_takes_and_gives_nothing_until_it_is_resumed(arguments: dict[str, object]) -> None:
    harness = Harness()
    client = harness.client()
    client.declare("q", arguments=arguments)
    client.consume("q")
    client.publish("q", b"before")
    assert client.bodies() == [b"before"]
    harness.vhost.pause_queue(harness.queue("q"))
    client.publish("q", b"1", b"2")
    assert client.bodies() == []
    assert client.get("q") is None
    assert client.count("q") == 2
    client.send(BasicAck(1))
    assert harness.queue("q").unacked == 0
    harness.vhost.resume_queue(harness.queue("q"))
    harness.turn()
    assert client.bodies() == [b"1", b"2"]


def reborn(harness: BrokerHarness) -> BrokerHarness:
    harness.rest()
    harness.stop()
    again = BrokerHarness(harness.disk, full_size=FULL_SIZE, ledger=harness.ledger)
    again.begin()
    return again


def test_a_restart_changes_nothing() -> None:
    harness = BrokerHarness()
    harness.begin()
    harness.make("q", "r")
    harness.post("q", b"waits")
    harness.broker.vhost("/").pause_queue(harness.queue("q"))
    harness.broker.vhost("/").pause_queue(harness.queue("r"))
    harness.broker.vhost("/").resume_queue(harness.queue("r"))
    again = reborn(harness)
    assert (again.queue("q").consumers.paused, again.queue("r").consumers.paused) == (True, False)
    assert again.take("q") == []
    again.broker.vhost("/").resume_queue(again.queue("q"))
    again.rest()
    last = reborn(again)
    last.rest()
    assert [taken.message[0] for taken in last.take("q")] == [b"waits"]


def test_a_deleted_queue_is_not_remembered_as_paused() -> None:
    harness = BrokerHarness()
    harness.begin()
    harness.make("q")
    harness.broker.vhost("/").pause_queue(harness.queue("q"))
    harness.drop("q")
    harness.make("q")
    assert not reborn(harness).queue("q").consumers.paused
