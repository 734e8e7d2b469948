"""Moves of the queue ``q`` between the cells of tests/support/cell_cluster.py."""

from __future__ import annotations

from leveret.cells.queue_moves import DONE, RequestedMove
from tests.support.cell_cluster import CellCluster
from tests.support.peer_pair import Client, Content

LONG = 20.0  # seconds: longer than any step of a move may take


def where(cells: CellCluster, queue: str) -> list[str]:
    """The class of the queue in each cell."""
    return [type(cell.vhost.queues[queue]).__name__ if queue in cell.vhost.queues else "-" for cell in cells.cells]


def lives_in(cells: CellCluster, place: int, queue: str = "q") -> bool:
    expected = ["RemoteQueue"] * len(cells.cells)
    expected[place] = "ClassicQueue"
    return where(cells, queue) == expected


def begin(cells: CellCluster, to: int, queue: str = "q") -> RequestedMove:
    moves = cells[0].queue_moves
    assert moves is not None
    return moves.begin("/", queue, f"c{to + 1}")


def move(cells: CellCluster, to: int, queue: str = "q") -> RequestedMove:
    started = begin(cells, to, queue)
    cells.rest()
    cells.advance(0.5)
    assert started.state == DONE, started.reason
    return started


def bodies(number: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + number)]


def contents(client: Client) -> list[Content]:
    return [what for what in client.heard() if isinstance(what, Content)]


def client_bodies(cells: CellCluster, queue: str) -> list[bytes]:
    client = cells[2].client()
    client.consume(queue, no_ack=True)
    return client.bodies()
