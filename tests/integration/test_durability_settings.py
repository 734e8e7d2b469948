"""How much a confirm means: the disk, or the word of the operating system (``durability`` and ``x-durability``)."""

from __future__ import annotations

import os
from pathlib import Path
from queue import SimpleQueue

import pytest

import leveret
from leveret.embedded import EmbeddedVhost
from leveret.errors import PreconditionFailed
from leveret.wire.properties import Properties

KEPT = Properties(delivery_mode=2)


def settings(path: Path, **more: object) -> leveret.Settings:
    return leveret.Settings(data_dir=path, amqp_port=None, http_port=None, stomp_port=None, **more)  # type: ignore


def bodies(vhost: EmbeddedVhost, queue: str) -> list[bytes]:
    return [got.body for got in iter(lambda: vhost.get(queue, auto_ack=True), None)]


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[int]:
    """One entry for each sync of a file."""
    made: SimpleQueue[int] = SimpleQueue()
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda handle: (made.put(handle), real(handle)))
    return made


def test_with_durability_os_nothing_waits_for_the_disk(tmp_path: Path, syncs: SimpleQueue[int]) -> None:
    with leveret.Broker(settings(tmp_path, durability="os")) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        before = syncs.qsize()
        for number in range(5):
            assert vhost.publish("", "q", b"%d" % number, KEPT)
        assert syncs.qsize() == before
    with leveret.Broker(settings(tmp_path, durability="os")) as broker:
        assert bodies(broker.vhost(), "q") == [b"%d" % number for number in range(5)]


def test_a_queue_may_ask_for_less_than_the_node(tmp_path: Path, syncs: SimpleQueue[int]) -> None:
    """x-durability."""
    with leveret.Broker(settings(tmp_path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("fast", durable=True, arguments={"x-durability": "os"})
        vhost.declare_queue("safe", durable=True, arguments={"x-durability": "fsync"})
        before = syncs.qsize()
        assert vhost.publish("", "fast", b"m", KEPT)
        assert syncs.qsize() == before
        assert vhost.publish("", "safe", b"m", KEPT)
        assert syncs.qsize() == before + 1
    with leveret.Broker(settings(tmp_path)) as broker:
        assert bodies(broker.vhost(), "fast") == [b"m"]


@pytest.mark.feature("S4-81")
def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """406."""
    with leveret.Broker(settings(tmp_path)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", durable=True)
        with pytest.raises(PreconditionFailed, match="invalid arg 'x-durability': 'eternal'; accepted: fsync, os"):
            vhost.declare_queue("new", durable=True, arguments={"x-durability": "eternal"})
        with pytest.raises(PreconditionFailed, match="x-durability"):
            vhost.declare_queue("q", durable=True, arguments={"x-durability": "os"})
