"""What a queue has seen, over the end of the broker: it is on disk with the message, and stays when that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.internal_queues import SEEN
from leveret.queues import duplicates
from leveret.wire.methods import BasicAck, ConfirmSelect, QueueDelete
from tests.support.peer_pair import Client
from tests.support.stored_harness import StoredHarness

ID = "x-deduplication-header"
UNIQUE = {"x-message-deduplication": True}


def new_harness(**arguments: Any) -> StoredHarness:
    harness = StoredHarness()
    harness.client().declare("q", durable=True, arguments={**UNIQUE, **arguments})
    return harness


def send(harness: StoredHarness, *keys: object, mode: int = 2, body: bytes = b"m") -> None:
    client = harness.client()
    for key in keys:
        client.publish("q", body, headers={ID: key}, delivery_mode=mode)


def bodies(harness: StoredHarness) -> list[bytes]:
    client = harness.client()
    found = []
    while (content := client.get("q", no_ack=True)) is not None:
        found.append(content.body)
    return found


def trace_on_disk(harness: StoredHarness) -> int:
    """How many ids the journal knows."""
    (trace,) = harness.vhost.internal.traces()
    return len(harness.store.journal.lanes[trace.id << 8].index)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.feature("S0-15")
def test_a_duplicate_is_one_after_a_restart(is_clean: bool) -> None:
    harness = new_harness()
    send(harness, "a", body=b"first")
    harness = (harness.stopped() if is_clean else harness.crashed()).again()
    send(harness, "a", body=b"again")
    send(harness, "b", body=b"new")
    assert bodies(harness) == [b"first", b"new"]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.feature("S0-15")
def test_a_duplicate_of_what_was_consumed_is_one_after_a_restart(is_clean: bool) -> None:
    harness = new_harness()
    send(harness, "a", body=b"first")
    assert bodies(harness) == [b"first"]
    harness.turn()
    harness = (harness.stopped() if is_clean else harness.crashed()).again()
    send(harness, "a", body=b"again")
    assert b"again" not in bodies(harness)


@pytest.mark.feature("S0-15")
def test_a_duplicate_is_one_after_many_restarts() -> None:
    harness = new_harness()
    for number in range(6):
        send(harness, number, body=b"%d" % number)
        harness = (harness.stopped() if number % 2 else harness.crashed()).again()
        send(harness, *range(number + 1), body=b"again")
    assert bodies(harness) == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("image", range(8))
def test_a_message_and_its_trace_are_both_there_or_none_is(image: int) -> None:
    """After every crash the publisher sends all again, and each is there once."""
    harness = new_harness()
    send(harness, *range(3))
    harness.is_slow = True
    send(harness, *range(3, 9))
    harness.store.write()
    send(harness, *range(9, 12))
    harness = harness.crashed(image=image).again()
    send(harness, *range(12))
    assert len(bodies(harness)) == 12


def test_the_window_in_time_goes_on_over_a_restart() -> None:
    harness = new_harness(**{"x-cache-ttl": 10_000})
    send(harness, "a")
    harness = harness.stopped(4).again()
    send(harness, "a", body=b"too early")
    harness = harness.stopped(5.9).again()
    send(harness, "a", body=b"too early")
    assert bodies(harness) == [b"m"]
    harness = harness.stopped(0.2).again()
    send(harness, "a", body=b"anew")
    assert bodies(harness) == [b"anew"]


def test_the_trace_is_as_short_as_the_window() -> None:
    harness = new_harness(**{"x-cache-size": 5})
    send(harness, *range(40))
    harness.rest()
    harness.turn()
    assert trace_on_disk(harness) == 5
    harness = harness.crashed(image=1).again()
    send(harness, *range(40), body=b"again")
    found = bodies(harness)
    assert found[:40] == [b"m"] * 40
    again = found[40:]
    assert len(again) == 40, "the oldest five come first, find the last five remembered, and push them out"


def test_a_trace_that_is_longer_than_the_window_is_cut_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were too many, some may not have left yet; they must not be taken for duplicates."""
    harness = new_harness(**{"x-cache-size": 2})
    with monkeypatch.context() as patched:
        patched.setattr(duplicates, "FORGOTTEN_AT_ONCE", 0)
        send(harness, *range(100))
        life = harness.crashed()
    harness = life.again()
    send(harness, 90, 99, body=b"again")
    assert bodies(harness) == [b"m"] * 100 + [b"again"]


