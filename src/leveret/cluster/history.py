"""The take-overs of a cell, in the engine's bucket: the newest ones, and how many there were by reason."""

from __future__ import annotations

import msgspec

from leveret.cluster import bucket
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import EngineConnection
from leveret.cluster.status import MOST_TAKE_OVERS, TakeOver
from leveret.errors import ClusterError


class TakeOvers(msgspec.Struct, frozen=True):
    """``newest``: the newest first."""

    newest: tuple[TakeOver, ...] = ()
    totals: dict[str, int] = {}

    def with_one(self, added: TakeOver) -> TakeOvers:
        totals = self.totals | {added.reason: self.totals.get(added.reason, 0) + 1}
        return TakeOvers((added, *self.newest)[:MOST_TAKE_OVERS], totals)

    def has(self, epoch: int) -> bool:
        return any(each.epoch == epoch for each in self.newest)


class History:
    """All methods raise EngineUnavailable when the engine does not answer."""

    def __init__(self, stream: CellStream) -> None:
        self._key = f"{stream.cell}.history"

    async def read(self, connection: EngineConnection) -> TakeOvers:
        return (await self._read(connection))[0]

    async def add(self, connection: EngineConnection, added: TakeOver) -> TakeOvers:
        """The history with this take-over. Has no effect if it is there: an earlier request may have been done without
        an answer."""
        while True:
            known, revision = await self._read(connection)
            if known.has(added.epoch):
                return known
            known = known.with_one(added)
            if await bucket.write(connection, self._key, msgspec.json.encode(known), revision) is not None:
                return known

    async def _read(self, connection: EngineConnection) -> tuple[TakeOvers, int]:
        entry = await bucket.read(connection, self._key)
        if entry is None:
            return TakeOvers(), 0
        try:
            return msgspec.json.decode(entry.value, type=TakeOvers), entry.revision
        except msgspec.MsgspecError as problem:
            raise ClusterError(
                f"the key {self._key} of the engine's bucket was not written by this version of Leveret ({problem}): "
                "upgrade this node, or delete the key"
            ) from problem
