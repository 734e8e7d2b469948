"""What a queue has seen, over the end of the broker: it is on disk with the message, and stays when that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.internal_queues import SEEN
from leveret.queues import duplicates
from leveret.wire.methods import BasicAck, ConfirmSelect, QueueDelete
from tests.support.peer_pair import Client
from tests.support.stored_house import StoredHouse

ID = "x-deduplication-header"
UNIQUE = {"x-message-deduplication": True}


def new_house(**arguments: Any) -> StoredHouse:
    house = StoredHouse()
    house.client().declare("q", durable=True, arguments={**UNIQUE, **arguments})
    return house


def send(house: StoredHouse, *keys: object, mode: int = 2, body: bytes = b"m") -> None:
    client = house.client()
    for key in keys:
        client.publish("q", body, headers={ID: key}, delivery_mode=mode)


def bodies(house: StoredHouse) -> list[bytes]:
    client = house.client()
    found = []
    while (content := client.get("q", no_ack=True)) is not None:
        found.append(content.body)
    return found


def trace_on_disk(house: StoredHouse) -> int:
    """How many ids the journal knows."""
    (trace,) = house.vhost.internal.traces()
    return len(house.store.journal.lanes[trace.id << 8].index)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.feature("S0-15")
def test_a_duplicate_is_one_after_a_restart(is_clean: bool) -> None:
    house = new_house()
    send(house, "a", body=b"first")
    house = (house.stopped() if is_clean else house.crashed()).again()
    send(house, "a", body=b"again")
    send(house, "b", body=b"new")
    assert bodies(house) == [b"first", b"new"]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.feature("S0-15")
def test_a_duplicate_of_what_was_consumed_is_one_after_a_restart(is_clean: bool) -> None:
    house = new_house()
    send(house, "a", body=b"first")
    assert bodies(house) == [b"first"]
    house.turn()
    house = (house.stopped() if is_clean else house.crashed()).again()
    send(house, "a", body=b"again")
    assert b"again" not in bodies(house)


@pytest.mark.feature("S0-15")
def test_a_duplicate_is_one_after_many_restarts() -> None:
    house = new_house()
    for number in range(6):
        send(house, number, body=b"%d" % number)
        house = (house.stopped() if number % 2 else house.crashed()).again()
        send(house, *range(number + 1), body=b"again")
    assert bodies(house) == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("image", range(8))
def test_a_message_and_its_trace_are_both_there_or_none_is(image: int) -> None:
    """After every crash the publisher sends all again, and each is there once."""
    house = new_house()
    send(house, *range(3))
    house.is_slow = True
    send(house, *range(3, 9))
    house.store.write()
    send(house, *range(9, 12))
    house = house.crashed(image=image).again()
    send(house, *range(12))
    assert len(bodies(house)) == 12


def test_the_window_in_time_goes_on_over_a_restart() -> None:
    house = new_house(**{"x-cache-ttl": 10_000})
    send(house, "a")
    house = house.stopped(4).again()
    send(house, "a", body=b"too early")
    house = house.stopped(5.9).again()
    send(house, "a", body=b"too early")
    assert bodies(house) == [b"m"]
    house = house.stopped(0.2).again()
    send(house, "a", body=b"anew")
    assert bodies(house) == [b"anew"]


def test_the_trace_is_as_short_as_the_window() -> None:
    house = new_house(**{"x-cache-size": 5})
    send(house, *range(40))
    house.rest()
    house.turn()
    assert trace_on_disk(house) == 5
    house = house.crashed(image=1).again()
    send(house, *range(40), body=b"again")
    found = bodies(house)
    assert found[:40] == [b"m"] * 40
    again = found[40:]
    assert len(again) == 40, "the oldest five come first, find the last five remembered, and push them out"


def test_a_trace_that_is_longer_than_the_window_is_cut_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were too many, some may not have left yet; they must not be taken for duplicates."""
    house = new_house(**{"x-cache-size": 2})
    with monkeypatch.context() as patched:
        patched.setattr(duplicates, "FORGOTTEN_AT_ONCE", 0)
        send(house, *range(100))
        life = house.crashed()
    house = life.again()
    send(house, 90, 99, body=b"again")
    assert bodies(house) == [b"m"] * 100 + [b"again"]


def test_a_duplicate_is_not_confirmed_before_the_first_one() -> None:
    house = new_house()
    client = house.client()
    client.ask(ConfirmSelect())
    other = house.client()
    other.ask(ConfirmSelect())
    house.is_slow = True
    client.publish("q", b"first", headers={ID: "a"}, delivery_mode=2)
    other.publish("q", b"again", headers={ID: "a"}, delivery_mode=2)
    assert (client.heard(), other.heard()) == ([], [])
    house.write()
    house.write()
    assert (client.heard(), other.heard()) == ([BasicAck(1)], [BasicAck(1)])
    other.publish("q", b"again", headers={ID: "a"}, delivery_mode=2)
    assert other.heard() == [BasicAck(2)], "the first one is safe: nothing to wait for"


def test_a_transient_message_is_traced_too() -> None:
    house = new_house()
    send(house, "a", mode=1)
    house = house.stopped().again()
    send(house, "a", mode=1, body=b"again")
    assert bodies(house) == []


def test_a_queue_that_dies_with_the_broker_has_no_trace() -> None:
    house = StoredHouse()
    client: Client = house.client()
    client.declare("q", arguments=UNIQUE)
    send(house, "a", "a")
    assert len(bodies(house)) == 1
    assert list(house.vhost.internal.traces()) == []


def test_deleting_the_queue_deletes_its_trace() -> None:
    house = new_house()
    send(house, *range(10))
    house.rest()
    assert len(house.disk.queues()) == 2
    house.client().ask(QueueDelete("q"))
    house.rest()
    assert house.disk.queues() == set()
    assert not house.store.journal.lanes
    house = house.stopped().again()
    house.client().declare("q", durable=True, arguments=UNIQUE)
    send(house, 1, body=b"anew")
    assert bodies(house) == [b"anew"]


def test_no_client_can_use_the_trace() -> None:
    house = new_house()
    send(house, "a")
    (trace,) = house.vhost.internal.traces()
    assert trace.name == f"{SEEN}{house.queue('q').id}"
    assert not house.vhost.has_queue(trace.name)


def test_a_policy_that_ends_it_empties_the_trace() -> None:
    house = StoredHouse()
    house.client().declare("q", durable=True)
    house.broker.policies.set("/", "unique", "^q$", {"message-deduplication": True})
    send(house, "a", "b")
    house.broker.policies.delete("/", "unique")
    house.turn()
    assert trace_on_disk(house) == 0
    house.broker.policies.set("/", "unique", "^q$", {"message-deduplication": True})
    send(house, "a", "a")
    house = house.crashed().again()
    send(house, "a")
    assert len(bodies(house)) == 3


def test_what_a_consumer_takes_before_it_is_written_is_confirmed_and_known() -> None:
    house = new_house()
    consumer = house.client()
    consumer.consume("q", no_ack=True)
    publisher = house.client()
    publisher.ask(ConfirmSelect())
    for body in (b"first", b"again"):
        publisher.publish("q", body, headers={ID: "a"}, delivery_mode=2)
    assert [what for what in publisher.heard() if not isinstance(what, BasicAck)] == []
    assert publisher.session.channels[1].confirms is not None
    assert publisher.session.channels[1].confirms.outstanding == 0
    assert consumer.bodies() == [b"first"]
    house = house.crashed().again()
    send(house, "a", body=b"again")
    assert b"again" not in bodies(house)
