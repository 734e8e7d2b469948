"""Run in each environment: the pytest fixture, with messages over AMQP and in the process."""

from __future__ import annotations

import leveret
from leveret.client.blocking import connect


def test_it_is_the_installed_package() -> None:
    assert "site-packages" in leveret.__file__


def test_the_fixture_takes_and_delivers_messages(leveret_broker: leveret.Broker) -> None:
    with connect(leveret_broker.amqp_url) as connection:
        channel = connection.channel()
        channel.declare_queue("orders")
        channel.confirm_select()
        channel.publish(b"over AMQP", routing_key="orders")
        vhost = leveret_broker.vhost()
        assert vhost.publish("", "orders", b"in the process")
        with channel.consume("orders") as consumer:
            received = []
            for message in consumer:
                message.ack()
                received.append(bytes(message.body))
                if len(received) == 2:
                    break
    assert received == [b"over AMQP", b"in the process"]
