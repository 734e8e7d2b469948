"""Cells that connect: one that was added while this cell ran is entered before it counts as a member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Membership(Protocol):
    """sharding.membership.Membership."""

    cells: dict[str, str]

    def joined(self, cell: str) -> None: ...

    def parted(self, cell: str) -> None: ...


class JoiningCells:
    """The cluster.cell_links.CellMembers of a cell. ``add`` enters a cell in ``members.cells``."""

    def __init__(self, members: Membership, add: Callable[[str], None]) -> None:
        self._members = members
        self._add = add

    def joined(self, cell: str) -> None:
        if cell not in self._members.cells:
            self._add(cell)
        self._members.joined(cell)

    def parted(self, cell: str) -> None:
        self._members.parted(cell)
