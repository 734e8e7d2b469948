"""All that lives on one node: virtual hosts, turns, and publishers that must wait."""

from __future__ import annotations

import logging

import pytest

from leveret.errors import NotFound
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.peer_pair import House


@pytest.fixture
def house() -> House:
    return House()


@pytest.mark.feature("S4-02")
def test_a_vhost_is_made_once_and_found_by_its_name(house: House) -> None:
    shop = house.broker.add_vhost("shop", max_queues=5)
    assert house.broker.add_vhost("shop") is shop
    assert house.broker.vhost("shop") is shop
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        house.broker.vhost("nowhere")


@pytest.mark.feature("S4-02")
def test_the_same_name_may_exist_in_two_vhosts(house: House) -> None:
    shop = house.broker.add_vhost("shop")
    one, two = house.vhost.declare_queue("q"), shop.declare_queue("q")
    assert one is not two
    assert one.id != two.id


def test_deleting_a_vhost_takes_everything_in_it_along(house: House) -> None:
    shop = house.broker.add_vhost("shop")
    house.user("ann", "shop")
    inside, outside = house.client("ann", vhost="shop"), house.client()
    inside.declare("q")
    inside.publish("q", b"m")
    queue = shop.queues["q"]
    house.broker.delete_vhost("shop")
    house.turn()
    assert not queue.alive
    (close,) = inside.heard()
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    assert not house.broker.permissions.permits_entry("ann", "shop")
    outside.open_channel(2)
    assert house.broker.gauge.used == 0


def test_a_vhost_that_is_not_there_cannot_be_deleted(house: House) -> None:
    with pytest.raises(NotFound):
        house.broker.delete_vhost("nowhere")


def test_a_turn_delivers_first_and_then_writes(house: House) -> None:
    client = house.client()
    client.declare("q")
    client.consume("q", no_ack=True)
    client.feed(client.published("", "q", b"a") + client.published("", "q", b"b"))
    assert client.bodies() == [b"a", b"b"]


def test_one_queues_bug_does_not_stop_the_others(house: House, caplog: pytest.LogCaptureFixture) -> None:
    client = house.client()
    for name in ("broken", "sound"):
        client.declare(name)
        client.consume(name, tag=name, no_ack=True)

    def observer(queue: object) -> None:
        raise ZeroDivisionError

    house.queue("broken").observers.append(observer)
    with caplog.at_level(logging.ERROR, "leveret"):
        client.feed(client.published("", "broken", b"x") + client.published("", "sound", b"y"))
    assert client.bodies() == [b"x", b"y"]
    assert "internal error while delivering queue=broken" in caplog.text


def test_a_connection_is_blocked_when_it_publishes_above_the_memory_watermark() -> None:
    """Until then it consumes and acknowledges as before, whatever it has published earlier."""
    house = House(memory_high_watermark=10_000)
    publisher, consumer, quiet = house.client(), house.client(), house.client(capabilities={})
    publisher.declare("q")
    quiet.publish("nowhere", b"x")
    publisher.publish("q", b"x" * 20_000)
    assert (publisher.heard(), publisher.socket.reading, quiet.socket.reading) == ([], True, True)
    assert publisher.count("q") == 1
    publisher.feed(publisher.published("", "q", b"second") + method_frame(1, QueuePurge("q")))
    quiet.publish("q", b"third")
    assert publisher.heard() == [ConnectionBlocked("low on memory")], "what follows the publish waits as well"
    assert not publisher.socket.reading
    assert (quiet.heard(), quiet.socket.reading) == ([], False), "it did not ask to be told, but waits as well"
    assert consumer.socket.reading
    assert consumer.heard() == []

    assert consumer.count("q") == 1, "the body of a publish is not taken during the alarm"
    consumer.ask(QueuePurge("q"))
    assert publisher.heard() == [ConnectionUnblocked(), QueuePurgeOk(1)]
    assert publisher.socket.reading
    assert quiet.socket.reading
    assert consumer.count("q") == 1, "the third, which was sent meanwhile"


def test_a_changed_permission_ends_what_channels_remember_in_every_vhost(house: House) -> None:
    shop = house.broker.add_vhost("shop")
    before = house.vhost.epoch, shop.epoch
    house.broker.permissions.set("guest", "/", "", "", "")
    assert house.vhost.epoch > before[0]
    assert shop.epoch > before[1]


def test_a_client_in_the_middle_of_its_handshake_is_not_blocked() -> None:
    house = House(memory_high_watermark=1_000)
    stranger = house.stranger()
    publisher = house.client()
    publisher.declare("q")
    publisher.publish("q", b"x" * 2_000)
    stranger.session.block()
    assert stranger.socket.reading
    assert stranger.socket.written == b""
    stranger.log_in()
    assert stranger.ask(ChannelOpen()).NAME == "channel.open-ok"
