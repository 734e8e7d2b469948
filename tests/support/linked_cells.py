"""Cells that are linked to each other, as processes, each on a machine of its own or all on this one.

    cells = LinkedCells(tmp_path, 3, machines=list(machines))
    cells.start()
    cells["c2"].kill()
    cells["c2"].start()
    cells.end()

Clients log in as ``admin`` with the password ``admin``, at the cell that they choose.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from tests.support.cell_node import PORTS, CellNode, until
from tests.support.cell_ports import free_ports
from tests.support.links import Gone, Link, Refused
from tests.support.machines import HERE, Machine

START_SECONDS = 90.0
LINK_LOST = "the other cell does not answer"


class LinkedCells:
    """``interval``, ``patience``: see tests/support/cell_program.py."""

    def __init__(
        self,
        folder: Path,
        number: int,
        *arguments: str,
        machines: Sequence[Machine] = (),
        interval: float | None = None,
        patience: float | None = None,
    ) -> None:
        self._cells: dict[str, CellNode] = {}
        program = ["tests.support.cell_program", "--cells", str(number)]
        for option, value in (("--interval", interval), ("--patience", patience)):
            if value is not None:
                program += [option, str(value)]
        for place in range(number):
            name, machine = f"c{place + 1}", machines[place] if machines else HERE
            ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
            self._cells[name] = CellNode(folder, name, list(arguments), ports, program, machine)
            if not place:
                program = [*program, "--first", f"{machine.host}:{ports['cluster']}"]

    def __getitem__(self, name: str) -> CellNode:
        return self._cells[name]

    def __iter__(self) -> Iterator[CellNode]:
        return iter(self._cells.values())

    def place(self, name: str) -> int:
        return list(self._cells).index(name)

    def start(self) -> None:
        """The first one before the others, which need it."""
        first, *others = self
        for group in ([first], others):
            for cell in group:
                cell.start()
            for cell in group:
                until(lambda cell=cell: self.is_serving(cell), START_SECONDS, self.logs)  # type: ignore[misc]

    def is_serving(self, cell: CellNode) -> bool:
        """Whether it accepts clients."""

        async def connect() -> None:
            (await Link.open(cell.url)).cut()

        try:
            asyncio.run(connect())
        except Gone:
            assert cell.is_running, self.logs()
            return False
        return True

    def end(self) -> None:
        for cell in self:
            cell.end()

    def logs(self) -> str:
        return "\n".join(f"{cell.name}:\n{cell.log()[-3000:]}" for cell in self)

    def tracebacks(self) -> list[str]:
        return [cell.log() for cell in self if "Traceback" in cell.log()]

    def lost_links(self) -> list[str]:
        """The names of links that were lost since the other side was silent."""
        return [line for cell in self for line in cell.log().splitlines() if LINK_LOST in line]


async def knows_queue(cell: CellNode, queue: str) -> bool:
    async with await Link.open(cell.url) as link:
        try:
            await link.call(QueueDeclare(queue, passive=True), QueueDeclareOk)
        except Refused:
            return False
        return True


def memory_of(pid: int) -> int:
    """Bytes that are resident."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
