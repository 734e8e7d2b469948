"""Clients, the broker itself, lost connections and crashes change definitions at random: at the end all cells have the
same, each queue is in one cell, and no confirmed message is lost."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from leveret.cells.shared_definitions import snapshot
from leveret.errors import LeveretError
from leveret.wire.methods import BasicAck, ConfirmSelect, Method, QueueBind, QueueDeclare, QueueDelete, QueueUnbind
from tests.support.cell_cluster import CellCluster, DefinitionWire, QueueWire
from tests.support.peer_pair import Client
from tests.support.queue_moves import begin

DEAD = "dead1", "dead2", "dead3", "dead4"  # made by the broker
QUEUES = "q1", "q2", "q3"


class RandomChanges:
    def __init__(self, seed: int, *, has_disks: bool) -> None:
        self._random = Random(seed)
        self.cells = CellCluster(3, has_disks=has_disks)
        self._has_disks = has_disks
        self._publishers: list[tuple[Client, bytes]] = []

    def change(self) -> None:
        """One change, or fault. It may be under way when the next one begins."""
        random, cells = self._random, self.cells
        cells.frames_left = random.choice((None, None, random.randrange(8)))
        faults = [self._cut, self._connect, self._crash] if self._has_disks else [self._cut, self._connect]
        random.choice([self._request, self._request, self._dead_letter, self._dead_letter, self._move, *faults])()
        cells.rest()

    def _request(self) -> None:
        queue = self._random.choice(QUEUES)
        methods: list[Method] = [QueueDeclare(queue, durable=True), QueueDelete(queue)]
        methods += [QueueBind(queue, "amq.fanout", ""), QueueUnbind(queue, "amq.fanout", "")]
        self._random.choice(self.cells.cells).client().send(self._random.choice(methods))

    def _dead_letter(self) -> None:
        """The broker makes the queue if it has none."""
        cell, queue = self._random.choice(self.cells.cells), self._random.choice(DEAD)
        body = b"%d" % len(self._publishers)
        if queue not in cell.vhost.queues:
            cell.vhost.declare_queue(queue, durable=True)
        client = cell.client()
        client.ask(ConfirmSelect())
        client.publish(queue, body, delivery_mode=2)
        self._publishers.append((client, body))

    def _move(self) -> None:
        with suppress(LeveretError):  # it does not exist, or is moving already
            begin(self.cells, self._random.randrange(3), self._random.choice((*QUEUES, *DEAD)))

    def _cut(self) -> None:
        if self._random.random() < 0.5:
            self.cells.isolate(self._random.choice(self.cells.cells))
        else:
            self.cells.cut(*self._random.sample(self.cells.cells, 2))

    def _crash(self) -> None:
        self.cells.crash(*self._random.sample(range(3), self._random.choice((1, 1, 3))))

    def _connect(self) -> None:
        cells = self.cells
        cells.frames_left = None
        links = {(wire.here, wire.there) for wire in cells.wires if isinstance(wire, QueueWire)}
        followers = {wire.other for wire in cells.wires if isinstance(wire, DefinitionWire)}
        for cell in cells.cells:
            if cell is not cells[0] and cell not in followers:
                cells.connect_definitions(cell)
            for other in cells.cells:
                if other is not cell and (cell, other) not in links:
                    cells.connect_queues(cell, other)
        cells.rest()

    def end(self) -> set[bytes]:
        """Returns the messages that were confirmed."""
        confirmed = {body for client, body in self._publishers if any(isinstance(m, BasicAck) for m in client.heard())}
        self._connect()
        self.cells.advance(60)
        return confirmed


@pytest.mark.parametrize("has_disks", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_all_cells_end_with_the_same_definitions(seed: int, has_disks: bool) -> None:
    changes = RandomChanges(seed, has_disks=has_disks)
    for _ in range(40):
        changes.change()
    confirmed = changes.end()
    cells = changes.cells
    first, *others = [set(map(repr, snapshot(cell.broker, cell.cell))) for cell in cells.cells]
    assert others == [first, first]
    for name in cells[0].vhost.queues:
        assert [cell.vhost.queues[name].home for cell in cells.cells].count(None) == 1
    assert not any(cell.vhost.internal.queues for cell in cells.cells)
    client, found = cells[0].client(), set()
    for queue in DEAD:
        while queue in cells[0].vhost.queues and (got := client.get(queue, no_ack=True)) is not None:
            found.add(got.body)
    assert found >= confirmed
