"""Take-overs in the engine's bucket, which is a value of the test here."""

from __future__ import annotations

import asyncio

import pytest

from leveret.cluster import bucket
from leveret.cluster.bucket import Entry
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import EngineConnection
from leveret.cluster.history import History
from leveret.cluster.status import TakeOver
from leveret.errors import ClusterError

FIRST = TakeOver(1, "a", 100.0, "founded", 0.2)
SECOND = TakeOver(2, "b", 200.0, "hand-over", 0.3)


class FakeBucket:
    """``others``: writes of other nodes, each of which comes before one of ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.value, self.revision = b"", 0
        self.others: list[bytes] = []
        monkeypatch.setattr(bucket, "read", self.read)
        monkeypatch.setattr(bucket, "write", self.write)

    async def read(self, connection: object, key: str) -> Entry | None:
        assert key == "orders.history"
        return Entry(self.value, self.revision) if self.value else None

    async def write(self, connection: object, key: str, value: bytes, revision: int) -> int | None:
        if self.others:
            self.value, self.revision = self.others.pop(), self.revision + 1
        if revision != self.revision:
            return None
        self.value, self.revision = value, revision + 1
        return self.revision


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> FakeBucket:
    return FakeBucket(monkeypatch)


def history() -> History:
    return History(CellStream.of("orders"))


def connection() -> EngineConnection:
    return object()  # type: ignore[return-value]


def test_take_overs_are_added_once_and_read_again(kept: FakeBucket) -> None:
    async def story() -> None:
        assert (await history().read(connection())).newest == ()
        await history().add(connection(), FIRST)
        for _ in range(2):  # the second time as after a request that was not answered
            known = await history().add(connection(), SECOND)
            assert known.newest == (SECOND, FIRST)
            assert known.totals == {"founded": 1, "hand-over": 1}
        assert await history().read(connection()) == known

    asyncio.run(story())


def test_an_entry_of_another_node_is_not_overwritten(kept: FakeBucket) -> None:
    async def story() -> None:
        await history().add(connection(), FIRST)
        theirs, kept.value, kept.revision = kept.value, b"", 0
        kept.others = [theirs]
        assert (await history().add(connection(), SECOND)).newest == (SECOND, FIRST)

    asyncio.run(story())


def test_a_history_that_cannot_be_read_names_its_key(kept: FakeBucket) -> None:
    kept.value = b"[1]"
    with pytest.raises(ClusterError, match=r"orders\.history"):
        asyncio.run(history().read(connection()))
