"""Where the other cells of a cluster are.

Cells on one machine report their addresses to the first, which reports them to all. For replicated cells, see
leader_addresses.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

Address = tuple[str, int]


class CellAddresses(Protocol):
    def of(self, cell: str) -> Address | None:
        """As far as it is known."""

    def reported(self, cells: Mapping[str, Address]) -> None:
        """By the first cell about all others, or by another one to the first."""

    async def changed(self, cell: str, known: Address | None, seconds: float | None = None) -> None:
        """Until the address of the cell is another one than ``known``. With ``seconds``, the cell cannot be reached
        there, and the caller tries again after so long."""


async def abort_when_moved(addresses: CellAddresses, cell: str, there: Address, abort: Callable[[], None]) -> None:
    """A former leader that is cut off does not close its connections, nor does one that is hung."""
    await addresses.changed(cell, there)
    abort()


class ReportedAddresses:
    def __init__(self, **known: Address) -> None:
        self._known = known
        self._change = asyncio.Event()

    def of(self, cell: str) -> Address | None:
        return self._known.get(cell)

    def reported(self, cells: Mapping[str, Address]) -> None:
        self._known |= cells
        change, self._change = self._change, asyncio.Event()
        change.set()

    async def changed(self, cell: str, known: Address | None, seconds: float | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.of(cell) == known:
                    await self._change.wait()
