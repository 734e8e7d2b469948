"""A client that goes away, politely or not, leaves nothing behind and loses nothing."""

from __future__ import annotations

import pytest

import leveret
from tests.compat.waiting import until
from tests.support.peers import LocalPeer, NetworkPeer, inside, refused


@pytest.mark.feature("S4-61")
def test_a_vanished_client_leaves_nothing_behind(leveret_broker: leveret.Broker, local: LocalPeer) -> None:
    """Its consumers, exclusive queues and channels go, its unacked messages are there again."""
    gone = NetworkPeer(leveret_broker.amqp_url)
    local.declare_queue("shared")
    for number in range(4):
        local.publish("", "shared", str(number).encode())
    gone.consume("shared", prefetch=2).take(2)
    private = gone.declare_queue("private", exclusive=True)
    passing = gone.declare_queue("passing", auto_delete=True)
    gone.consume(passing)
    gone.channel.confirm_delivery()
    gone.connection.channel().tx_select()
    gone.cut()
    until(lambda: not leveret_broker.call(lambda: len(leveret_broker.node.broker.registry)))
    queue = inside(leveret_broker, "shared")
    assert (len(queue.consumers), queue.unacked, queue.ready) == (0, 0, 4)
    for name in (private, passing):
        with refused(404):
            local.count(name)
    again = [local.get("shared") for _ in range(4)]
    assert [(got.body, got.redelivered) for got in again if got] == [
        (b"0", True),
        (b"1", True),
        (b"2", False),
        (b"3", False),
    ]
    gauge = leveret_broker.call(lambda: leveret_broker.node.broker.gauge.used)
    assert gauge == 0
    gone.close()


@pytest.mark.feature("S4-61")
def test_a_message_of_a_vanished_client_goes_to_those_who_wait(leveret_broker: leveret.Broker) -> None:
    """At once, without anybody asking."""
    gone, there = NetworkPeer(leveret_broker.amqp_url), NetworkPeer(leveret_broker.amqp_url)
    there.declare_queue("q")
    held = gone.consume("q")
    there.publish("", "q", b"baton")
    held.take()
    waiting = there.consume("q")
    gone.cut()
    (got,) = waiting.take()
    assert (got.body, got.redelivered) == (b"baton", True)
    there.close()
    gone.close()


@pytest.mark.feature("S4-61")
def test_a_vanished_publisher_harms_nobody(leveret_broker: leveret.Broker, local: LocalPeer) -> None:
    """In the middle of a message, too; what was whole is there."""
    gone = NetworkPeer(leveret_broker.amqp_url)
    local.declare_queue("q")
    gone.publish("", "q", b"whole")
    publish = b"\x01\x00\x01\x00\x00\x00\x0a\x00\x3c\x00\x28\x00\x00\x00\x01q\x00\xce"
    header = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00" + (100).to_bytes(8, "big") + b"\x00\x00\xce"
    gone.connection._impl._transport._sock.sendall(publish + header + b"\x03\x00\x01\x00\x00\x00\x64half")
    gone.cut()
    until(lambda: not leveret_broker.call(lambda: len(leveret_broker.node.broker.registry)))
    assert local.get("q").body == b"whole"  # type: ignore[union-attr]
    assert local.get("q") is None
    assert leveret_broker.call(lambda: leveret_broker.node.broker.gauge.used) == 0
    gone.close()


@pytest.mark.parametrize("by", ["channel", "connection"])
@pytest.mark.feature("S4-61")
def test_closing_properly_gives_back_too(leveret_broker: leveret.Broker, local: LocalPeer, by: str) -> None:
    peer = NetworkPeer(leveret_broker.amqp_url)
    local.declare_queue("q")
    local.publish("", "q", b"m")
    peer.consume("q").take()
    (peer.channel if by == "channel" else peer.connection).close()
    queue = inside(leveret_broker, "q")
    assert (queue.unacked, queue.ready, len(queue.consumers)) == (0, 1, 0)
    peer.close()
