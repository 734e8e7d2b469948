"""Entries of the engine's bucket, with an engine that keeps the last message of each key."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from leveret.cluster import bucket
from leveret.cluster.bucket import EXPECTED, PREFIX
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import NO_MESSAGE, WRONG_SEQUENCE, EngineRefusal
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.cluster.members import Members

STREAM = CellStream.of("orders")


class FakeConnection:
    def __init__(self) -> None:
        self.last: dict[str, tuple[int, bytes]] = {}
        self.sequence = 0

    async def request(self, subject: str, body: dict[str, str]) -> Any:
        await asyncio.sleep(0)
        if body["last_by_subj"] not in self.last:
            raise EngineRefusal(NO_MESSAGE, "no message found")
        sequence, data = self.last[body["last_by_subj"]]
        return {"message": {"seq": sequence, "data": base64.b64encode(data).decode()}}

    async def append(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        await asyncio.sleep(0)
        found = self.last.get(subject, (0, b""))[0]
        if EXPECTED in headers and int(headers[EXPECTED]) != found:
            raise EngineRefusal(min(WRONG_SEQUENCE), "wrong last sequence")
        self.sequence += 1
        self.last[subject] = self.sequence, payload
        return self.sequence


async def bounded(work: Any) -> Any:
    async with asyncio.timeout(5):
        return await work


def test_a_key_is_written_once() -> None:
    async def story() -> None:
        connection: Any = FakeConnection()
        assert await bucket.write(connection, "k", b"one", 0) == 1
        assert await bucket.write(connection, "k", b"two", 0) is None
        assert await bucket.write(connection, "k", b"two", 1) == 2

    asyncio.run(bounded(story()))


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_lease_that_an_operator_deleted_can_be_acquired(is_deleted: bool) -> None:
    """The deletion is the last message of the key: its revision is not 0."""

    async def story() -> None:
        connection: Any = FakeConnection()
        if is_deleted:
            await bucket.delete(connection, "orders.leader")
        assert await Lease(STREAM).acquire(connection, LeaseHolder("ann", "ann 1", 3)) is not None
        assert await Lease(STREAM).acquire(connection, LeaseHolder("bob", "bob 1", 3)) is None

    asyncio.run(bounded(story()))


def test_a_secret_that_an_operator_deleted_is_made_again() -> None:
    async def story() -> None:
        connection: Any = FakeConnection()
        await bucket.write(connection, "orders.secret", b"old")
        await bucket.delete(connection, "orders.secret")
        assert await Members(STREAM).secret(connection, b"known") == b"known"
        assert connection.last[f"{PREFIX}orders.secret"] == (3, b"known")

    asyncio.run(bounded(story()))
