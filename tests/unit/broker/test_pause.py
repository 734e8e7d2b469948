"""A paused queue takes and does not give."""

from __future__ import annotations

import pytest

from leveret.broker.pause import pause, resume
from leveret.wire.methods import BasicAck
from tests.support.broker_house import BrokerHouse
from tests.support.peer_pair import House
from tests.support.store_house import FULL_SIZE


@pytest.mark.parametrize("arguments", [{}, {"x-single-active-consumer": True}], ids=["plain", "single active"])
def test_a_paused_queue_takes_and_gives_nothing_until_it_is_resumed(arguments: dict[str, object]) -> None:
    house = House()
    client = house.client()
    client.declare("q", arguments=arguments)
    client.consume("q")
    client.publish("q", b"before")
    assert client.bodies() == [b"before"]
    pause(house.vhost, house.queue("q"))
    client.publish("q", b"1", b"2")
    assert client.bodies() == []
    assert client.get("q") is None
    assert client.count("q") == 2
    client.send(BasicAck(1))
    assert house.queue("q").unacked == 0
    resume(house.vhost, house.queue("q"))
    house.turn()
    assert client.bodies() == [b"1", b"2"]


def reborn(house: BrokerHouse) -> BrokerHouse:
    house.rest()
    house.stop()
    again = BrokerHouse(house.disk, full_size=FULL_SIZE, ledger=house.ledger)
    again.begin()
    return again


def test_a_restart_changes_nothing() -> None:
    house = BrokerHouse()
    house.begin()
    house.make("q", "r")
    house.post("q", b"waits")
    pause(house.broker.vhost("/"), house.queue("q"))
    pause(house.broker.vhost("/"), house.queue("r"))
    resume(house.broker.vhost("/"), house.queue("r"))
    again = reborn(house)
    assert (again.queue("q").consumers.paused, again.queue("r").consumers.paused) == (True, False)
    assert again.take("q") == []
    resume(again.broker.vhost("/"), again.queue("q"))
    again.rest()
    last = reborn(again)
    last.rest()
    assert [taken.message[0] for taken in last.take("q")] == [b"waits"]


def test_a_deleted_queue_is_not_remembered_as_paused() -> None:
    house = BrokerHouse()
    house.begin()
    house.make("q")
    pause(house.broker.vhost("/"), house.queue("q"))
    house.drop("q")
    house.make("q")
    assert not reborn(house).queue("q").consumers.paused
