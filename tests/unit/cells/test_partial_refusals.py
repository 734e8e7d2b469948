"""Runs that go through something else before they reach a full queue: only the messages that it refuses are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.cells.queue_copy import publish_held
from leveret.cells.remote_publishes import Unsent
from leveret.delivery.receipts import PendingPublish, Unattended
from leveret.message import TRANSIENT, Address, Message
from leveret.sharding.slot_gate import SlotGate
from leveret.wire.content import body_of
from leveret.wire.frames import content_frames
from tests.support.peer_pair import Harness
from tests.support.remote_queues import make_remote

ADDRESS = Address("", "small", 1, 131072)
FULL = {"x-max-length-bytes": 4, "x-overflow": "reject-publish"}


class Recorder(Unattended):
    def __init__(self) -> None:
        self.rejected: list[int] | None = None  # places, once all receipts are resolved

    def resolved(self, publish: PendingPublish) -> None:
        self.rejected = sorted(publish.rejected)


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.vhost.declare_queue("small", arguments=FULL)
    harness.vhost.declare_queue("other")
    return harness


def through_a_gate(harness: Harness, publish: PendingPublish) -> None:
    """Every other message is for another queue."""
    gate = SlotGate(
        "g", harness.broker, lambda message: harness.queue("other" if body_of(message[0])[:1] == b"o" else "small")
    )
    gate.submit(0, False, publish)


def through_a_gate_to_a_queue_that_answers_later(harness: Harness, publish: PendingPublish) -> None:
    log = make_remote(harness.vhost, "small")
    through_a_gate(harness, publish)
    (waiting,) = log.waiting
    bodies = [body_of(message[0]) for message in waiting.publish.run]
    waiting.receipts[0].refused([place for place, body in enumerate(bodies) if len(body) > 4])


def held_while_the_queue_moved(harness: Harness, publish: PendingPublish) -> None:
    publish_held(harness.broker, harness.queue("small"), [Unsent(publish.run, 0, publish.open(), 0.0, "small")])


@pytest.mark.parametrize(
    ("passed", "rejected"),
    [
        (through_a_gate, [1, 4]),
        (through_a_gate_to_a_queue_that_answers_later, [1, 4]),
        (held_while_the_queue_moved, [1, 3, 4]),
    ],
)
def test_only_the_refused_messages_of_a_run_are_refused(
    harness: Harness, passed: Callable[[Harness, PendingPublish], None], rejected: list[int]
) -> None:
    bodies = [b"1", b"too large", b"2", b"other", b"too large again"]
    run: list[Message] = [(content_frames(1, b"\0\0", body, 131072), ADDRESS, TRANSIENT) for body in bodies]
    recorder = Recorder()
    publish = PendingPublish(recorder, run)
    passed(harness, publish)
    publish.resolve(True)
    harness.turn()
    assert recorder.rejected == rejected
