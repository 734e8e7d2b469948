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
from tests.support.peer_pair import Harness


@pytest.mark.feature("S4-02")
def test_a_vhost_is_made_once_and_found_by_its_name(harness: Harness) -> None:
    shop = harness.broker.add_vhost("shop", max_queues=5)
    assert harness.broker.add_vhost("shop") is shop
    assert harness.broker.vhost("shop") is shop
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        harness.broker.vhost("nowhere")


@pytest.mark.feature("S4-02")
def test_the_same_name_may_exist_in_two_vhosts(harness: Harness) -> None:
    shop = harness.broker.add_vhost("shop")
    one, two = harness.vhost.declare_queue("q"), shop.declare_queue("q")
    assert one is not two
    assert one.id != two.id


def test_deleting_a_vhost_takes_everything_in_it_along(harness: Harness) -> None:
    shop = harness.broker.add_vhost("shop")
    harness.user("ann", "shop")
    inside, outside = harness.client("ann", vhost="shop"), harness.client()
    inside.declare("q")
    inside.publish("q", b"m")
    queue = shop.queues["q"]
    harness.broker.delete_vhost("shop")
    harness.turn()
    assert not queue.alive
    (close,) = inside.heard()
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    assert not harness.broker.permissions.permits_entry("ann", "shop")
    outside.open_channel(2)
    assert harness.broker.gauge.used == 0


def test_a_vhost_that_is_not_there_cannot_be_deleted(harness: Harness) -> None:
    with pytest.raises(NotFound):
        harness.broker.delete_vhost("nowhere")


def test_a_turn_delivers_first_and_then_writes(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    client.consume("q", no_ack=True)
    client.feed(client.published("", "q", b"a") + client.published("", "q", b"b"))
    assert client.bodies() == [b"a", b"b"]


def test_one_queues_bug_does_not_stop_the_others(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    client = harness.client()
    for name in ("broken", "sound"):
        client.declare(name)
        client.consume(name, tag=name, no_ack=True)

    def observer(queue: object) -> None:
        raise ZeroDivisionError

    harness.queue("broken").observers.append(observer)
    with caplog.at_level(logging.ERROR, "leveret"):
        client.feed(client.published("", "broken", b"x") + client.published("", "sound", b"y"))
    assert client.bodies() == [b"x", b"y"]
    assert "internal error while delivering queue=broken" in caplog.text


def test_a_connection_is_blocked_when_it_publishes_above_the_memory_watermark() -> None:
    """Until then it consumes and acknowledges as before, whatever it has published earlier."""
    harness = Harness(memory_high_watermark=10_000)
    publisher, consumer, quiet = harness.client(), harness.client(), harness.client(capabilities={})
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


def test_a_changed_permission_ends_what_channels_remember_in_every_vhost(harness: Harness) -> None:
    shop = harness.broker.add_vhost("shop")
    before = harness.vhost.epoch, shop.epoch
    harness.broker.permissions.set("guest", "/", "", "", "")
    assert harness.vhost.epoch > before[0]
    assert shop.epoch > before[1]


def test_a_client_in_the_middle_of_its_handshake_is_not_blocked() -> None:
    harness = Harness(memory_high_watermark=1_000)
    stranger = harness.stranger()
    publisher = harness.client()
    publisher.declare("q")
    publisher.publish("q", b"x" * 2_000)
    stranger.session.block()
    assert stranger.socket.reading
    assert stranger.socket.written == b""
    stranger.log_in()
    assert stranger.ask(ChannelOpen()).NAME == "channel.open-ok"
