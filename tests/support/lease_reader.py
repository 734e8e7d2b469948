"""A reader of leases in a broker without a server: the calls of pipeline/leases.py over a store that the test runs.

reader = LeaseReader(harness, "q")
assert reader.take() == 1
assert reader.bodies(1) == [b"a", b"b"]
reader.commit(1)
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from leveret.backlog.walk import Walk
from leveret.broker.leases import Lease
from leveret.errors import PreconditionFailed
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.lease_messages import jobs_of_lease, slice_of
from leveret.pipeline.leases import Leases
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import body_of
from tests.support.peer_pair import Client, Content
from tests.support.stored_harness import StoredHarness

EVERYTHING = 1 << 40
TEN = [b"%02d" % number for number in range(10)]
MOST_ROUNDS = 10_000

T = TypeVar("T")


def finish(harness: StoredHarness, call: Coroutine[Any, Any, T]) -> T:
    """Run the call while the broker takes its turns and the disk works."""

    async def both() -> T:
        running = asyncio.ensure_future(call)
        for _ in range(MOST_ROUNDS):
            if running.done():
                return running.result()
            harness.rest()
            await asyncio.sleep(0)
        running.cancel()
        raise AssertionError("the call does not come to an end")

    return asyncio.run(both())


class LeaseReader:
    def __init__(self, harness: StoredHarness, queue: str = "q", consumer: str = "reader") -> None:
        self.harness = harness
        self.consumer = consumer
        self._name = queue
        self.leases = Leases(PipelineContext(harness.broker))

    @property
    def queue(self) -> ClassicQueue:
        return self.harness.queue(self._name)

    def take(self, after: int = 0, most: int = 1_000, most_bytes: int = EVERYTHING) -> int:
        """The number of the lease; ``after`` if there was nothing."""
        lease = finish(self.harness, self.leases.take(self.queue, self.consumer, after, most, most_bytes))
        return after if lease is None else lease.number

    def find(self, number: int) -> Lease:
        lease = self.harness.broker.leases.find(self.queue, self.consumer, number)
        assert lease is not None
        return lease

    def rows(self, number: int, index: int = 0, of: int = 1) -> list[dict[str, Any]]:
        """The messages of a slice."""
        lease = self.find(number)

        async def read() -> list[dict[str, Any]]:
            runs = slice_of(lease.runs, lease.messages, index, of)
            columns = ("body", "routing_key", "offset", "redelivered")
            found: list[dict[str, Any]] = []
            async for job in jobs_of_lease(lease, runs, 0, columns):
                found += [row for batch in job() for row in batch.to_pylist()]
            return found

        return finish(self.harness, read())

    def bodies(self, number: int, index: int = 0, of: int = 1) -> list[bytes]:
        return [row["body"] for row in self.rows(number, index, of)]

    def commit(self, through: int) -> tuple[int, int]:
        """What is committed, and how many messages went with it."""
        committed = finish(self.harness, self.leases.commit(self.queue, self.consumer, through))
        self.harness.rest()
        return committed.number, committed.messages

    def release(self, number: int | None = None) -> int:
        released = finish(self.harness, self.leases.release(self.queue, self.consumer, number))
        self.harness.rest()
        return released


def open_leases(harness: StoredHarness) -> dict[tuple[str, str, int], int]:
    """All leases: by queue, consumer and number, how many messages."""
    found = harness.broker.leases.leases("/")
    return {(lease.queue.name, lease.consumer, lease.number): lease.messages for lease in found}


def rows_on_disk(harness: StoredHarness) -> list[str]:
    """The rows that leases and their consumers have in the definitions."""
    return sorted(row.name for row in harness.disk.definitions().parameters if row.component.startswith("lease"))


# ---- what tests do and ask


def put(client: Client, *bodies: bytes, queue: str = "q", **more: object) -> None:
    client.publish(queue, *bodies, delivery_mode=2, **more)


def filled(harness: StoredHarness, *bodies: bytes, **arguments: object) -> Client:
    client = harness.client()
    client.declare(
        "q", durable=True, arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    )
    put(client, *(bodies or TEN))
    return client


def taken(harness: StoredHarness, queue: str = "q") -> list[tuple[bytes, bool]]:
    """All that consumers can have, with their redelivered marks; it goes back afterwards."""
    client = harness.client()
    client.consume(queue)
    found = [(what.body, what.redelivered) for what in client.heard() if isinstance(what, Content)]
    client.vanish()
    return found


def bodies_left(harness: StoredHarness) -> list[bytes]:
    return [body for body, _ in taken(harness)]


def browsed(harness: StoredHarness) -> list[bytes]:
    found: list[bytes] = []
    walk = Walk(harness.queue("q"), lambda lane, waiting: found.append(body_of(waiting[2][0])) or False)
    for _ in range(100):
        walk.step()
        harness.rest()
    assert walk.is_over
    return found


def refusal(reader: LeaseReader, **more: int) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        reader.take(**more)
    return caught.value.text