def test_a_duplicate_is_not_confirmed_before_the_first_one() -> None:
    harness = new_harness()
    client = harness.client()
    client.ask(ConfirmSelect())
    other = harness.client()
    other.ask(ConfirmSelect())
    harness.is_slow = True
    client.publish("q", b"first", headers={ID: "a"}, delivery_mode=2)
    other.publish("q", b"again", headers={ID: "a"}, delivery_mode=2)
    assert (client.heard(), other.heard()) == ([], [])
    harness.write()
    harness.write()
    assert (client.heard(), other.heard()) == ([BasicAck(1)], [BasicAck(1)])
    other.publish("q", b"again", headers={ID: "a"}, delivery_mode=2)
    assert other.heard() == [BasicAck(2)], "the first one is safe: nothing to wait for"


def test_a_transient_message_is_traced_too() -> None:
    harness = new_harness()
    send(harness, "a", mode=1)
    harness = harness.stopped().again()
    send(harness, "a", mode=1, body=b"again")
    assert bodies(harness) == []


def test_a_queue_that_dies_with_the_broker_has_no_trace() -> None:
    harness = StoredHarness()
    client: Client = harness.client()
    client.declare("q", arguments=UNIQUE)
    send(harness, "a", "a")
    assert len(bodies(harness)) == 1
    assert list(harness.vhost.internal.traces()) == []


def test_deleting_the_queue_deletes_its_trace() -> None:
    harness = new_harness()
    send(harness, *range(10))
    harness.rest()
    assert len(harness.disk.queues()) == 2
    harness.client().ask(QueueDelete("q"))
    harness.rest()
    assert harness.disk.queues() == set()
    assert not harness.store.journal.lanes
    harness = harness.stopped().again()
    harness.client().declare("q", durable=True, arguments=UNIQUE)
    send(harness, 1, body=b"anew")
    assert bodies(harness) == [b"anew"]


def test_no_client_can_use_the_trace() -> None:
    harness = new_harness()
    send(harness, "a")
    (trace,) = harness.vhost.internal.traces()
    assert trace.name == f"{SEEN}{harness.queue('q').id}"
    assert not harness.vhost.has_queue(trace.name)


def test_a_policy_that_ends_it_empties_the_trace() -> None:
    harness = StoredHarness()
    harness.client().declare("q", durable=True)
    harness.broker.policies.set("/", "unique", "^q$", {"message-deduplication": True})
    send(harness, "a", "b")
    harness.broker.policies.delete("/", "unique")
    harness.turn()
    assert trace_on_disk(harness) == 0
    harness.broker.policies.set("/", "unique", "^q$", {"message-deduplication": True})
    send(harness, "a", "a")
    harness = harness.crashed().again()
    send(harness, "a")
    assert len(bodies(harness)) == 3


def test_what_a_consumer_takes_before_it_is_written_is_confirmed_and_known() -> None:
    harness = new_harness()
    consumer = harness.client()
    consumer.consume("q", no_ack=True)
    publisher = harness.client()
    publisher.ask(ConfirmSelect())
    for body in (b"first", b"again"):
        publisher.publish("q", body, headers={ID: "a"}, delivery_mode=2)
    assert [what for what in publisher.heard() if not isinstance(what, BasicAck)] == []
    assert publisher.session.channels[1].confirms is not None
    assert publisher.session.channels[1].confirms.outstanding == 0
    assert consumer.bodies() == [b"first"]
    harness = harness.crashed().again()
    send(harness, "a", body=b"again")
    assert b"again" not in bodies(harness)
