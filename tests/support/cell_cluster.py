"""Several cells in memory: the first one and others, joined by links, with definitions that span all.

cells = CellCluster(3)
client = cells[1].client()
client.declare("q", durable=True)       # lives in the second cell
cells[2].client().publish("q", b"hello")
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from leveret.cells.definition_copy import DefinitionCopy
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.definition_requests import FirstCell
from leveret.cells.definition_service import DefinitionService
from leveret.cells.home_cells import HomeCells
from leveret.cells.move_agent import MoveAgent
from leveret.cells.queue_move import QueueMove
from leveret.cells.queue_moves import QueueMoves
from leveret.errors import LeveretError
from leveret.pipeline.commits import Commits
from leveret.pipeline.outboxes import Answered, Transfer
from leveret.pipeline.transfers import ReceivedTransfers, decoded, encoded
from leveret.queues.leader_locator import CLIENT_LOCAL
from leveret.sharding.sharding import Sharding
from tests.support.cell_wires import CopyWire, DefinitionWire, QueueWire, TransferWire
from tests.support.peer_pair import Harness
from tests.support.stored_harness import StoredHarness, StoredLife

STEPS_OF_TRANSFER = 50  # after which it counts as not answered


class CellHarness(Harness):
    """One cell. It rests when all cells rest."""

    def __init__(self, cluster: CellCluster, cell: str, locator: str) -> None:
        super().__init__(node_name=cell)
        self.homes = HomeCells(self.broker)
        self.join(cluster, cell, locator)

    def join(self, cluster: CellCluster, cell: str, locator: str) -> None:
        self._cluster = cluster
        self.sharding = Sharding(self.broker)
        self.sharding.membership.are_cells = True
        self.sharding.membership.rename(cell)
        self.cell = cell
        self.broker.cells.name, self.broker.cells.nodes = cell, {each: each for each in ("c1", "c2", "c3")}
        self.feed: DefinitionFeed | None = None
        self.service: DefinitionService | None = None
        self.first: FirstCell | None = None
        if cell == "c1":
            self.feed = DefinitionFeed(self.broker, cell, locator)
            self.service = DefinitionService(self.broker, cell)
        else:
            self.first = FirstCell(self.broker, cell, DefinitionCopy(self.broker, cell))
        self.commits = Commits(self.broker)
        outboxes = self.commits.outboxes
        outboxes.restore()
        outboxes.start(lambda cell, transfer, answered: cluster.transfer(self, cell, transfer, answered))
        self.transfers = ReceivedTransfers(self.broker, outboxes)
        self.moves = MoveAgent(self.broker, cell, self.homes, self._open_copy)
        self.queue_moves: QueueMoves | None = None
        if self.feed is not None and self.service is not None:
            names = lambda: [each.cell for each in cluster.cells]  # noqa: E731
            new_id = lambda: f"move-{next(cluster.ids)}"  # noqa: E731
            self.queue_moves = QueueMoves(self.broker, cell, self.feed, self.moves, names, new_id)
            self.service.moves = self.queue_moves
        elif self.first is not None:
            self.first.follow_moves(self.moves)
            self.moves.first = self.first

    def receive_transfer(self, sender: str, transfer: Transfer) -> str | None:
        return asyncio.run(self._receive(sender, decoded(*encoded(transfer))))

    async def _receive(self, sender: str, transfer: Transfer) -> str | None:
        receiving = asyncio.ensure_future(self.transfers.receive(sender, transfer))
        for _ in range(STEPS_OF_TRANSFER):
            await asyncio.sleep(0)
            self.rest_alone()
            if receiving.done():
                break
        else:
            receiving.cancel()
            return "no answer"
        try:
            return await receiving
        except LeveretError as problem:
            return str(problem)

    def _open_copy(self, cell: str, move: QueueMove) -> None:
        there = next((each for each in self._cluster.cells if each.cell == cell), None)
        if there is None:
            move.lost("no such cell")
        else:
            self._cluster.wires.append(CopyWire(self, there, move))

    def rest(self) -> None:
        super().rest()
        if hasattr(self, "_cluster") and self in self._cluster.cells:
            self._cluster.rest()

    def rest_alone(self) -> bool:
        """Whether there was anything to do at this time."""
        super().rest()
        return self._run_due()

    def _run_due(self) -> bool:
        is_due = self.broker.timers.next_due() <= self.clock.now()
        if is_due:
            self.broker.timers.run_due()
            self.turn()
        return is_due


class StoredCell(StoredHarness, CellHarness):
    """A cell with a disk."""

    def __init__(self, cluster: CellCluster, cell: str, locator: str, life: StoredLife | None = None) -> None:
        self._joins = cluster, cell, locator
        if life is None:
            StoredHarness.__init__(self)
        else:
            StoredHarness.__init__(self, life.disk, wall=life.wall, **life.settings)

    def _restore(self) -> None:
        self.homes = HomeCells(self.broker)
        super()._restore()
        self.join(*self._joins)
        self.moves.start()

    def rest(self) -> None:
        StoredHarness.rest(self)
        if hasattr(self, "_cluster") and self in self._cluster.cells:
            self._cluster.rest()

    def rest_alone(self) -> bool:
        StoredHarness.rest(self)
        return self._run_due()


class CellCluster:
    def __init__(self, number: int, locator: str = CLIENT_LOCAL, *, has_disks: bool = False) -> None:
        self._locator = locator
        self.cells: list[CellHarness] = []
        self.wires: list[DefinitionWire | QueueWire | TransferWire | CopyWire] = []
        self._is_resting = False
        self.ids = count(1)  # of moves
        self.frames_left: int | None = None  # nothing more is carried between cells after so many steps
        kind = StoredCell if has_disks else CellHarness
        made: list[CellHarness] = [kind(self, f"c{n + 1}", locator) for n in range(number)]
        self.cells = made
        for cell in made[1:]:
            self.connect_definitions(cell)
        for cell in made:
            cell.sharding.start()
            for other in made:
                cell.sharding.membership.joined(other.cell)
        for here in made:
            for there in made:
                if here is not there:
                    self.connect_queues(here, there)
        self.rest()

    def __getitem__(self, place: int) -> CellHarness:
        return self.cells[place]

    def connect_definitions(self, cell: CellHarness) -> None:
        self.wires.append(DefinitionWire(self.cells[0], cell))

    @contextmanager
    def definitions_held(self, place: int) -> Iterator[None]:
        """Between the first cell and this one, nothing arrives before the block ends."""
        (wire,) = [each for each in self.wires if isinstance(each, DefinitionWire) and each.other is self.cells[place]]
        wire.is_held = True
        yield
        wire.is_held = False
        self.rest()

    def connect_queues(self, here: CellHarness, there: CellHarness) -> None:
        self.wires += [QueueWire(here, there, "/", purpose) for purpose in ("publishing", "consuming")]
        self.wires.append(TransferWire(here, there))
        here.homes.of("/", there.cell).link_is_up()
        here.broker.wake()

    def transfer(self, here: CellHarness, cell: str, transfer: Transfer, answered: Answered) -> None:
        wires = [each for each in self.wires if isinstance(each, TransferWire) and each.here is here]
        wire = next((each for each in wires if each.there.cell == cell), None)
        if wire is None:
            answered(f"cell {cell} is away")
        else:
            wire.waiting.append((transfer, answered))

    def cut(self, one: CellHarness, other: CellHarness) -> None:
        """All connections between two cells."""
        for wire in list(self.wires):
            ends = {wire.first, wire.other} if isinstance(wire, DefinitionWire) else {wire.here, wire.there}
            if ends == {one, other}:
                self.wires.remove(wire)
                wire.cut()
        self.rest()

    def isolate(self, cell: CellHarness) -> None:
        for other in self.cells:
            if other is not cell:
                self.cut(cell, other)

    def reconnect(self, cell: CellHarness) -> None:
        """A cell that was isolated."""
        for each in self.cells[1:] if cell is self.cells[0] else [cell]:
            self.connect_definitions(each)
        for other in self.cells:
            if other is not cell:
                self.connect_queues(cell, other)
                self.connect_queues(other, cell)
        self.rest()

    def advance(self, seconds: float) -> None:
        """The time of all cells."""
        steps = max(round(seconds / (0.05 if seconds <= 1 else 0.5)), 1)
        for _ in range(steps):
            for cell in self.cells:
                cell.advance(seconds / steps)
            self.rest()

    def crash(self, *places: int) -> None:
        """The power of these cells is cut, all at once, and they start again."""
        lives = {place: self.cells[place].crashed() for place in places}  # type: ignore[attr-defined]
        crashed = [self.cells[place] for place in places]
        for wire in list(self.wires):
            ends = (wire.first, wire.other) if isinstance(wire, DefinitionWire) else (wire.here, wire.there)
            if any(end in crashed for end in ends):
                self.wires.remove(wire)
                wire.cut()
        for place, life in lives.items():
            self.cells[place] = self.restarted(place, life)
        moves = self.cells[0].queue_moves
        assert moves is not None
        if 0 in lives:
            moves.start()
        for place in lives if 0 not in lives else range(1, len(self.cells)):
            self.connect_definitions(self.cells[place])
        for here in self.cells:
            for there in self.cells:
                if here is not there and {here, there} & {self.cells[place] for place in lives}:
                    self.connect_queues(here, there)
        self.rest()

    def restarted(self, place: int, life: StoredLife) -> StoredCell:
        return StoredCell(self, f"c{place + 1}", self._locator, life)

    def rest(self) -> None:
        if self._is_resting:
            return
        self._is_resting = True
        try:
            for _ in range(100_000):
                due = [cell.rest_alone() for cell in self.cells]
                carried = [self._carry(wire) for wire in self.wires]
                if not any(carried) and not any(due):
                    return
            raise AssertionError("the cells do not come to rest")
        finally:
            self._is_resting = False

    def _carry(self, wire: DefinitionWire | QueueWire | TransferWire | CopyWire) -> bool:
        if self.frames_left == 0:
            return False
        is_carried = wire.carry()
        if is_carried and self.frames_left is not None:
            self.frames_left -= 1
        return is_carried


def cut_queues(cells: CellCluster, one: CellHarness, other: CellHarness) -> None:
    """The links of two cells, but not the connection for definitions."""
    for wire in [
        each for each in cells.wires if isinstance(each, QueueWire) and {each.here, each.there} == {one, other}
    ]:
        cells.wires.remove(wire)
        wire.cut()
