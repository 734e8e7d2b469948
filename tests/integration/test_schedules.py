"""Schedules and duplicates from outside: a foreign client, a caller in the process, and a restart with a real disk."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

import leveret
from leveret.wire.properties import Properties
from tests.integration.conftest import NewPeer
from tests.support.peers import Peer

pytestmark = pytest.mark.broker(clock=leveret.FrozenClock)


def test_a_foreign_client_delays_a_message(leveret_broker: leveret.Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "topic"})
        channel.queue_declare("q")
        channel.queue_bind("q", "later", "order.*")
        channel.confirm_delivery()
        properties = pika.BasicProperties(headers={"x-delay": 60_000})
        channel.basic_publish("later", "order.new", b"m", properties)
        assert channel.basic_get("q") == (None, None, None)
        leveret_broker.clock.advance(60)
        method, shown, body = channel.basic_get("q")
        assert (method.exchange, method.routing_key, body) == ("later", "order.new", b"m")
        assert shown.headers == {"x-delay": -60_000}


def test_every_peer_schedules_by_deliver_at(new_peer: NewPeer, leveret_broker: leveret.Broker) -> None:
    peer: Peer = new_peer()
    peer.declare_queue("q")
    at = round((leveret_broker.clock.core.wall() + 10) * 1000)
    peer.publish("", "q", b"m", headers={"x-deliver-at": at})
    assert peer.count("q") == 0
    leveret_broker.clock.advance(10)
    assert peer.count("q") == 1


def test_a_caller_in_the_process_lists_and_cancels(tmp_path: Path) -> None:
    settings = leveret.Settings(data_dir=tmp_path / "data", amqp_port=0, http_port=None, stomp_port=None)
    kept = {"delivery_mode": 2}
    with leveret.Broker(settings) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        now = broker.clock.core.wall()
        for hours in (3, 1, 2):
            headers = {"x-deliver-at": round((now + hours * 3600) * 1000)}
            vhost.publish("", "q", b"%d" % hours, Properties(headers=headers, **kept))  # type: ignore[arg-type]
    with leveret.Broker(settings) as broker:
        vhost = broker.vhost()
        assert vhost.scheduled_count() == 3
        first = vhost.scheduled(limit=2)
        assert [round(each.due - now) for each in first.messages] == [3600, 7200]
        assert [round(each.due - now) for each in vhost.scheduled(after=first.next).messages] == [10800]
        assert vhost.cancel_scheduled(first.messages[1].id) is True
        assert vhost.cancel_scheduled(first.messages[1].id) is False
        broker.clock.advance(4 * 3600)
        got = [vhost.get("q", auto_ack=True) for _ in range(3)]
        assert [each.body for each in got if each is not None] == [b"1", b"3"]


@pytest.mark.feature("S0-15")
def test_every_peer_may_repeat_itself(new_peer: NewPeer) -> None:
    peer: Peer = new_peer()
    peer.declare_queue("q", arguments={"x-message-deduplication": True})
    for _ in range(3):
        peer.publish("", "q", b"m", headers={"x-deduplication-header": "order 7"})
    assert peer.count("q") == 1
