"""Memory and disk together: publishers wait no longer than the messages are in memory only."""

from __future__ import annotations

from errno import EIO

import pytest

from leveret.backlog import pager
from leveret.wire.methods import ConfirmSelect, ConnectionBlocked, ConnectionUnblocked
from tests.support.stored_harness import StoredHarness

BODY = b"x" * 1_000


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "WORTH_IT", 2)
    monkeypatch.setattr(pager, "SQUEEZED", 2_000)


@pytest.mark.feature("S4-26")
def test_publishers_go_on_when_what_they_published_is_on_disk() -> None:
    """The disk was slower than the publisher; once all is written, nothing need be held in memory."""
    harness = StoredHarness(queue_memory=10_000, memory_high_watermark=40_000)
    client = harness.client()
    client.declare("q", durable=True)
    client.ask(ConfirmSelect())
    harness.is_slow = True
    client.publish("q", *[BODY] * 59, delivery_mode=2)
    client.publish("q", BODY, delivery_mode=2)
    assert [type(what) for what in client.heard()] == [ConnectionBlocked]
    harness.is_slow = False
    harness.rest()
    assert harness.broker.alarms == {}
    assert ConnectionUnblocked() in client.heard()
    assert client.count("q") == 60


@pytest.mark.feature("S4-26")
def test_a_queue_over_its_limit_pages_out_as_soon_as_the_disk_has_it() -> None:
    """Without waiting for the next publish."""
    harness = StoredHarness(queue_memory=10_000)
    client = harness.client()
    client.declare("q", durable=True)
    client.publish("q", *[BODY] * 60, delivery_mode=2)
    assert harness.queue("q").lane.paged >= 50
    assert harness.broker.gauge.used < 20_000


@pytest.mark.feature("S4-26")
def test_publishers_of_transient_messages_go_on_when_these_are_spilled() -> None:
    harness = StoredHarness(memory_high_watermark=40_000)
    client = harness.client()
    client.declare("q")
    client.publish("q", *[BODY] * 60)
    assert client.heard() == []
    assert harness.broker.alarms == {}
    assert harness.queue("q").lane.paged >= 50
    client.consume("q", no_ack=True)
    assert client.bodies() == [BODY] * 60


@pytest.mark.feature("S4-26")
def test_what_cannot_be_spilled_still_counts_as_memory() -> None:
    """The disk takes nothing, so the messages stay; publishers must not go on as if they had left."""
    harness = StoredHarness(memory_high_watermark=40_000)
    client = harness.client()
    client.declare("q")
    harness.disk.fault = lambda kind, path: OSError(EIO, "Input/output error") if path.startswith("spill/") else None
    client.publish("q", *[BODY] * 60)
    assert harness.broker.alarms
    client.publish("q", BODY)
    assert not client.socket.reading
