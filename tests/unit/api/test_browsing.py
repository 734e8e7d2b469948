"""S4-77: a sieve is as slow as what is asked for and what the messages are; a step ends when it has taken its time."""

from __future__ import annotations

import pytest

from leveret.api import message_browser as looking
from leveret.api.message_browser import STEP_SECONDS, TimedSieve, sieve_of
from leveret.broker.queue_jobs import Browse, Delete, Forward, Job, Redrive, Scope
from leveret.message import PERSISTENT, Address, Message
from leveret.wire.content import make_content
from leveret.wire.properties import Properties
from tests.support.broker_harness import BrokerHarness

MESSAGES = 50


def message(**headers: object) -> Message:
    properties = Properties(delivery_mode=2, headers=headers or None)  # type: ignore[arg-type]
    return make_content(properties, b"{}"), Address("", "q", 1, 131072), PERSISTENT


class SlowSieve:
    """Takes everything; after the third message a step has lasted long enough."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        monkeypatch.setattr(looking, "perf_counter", lambda: self._now)

    reads_bodies = True

    def takes_head(self, message: Message) -> bool:
        self._now += STEP_SECONDS / 2.5
        return True

    def is_too_large(self, message: Message) -> bool:
        return False

    def takes_body(self, message: Message) -> bool:
        return True


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.begin()
    harness.make("q", "other")
    harness.post_run("q", [message(n=n) for n in range(MESSAGES)])
    harness.rest()
    return harness


def scope_of(sieve: TimedSieve) -> Scope:
    return Scope(sieve.takes, is_tired=sieve.is_tired)


def job_of(kind: str, harness: BrokerHarness, scope: Scope) -> Job:
    broker, queue = harness.broker, harness.queue("q")
    vhost = broker.vhosts["/"]
    if kind == "redrive":
        return Redrive(vhost, queue, broker.background, broker.timers, scope, dry_run=True)
    if kind == "copy":
        return Forward(vhost, queue, broker.background, "", "other", scope, keeps=True)
    return (Delete if kind == "delete" else Browse)(queue, broker.background, scope)


@pytest.mark.parametrize("kind", ["browse", "redrive", "copy", "delete"])
@pytest.mark.feature("S4-77")
def test_a_step_ends_when_its_sieve_has_taken_its_time(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    job = job_of(kind, harness, scope_of(TimedSieve(SlowSieve(monkeypatch))))
    steps = []
    while job.step():
        steps.append(job.examined)
    assert steps[:3] == [3, 6, 9]
    assert job.examined == MESSAGES


def test_a_sieve_that_is_quick_takes_all_in_one_step(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "perf_counter", lambda: 0.0)
    found = sieve_of({"headers.n": "7"})
    assert found is not None
    job = Browse(harness.queue("q"), harness.broker.background, scope_of(TimedSieve(found)))
    assert job.step() is False
    assert (job.examined, job.done) == (MESSAGES, 1)
