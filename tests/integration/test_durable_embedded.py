"""An embedded broker with a data directory: its calls return when the disk has it, and a restart keeps it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

import leveret
from leveret.broker.local import Delivered
from leveret.embedded import EmbeddedVhost
from leveret.errors import BrokerStopped, NotFound, StoreError
from leveret.wire.properties import Properties
from tests.support.peers import PATIENCE, NetworkPeer, inside
from tests.support.slow_disk import SlowDisk, Working, hold_reader

KEPT = Properties(delivery_mode=2)


def settings(path: Path, **more: object) -> leveret.Settings:
    return leveret.Settings(data_dir=path, amqp_port=0, http_port=None, stomp_port=None, shutdown_timeout=5.0, **more)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(path: Path) -> Iterator[leveret.Broker]:
    with leveret.Broker(settings(path)) as running:
        yield running


@pytest.fixture
def vhost(broker: leveret.Broker) -> EmbeddedVhost:
    made = broker.vhost()
    made.declare_queue("q", durable=True)
    return made


def drained(vhost: EmbeddedVhost, queue: str = "q") -> list[tuple[bytes, bool]]:
    """All messages, with their redelivered marks."""
    return [(got.body, got.redelivered) for got in iter(lambda: vhost.get(queue, auto_ack=True), None)]


# ---- what a call means


@pytest.mark.feature("S4-42")
def test_publish_returns_after_the_disk_and_consumers_are_told_at_once(
    broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    told: SimpleQueue[bytes] = SimpleQueue()
    vhost.consume("q", lambda delivered: told.put(delivered.body))
    disk = SlowDisk(broker)

    def publish() -> bool:
        assert vhost.publish("", "q", b"m", KEPT)
        return disk.let.is_set()

    publishing = Working(publish)
    assert disk.asked.wait(PATIENCE)
    assert told.get(timeout=PATIENCE) == b"m"
    assert not publishing.is_over
    disk.let.set()
    assert publishing.result() is True, "it came back before the disk had the message"


@pytest.mark.parametrize(
    "call",
    [
        lambda vhost: vhost.declare_queue("new", durable=True),
        lambda vhost: vhost.declare_exchange("new", durable=True),
        lambda vhost: vhost.bind("q", "amq.topic", "new"),
        lambda vhost: vhost.unbind("q", "amq.topic", "old"),
        lambda vhost: vhost.purge_queue("q"),
        lambda vhost: vhost.delete_queue("q"),
    ],
    ids=["declare queue", "declare exchange", "bind", "unbind", "purge", "delete"],
)
@pytest.mark.feature("S4-15")
def test_what_lasts_returns_after_the_disk(
    broker: leveret.Broker, vhost: EmbeddedVhost, call: Callable[[EmbeddedVhost], object]
) -> None:
    vhost.bind("q", "amq.topic", "old")
    vhost.publish("", "q", b"m", KEPT)
    disk = SlowDisk(broker)

    def work() -> bool:
        call(vhost)
        return disk.let.is_set()

    working = Working(work)
    assert disk.asked.wait(PATIENCE)
    assert not working.is_over
    disk.let.set()
    assert working.result() is True


def test_what_does_not_last_returns_while_the_disk_is_busy(broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    disk = SlowDisk(broker)
    publishing = Working(lambda: vhost.publish("", "q", b"m", KEPT))
    assert disk.asked.wait(PATIENCE)
    other = broker.vhost()
    other.declare_queue("t")
    assert other.publish("", "t", b"1", KEPT)
    assert other.publish("", "q", b"2")
    assert drained(other, "t") == [(b"1", False)]
    assert not publishing.is_over
    disk.let.set()
    assert publishing.result() is True


# ---- restarts


@pytest.mark.feature("S4-15", "S4-30")
def test_a_restart_keeps_all(path: Path) -> None:
    """Definitions and messages, with their properties; the same broker object may be started again."""
    broker = leveret.Broker(settings(path))
    with broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True, arguments={"x-max-priority": 2})
        vhost.declare_exchange("x", "topic", durable=True)
        vhost.bind("q", "x", "a.*", {"n": [1, {"deep": True}]})
        vhost.publish("x", "a.b", b"low", Properties(delivery_mode=2, headers={"n": [1, 2]}, message_id="id"))
        vhost.publish("x", "a.b", b"high", Properties(delivery_mode=2, priority=2))
        vhost.publish("x", "a.b", b"gone")
    with broker:
        vhost = broker.vhost()
        assert vhost.message_count("q") == 2
        first, second = vhost.get("q"), vhost.get("q")
        assert first is not None
        assert second is not None
        assert (first.body, first.properties.priority, first.redelivered) == (b"high", 2, False)
        assert (second.body, second.exchange, second.routing_key) == (b"low", "x", "a.b")
        assert (second.properties.headers, second.properties.message_id) == ({"n": [1, 2]}, "id")
        assert vhost.publish("x", "a.c", b"new", KEPT), "the binding is there"
    with leveret.Broker(settings(path)) as another:
        assert drained(another.vhost()) == [(b"high", True), (b"low", True), (b"new", False)]


def test_clients_over_the_network_find_what_was_published_in_the_process(path: Path) -> None:
    with leveret.Broker(settings(path)) as broker:
        peer = NetworkPeer(broker.amqp_url)
        peer.declare_queue("q", durable=True)
        broker.vhost().publish("", "q", b"m", KEPT)
        peer.close()
    with leveret.Broker(settings(path)) as broker:
        peer = NetworkPeer(broker.amqp_url)
        got = peer.get("q")
        assert got is not None
        assert got.body == b"m"
        peer.close()


@pytest.mark.feature("S4-42")
def test_all_that_returned_survives_a_kill(path: Path, tmp_path: Path) -> None:
    """A copy of the directory, taken while the broker runs, is what a kill at that moment leaves."""
    with leveret.Broker(settings(path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        for number in range(20):
            vhost.publish("", "q", b"%d" % number, KEPT)
        got = vhost.get("q")
        assert got is not None
        shutil.copytree(path, tmp_path / "killed")
    with leveret.Broker(settings(tmp_path / "killed")) as broker:
        assert drained(broker.vhost()) == [(b"%d" % number, True) for number in range(20)]


def test_exclusive_durable_queues_do_not_come_back(path: Path) -> None:
    with leveret.Broker(settings(path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("own", durable=True, exclusive=True)
        vhost.publish("", "own", b"m", KEPT)
    with leveret.Broker(settings(path)) as broker:
        with pytest.raises(NotFound):
            broker.vhost().message_count("own")


@pytest.mark.feature("S4-73")
def test_durable_auto_delete_queues_with_a_consumer_survive_a_stop(path: Path) -> None:
    """It leaves because the broker goes."""
    with leveret.Broker(settings(path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("auto", durable=True, auto_delete=True)
        told: SimpleQueue[Delivered] = SimpleQueue()
        vhost.consume("auto", told.put)
        vhost.publish("", "auto", b"m", KEPT)
        assert told.get(timeout=PATIENCE).body == b"m"
    with leveret.Broker(settings(path)) as broker:
        assert drained(broker.vhost(), "auto") == [(b"m", True)]


@pytest.mark.feature("S4-81")
def test_two_brokers_do_not_share_a_directory(path: Path, broker: leveret.Broker) -> None:
    """The second is told who has it, and leaves nothing behind."""
    second, before = leveret.Broker(settings(path)), set(threading.enumerate())
    with pytest.raises(StoreError, match=str(os.getpid())) as caught:
        second.start()
    assert str(path) in str(caught.value)
    assert not {thread for thread in threading.enumerate() if thread.name == "leveret-broker"} - before
    broker.vhost().declare_queue("q", durable=True)
    broker.stop()
    with second:
        assert second.vhost().message_count("q") == 0


# ---- alarms


def waits(broker: leveret.Broker) -> bool:
    """Whether a publisher waits for the end of an alarm."""
    return broker.call(lambda: bool(broker.node.broker.events._listeners))


def set_alarm(broker: leveret.Broker, reason: str | None) -> None:
    broker.call(lambda: broker.node.broker.set_alarm("drill", reason))


def test_publish_waits_under_an_alarm_and_goes_on(broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    set_alarm(broker, "just a drill")
    publishing = Working(lambda: vhost.publish("", "q", b"m", KEPT))
    while not waits(broker):
        assert not publishing.is_over
    assert vhost.message_count("q") == 0
    set_alarm(broker, None)
    assert publishing.result() is True
    assert vhost.message_count("q") == 1
    assert not waits(broker)


def test_other_calls_do_not_wait_under_an_alarm(broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    vhost.publish("", "q", b"m", KEPT)
    set_alarm(broker, "just a drill")
    vhost.declare_queue("new", durable=True)
    assert drained(vhost) == [(b"m", False)]


def test_callbacks_do_not_wait_under_an_alarm(broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    """It may be them who free the memory."""
    published: SimpleQueue[bool] = SimpleQueue()
    vhost.declare_queue("next", durable=True)
    vhost.publish("", "q", b"m", KEPT)
    set_alarm(broker, "just a drill")
    vhost.consume("q", lambda delivered: published.put(vhost.publish("", "next", delivered.body, KEPT)))
    assert published.get(timeout=PATIENCE) is True
    assert vhost.message_count("next") == 1


def test_a_publisher_that_waits_is_told_when_the_broker_stops(path: Path) -> None:
    broker = leveret.Broker(settings(path)).start()
    vhost = broker.vhost()
    vhost.declare_queue("q", durable=True)
    set_alarm(broker, "just a drill")
    publishing = Working(lambda: vhost.publish("", "q", b"m", KEPT))
    while not waits(broker):
        assert not publishing.is_over
    broker.stop()
    assert isinstance(publishing.result(), BrokerStopped)


# ---- paged messages


@pytest.fixture
def paged(path: Path) -> Iterator[leveret.Broker]:
    """A broker that has a backlog on disk only."""
    with leveret.Broker(settings(path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        for number in range(10):
            vhost.publish("", "q", b"%d" % number + b"x" * (1 << 20), KEPT)
    with leveret.Broker(settings(path)) as broker:
        yield broker


@pytest.mark.feature("S4-26")
def test_get_of_a_paged_message_waits_for_it(paged: leveret.Broker) -> None:
    vhost = paged.vhost()
    assert inside(paged, "q").lane.paged >= 7
    assert [body[:1] for body, _ in drained(vhost)] == [b"%d" % number for number in range(10)]


def test_get_of_a_queue_that_is_deleted_meanwhile_is_refused(paged: leveret.Broker) -> None:
    """Nobody waits for a load that will never be of use."""
    let = hold_reader(paged)
    vhost, queue = paged.vhost(), inside(paged, "q")
    while not paged.call(lambda: queue.needs_load):
        assert vhost.get("q", auto_ack=True) is not None
    getting = Working(lambda: vhost.get("q"))
    while not paged.call(lambda: queue.pager is not None and queue.pager._waiting):
        assert not getting.is_over
    paged.vhost().delete_queue("q")
    let.set()
    assert isinstance(getting.result(), NotFound)
