"""Callbacks of consumers in the process: they may do anything, be slow and fail."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from queue import SimpleQueue

import pytest

import leveret
from leveret.broker.local import Delivered
from leveret.embedded import EmbeddedVhost
from leveret.errors import BrokerStopped
from tests.compat.waiting import until
from tests.support.peers import PATIENCE, NetworkPeer, inside


@pytest.fixture
def vhost(leveret_broker: leveret.Broker) -> EmbeddedVhost:
    return leveret_broker.vhost()


@pytest.mark.feature("S4-52")
def test_a_callback_may_call_anything(leveret_broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    """Ack, publish, declare, consume and cancel from inside."""
    done: SimpleQueue[str] = SimpleQueue()

    def second(delivered: Delivered) -> None:
        vhost.nack(delivered.delivery_tag, requeue=False)
        done.put(delivered.body.decode())

    def first(delivered: Delivered) -> None:
        vhost.ack(delivered.delivery_tag)
        assert vhost.message_count("q") == 0
        vhost.cancel(delivered.consumer_tag)
        name = vhost.declare_queue()
        vhost.consume(name, second)
        assert vhost.publish("", name, b"on to the next")
        other = leveret_broker.vhost()
        other.publish("", name, b"and another")
        other.close()

    vhost.declare_queue("q")
    vhost.consume("q", first, tag="first")
    vhost.publish("", "q", b"start")
    assert [done.get(timeout=60), done.get(timeout=60)] == ["on to the next", "and another"]
    queue = inside(leveret_broker, "q")
    assert (queue.unacked, len(queue.consumers)) == (0, 0)


@pytest.mark.feature("S4-52")
def test_a_callback_that_raises_keeps_its_message_unacked_and_the_others_go_on(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with its trace, and the message comes again when the session is closed."""
    done: SimpleQueue[bytes] = SimpleQueue()

    def fail(delivered: Delivered) -> None:
        if delivered.body == b"bad":
            raise ValueError("cannot digest this")
        vhost.ack(delivered.delivery_tag)
        done.put(delivered.body)

    vhost.declare_queue("q")
    vhost.consume("q", fail, tag="eater")
    with caplog.at_level(logging.ERROR, "leveret"):
        for body in (b"good", b"bad", b"better"):
            vhost.publish("", "q", body)
        assert [done.get(timeout=60), done.get(timeout=60)] == [b"good", b"better"]
    assert inside(leveret_broker, "q").unacked == 1
    (record,) = caplog.records
    assert "consumer=eater" in record.getMessage()
    assert record.exc_info is not None
    vhost.close()
    again = leveret_broker.vhost().get("q")
    assert again is not None
    assert (again.body, again.redelivered) == (b"bad", True)


@pytest.mark.feature("S4-52")
def test_a_callback_that_raises_does_not_use_up_its_consumer(vhost: EmbeddedVhost) -> None:
    """Far more failures than deliveries may wait at once."""
    seen = Counter[str]()
    last = threading.Event()

    def fail(delivered: Delivered) -> None:
        seen["calls"] += 1
        if delivered.body == b"last":
            last.set()
        raise ValueError

    vhost.declare_queue("q")
    vhost.consume("q", fail, auto_ack=True)
    for _ in range(1500):
        vhost.publish("", "q", b"m")
    vhost.publish("", "q", b"last")
    assert last.wait(PATIENCE)
    assert seen["calls"] == 1501


@pytest.mark.feature("S4-50")
def test_a_slow_callback_does_not_fill_the_memory_with_deliveries(
    leveret_broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    """What is not waiting for it stays ready in the queue, where others can have it."""
    go, begun, last = threading.Event(), threading.Event(), threading.Event()

    def slow(delivered: Delivered) -> None:
        begun.set()
        go.wait(PATIENCE)
        if delivered.body == b"last":
            last.set()

    vhost.declare_queue("q")
    vhost.consume("q", slow, auto_ack=True)
    peer = NetworkPeer(leveret_broker.amqp_url)
    for number in range(3000):
        peer.channel.basic_publish("", "q", b"m" if number < 2999 else b"last")
    peer.close()
    assert begun.wait(PATIENCE)
    assert vhost.message_count("q") == 2000
    go.set()
    assert last.wait(PATIENCE)
    assert vhost.message_count("q") == 0


@pytest.mark.feature("S4-62")
def test_a_broker_may_be_stopped_from_a_callback() -> None:
    """And its further messages run into no callback any more."""
    broker = leveret.Broker().start()
    vhost = broker.vhost()
    stopped: SimpleQueue[object] = SimpleQueue()
    calls: list[bytes] = []

    def callback(delivered: Delivered) -> None:
        calls.append(delivered.body)
        broker.stop()
        try:
            vhost.ack(delivered.delivery_tag)
        except BrokerStopped as problem:
            stopped.put(problem)
        raise ValueError("not logged: the broker is gone")

    vhost.declare_queue("q")
    for body in (b"1", b"2"):
        vhost.publish("", "q", body)
    vhost.consume("q", callback)
    assert isinstance(stopped.get(timeout=60), BrokerStopped)
    assert calls == [b"1"]


@pytest.mark.feature("S4-62")
def test_a_callback_under_way_when_the_broker_stops_is_refused_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """Its call raises BrokerStopped, which is nobody's bug."""
    inside_callback, go = threading.Event(), threading.Event()
    ends: SimpleQueue[type[BaseException] | None] = SimpleQueue()

    def callback(delivered: Delivered) -> None:
        inside_callback.set()
        go.wait(PATIENCE)
        try:
            vhost.ack(delivered.delivery_tag)
            ends.put(None)
        except BrokerStopped:
            ends.put(BrokerStopped)
            raise

    broker = leveret.Broker().start()
    vhost = broker.vhost()
    vhost.declare_queue("q")
    vhost.consume("q", callback)
    vhost.publish("", "q", b"m")
    assert inside_callback.wait(PATIENCE)
    stopper = threading.Thread(target=broker.stop)
    stopper.start()
    until(lambda: not broker._is_open)
    go.set()
    assert ends.get(timeout=60) is BrokerStopped
    stopper.join(5)
    assert caplog.records == []
