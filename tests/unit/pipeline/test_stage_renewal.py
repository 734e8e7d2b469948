"""Stages live as long as their transaction is renewed, by further stages, their parts, or requests of tasks."""

from __future__ import annotations

from leveret.broker.internal_queues import STAGE
from leveret.pipeline.stages import GRACE, LIFETIME
from tests.support.sinks import USER, Sink, address, drained, row
from tests.support.stored_harness import StoredHarness


def harness_with(queue: str) -> StoredHarness:
    harness = StoredHarness()
    harness.vhost.declare_queue(queue, durable=True)
    harness.rest()
    return harness


def test_stages_live_as_long_as_their_transaction_is_renewed() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    first, lonely = sink.stage("T", 0, b"one"), sink.stage("U", 0, b"two")
    harness.advance(LIFETIME - 1)
    second = sink.stage("T", 0, b"three")
    harness.advance(1)
    assert sink.ids() == [first, second], "the first one lives on with the second, others do not"
    assert not sink.stages.find(harness.vhost, lonely)
    harness.advance(LIFETIME - 2)
    slow = sink.begin("T", 0)
    harness.advance(LIFETIME - 2)
    sink.add(slow, [row(b"four", address())])
    harness.advance(LIFETIME - 2)
    assert sink.stages.renew(harness.vhost, "T", "stranger") == sink.stages.renew(harness.vhost, "U", USER) == 0
    assert sink.stages.renew(harness.vhost, "T", USER) == 3
    harness.advance(LIFETIME - 1)
    assert sink.commit("T", 0, first, second, sink.finish(slow)).messages == 3
    assert drained(harness, "q") == [b"one", b"three", b"four"]


def test_the_end_of_renewals_is_the_end_of_all_stages() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    sink.stage("T", 0, b"one")
    harness.advance(LIFETIME - 1)
    sink.stage("T", 0, b"two")
    harness.advance(LIFETIME)
    assert sink.ids() == []
    assert not [name for name in harness.vhost.internal.queues if name.startswith(STAGE)]


def test_a_stage_whose_hour_is_over_when_the_broker_restarts_can_still_be_renewed() -> None:
    harness = harness_with("q")
    stage = Sink(harness).stage("T", 0, b"one")
    harness = harness.stopped(seconds=2 * LIFETIME).again()
    sink = Sink(harness)
    harness.advance(GRACE - 1)
    assert sink.stages.renew(harness.vhost, "T", USER) == 1
    harness.advance(LIFETIME - 1)
    assert sink.ids() == [stage]
    harness.advance(1)
    assert sink.ids() == []
