"""Rows that are published at once, and commits of leases, wait for queues that answer later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leveret.broker.remote_writes import RETRY_AFTER
from leveret.pipeline.inflow import Inflow, Look
from leveret.routing.bindings import Binding, Destination
from tests.support.lease_reader import TEN, LeaseReader, filled, rows_on_disk
from tests.support.remote_queues import ManualLog, make_remote
from tests.support.sinks import address, row
from tests.support.stored_harness import StoredHarness


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


# ---- rows that are published as they come


@pytest.fixture
def log(harness: StoredHarness) -> ManualLog:
    """Of a queue q beside an ordinary queue r, both of them bound to amq.fanout."""
    for name in ("q", "r"):
        harness.vhost.declare_queue(name, durable=True)
        harness.vhost.bind(Binding("amq.fanout", Destination("queue", name), "", {}))
    return make_remote(harness.vhost, "q")


@pytest.mark.parametrize(("end", "refused"), [("let_in", 0), ("refuse", 2), ("lose", 2)])
def test_the_receipts_of_a_request_are_resolved_with_all_of_its_rows(
    harness: StoredHarness, log: ManualLog, end: str, refused: int
) -> None:
    inflow = Inflow(harness.vhost)
    inflow.publish([row(b"1", address()), row(b"2", address())], Look.PLAIN, has_traits=True)
    calls: list[int] = []
    inflow.receipts.when_resolved(lambda: calls.append(inflow.receipts.refused))
    assert (calls, inflow.receipts.unreceived) == ([], 2)
    getattr(log, end)()
    assert (calls, inflow.receipts.unreceived) == ([refused], 0)


# ---- leases


@pytest.fixture
def reader(harness: StoredHarness) -> LeaseReader:
    """With a lease on four of the ten messages of queue q."""
    filled(harness)
    reader = LeaseReader(harness)
    assert reader.take(most=4) == 1
    return reader


async def committed(reader: LeaseReader, *steps: Any) -> list[bool]:
    """Whether the commit is answered after each of the steps; the disk works in between."""
    answer = asyncio.ensure_future(reader.leases.commit(reader.queue, reader.consumer, 1))
    found: list[bool] = []
    for step in (lambda: None, *steps):
        step()
        for _ in range(20):
            reader.harness.rest()
            await asyncio.sleep(0)
        found.append(answer.done())
    await answer
    return found


def test_a_lease_commit_is_answered_when_the_queue_has_settled_its_messages(
    harness: StoredHarness, reader: LeaseReader
) -> None:
    log = make_remote(harness.vhost, "q")
    assert asyncio.run(committed(reader, log.grant)) == [False, True]
    assert rows_on_disk(harness) == ["1/reader"]


@pytest.mark.parametrize("end", ["refuse", "lose"])
def test_a_lease_commit_waits_for_a_log_that_refuses_or_is_lost(
    harness: StoredHarness, reader: LeaseReader, end: str
) -> None:
    """The rows of the lease stay: after a crash its messages are settled again."""
    log = make_remote(harness.vhost, "q")

    def fail() -> None:
        getattr(log, end)()
        harness.rest()
        assert rows_on_disk(harness) == ["1/1/reader", "1/reader"]

    steps = [fail, lambda: harness.advance(RETRY_AFTER), log.grant]
    assert asyncio.run(committed(reader, *steps)) == [False, False, False, True]
    again = harness.crashed().again()
    assert again.waiting_on_disk("q") == TEN[4:]


def test_a_lease_commit_ends_with_its_queue(harness: StoredHarness, reader: LeaseReader) -> None:
    make_remote(harness.vhost, "q")
    steps = [lambda: harness.vhost.delete_queue("q"), lambda: harness.advance(RETRY_AFTER)]
    assert asyncio.run(committed(reader, *steps)) == [False, False, True]


def test_ordinary_queues_are_not_waited_for(harness: StoredHarness, reader: LeaseReader) -> None:
    assert asyncio.run(committed(reader)) == [True]
