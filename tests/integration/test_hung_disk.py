"""A disk that does not answer any more: the broker stops in its time all the same, and nobody waits for it for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from errno import EIO
from pathlib import Path

import pytest

import leveret
from leveret.errors import LeveretError
from leveret.queues.stream import StreamQueue
from leveret.store.stream_files import StreamRun
from leveret.wire.properties import Properties
from tests.support.peers import PATIENCE, inside
from tests.support.slow_disk import SlowDisk, Working, hold_reader

KEPT = Properties(delivery_mode=2)
SECONDS = 1.0  # in which a stop must be over


def settings(path: Path) -> leveret.Settings:
    return leveret.Settings(data_dir=path, amqp_port=0, http_port=None, stomp_port=None, shutdown_timeout=SECONDS)


@pytest.mark.quiet
@pytest.mark.feature("S4-62")
def test_a_stop_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    """What was not confirmed is lost, and whoever waits for it is told."""
    broker = leveret.Broker(settings(tmp_path)).start()
    vhost = broker.vhost()
    vhost.declare_queue("q", durable=True)
    disk = SlowDisk(broker)
    try:
        publishing = Working(lambda: vhost.publish("", "q", b"m", KEPT))
        assert disk.asked.wait(60)
        began = time.monotonic()
        assert Working(broker.stop).result() is None
        assert time.monotonic() - began < 3 * SECONDS
        assert isinstance(publishing.result(), LeveretError)
    finally:
        disk.let.set()


@pytest.mark.feature("S4-62")
def test_whoever_waits_for_a_message_that_cannot_be_read_is_told_when_the_broker_stops(tmp_path: Path) -> None:
    with leveret.Broker(settings(tmp_path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        for number in range(10):
            vhost.publish("", "q", b"%d" % number + b"x" * (1 << 20), KEPT)
    broker.start()
    let = hold_reader(broker)
    store = broker.node.store
    assert store is not None

    def fail(path: str, offset: int, size: int) -> bytes:
        raise OSError(EIO, "Input/output error")

    store.disk.read = fail  # type: ignore[method-assign]
    vhost, queue = broker.vhost(), inside(broker, "q")
    while not broker.call(lambda: queue.needs_load):
        assert vhost.get("q", auto_ack=True) is not None
    getting = Working(lambda: vhost.get("q"))
    while not broker.call(lambda: queue.pager is not None and queue.pager._waiting):
        assert not getting.is_over
    let.set()
    assert Working(broker.stop).result() is None
    assert isinstance(getting.result(), LeveretError)


@pytest.mark.quiet
def test_a_stop_does_not_wait_for_the_files_of_a_stream_that_hang(tmp_path: Path) -> None:
    """What is confirmed is in the journal: the next life has it."""
    broker = leveret.Broker(settings(tmp_path)).start()
    vhost = broker.vhost()
    vhost.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    queue = inside(broker, "s")
    assert isinstance(queue, StreamQueue)
    asked, let = threading.Event(), threading.Event()
    append = queue.files.append

    def slow(runs: Sequence[StreamRun]) -> None:
        asked.set()
        let.wait(PATIENCE)
        append(runs)

    queue.files.append = slow  # type: ignore[method-assign]
    try:
        vhost.publish("", "s", b"m", KEPT)
        assert asked.wait(60)
        began = time.monotonic()
        assert Working(broker.stop).result() is None
        assert time.monotonic() - began < 3 * SECONDS
    finally:
        let.set()
    with leveret.Broker(settings(tmp_path)) as again:
        assert [message.body for message in again.vhost().jobs.browse("s")] == [b"m"]


def test_a_stream_is_there_when_the_same_program_starts_again(tmp_path: Path) -> None:
    broker = leveret.Broker(settings(tmp_path)).start()
    broker.vhost().declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(3):
        broker.vhost().publish("", "s", b"%d" % number, KEPT)
        broker.stop()
        broker.start()
        found = [message.body for message in broker.vhost().jobs.browse("s")]
        assert found == [b"%d" % each for each in range(number + 1)]
    broker.stop()
    assert not [each.name for each in threading.enumerate() if each.name == "leveret-streams"]
