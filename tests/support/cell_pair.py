"""Two brokers joined by links in memory: clients of ``here`` use queues that live in ``home``.

pair = CellPair()
pair.declare("q")
client = pair.here.client()
client.publish("q", b"hello")
assert pair.home.queue("q").ready == 1
"""

from __future__ import annotations

from leveret.cells.home_cell import HomeCell
from leveret.cells.link import Link
from leveret.cells.remote_queue import RemoteQueue
from leveret.queues.declared_queue import Declaration
from leveret.session.link_connection import LinkConnection
from tests.support.peer_pair import Harness, Socket

SOCKET_BUFFER = 1 << 20  # bytes


class FullSocket(Socket):
    session: LinkConnection

    def write(self, data: bytes) -> None:
        super().write(data)
        if len(self.written) > SOCKET_BUFFER:
            self.session.outbox.set_writable(False)


class Wire:
    """Carries the bytes of one link, when the brokers rest. What the home cell sends fills a socket buffer first."""

    def __init__(self, pair: CellPair, link: Link) -> None:
        self._pair = pair
        self._link = link
        self.here, self.there = Socket(), FullSocket()
        self.is_held = False  # nothing arrives
        self.session = LinkConnection(pair.home.broker, self.there, pair.home.limits, "link", pair.home.vhost, "here")
        self.there.session = self.session
        pair.home.broker.registry.add(self.session)
        link.connected(self.here)

    def pass_held(self) -> bool:
        if self.is_held:
            return False
        to_home, to_here = bytes(self.here.written), bytes(self.there.written)
        self.here.written.clear()
        self.there.written.clear()
        if not self.session.outbox.writable:
            self.session.outbox.set_writable(True)
        if to_home:
            self.there.held.append(to_home)
        while self.there.held and self.there.reading:
            self.session.receive(self.there.held.pop(0))
        self._pair.home.rest()
        if to_here:
            self._link.receive(to_here)
        return bool(to_home or to_here)

    def cut(self) -> None:
        self.session.lost()
        self._pair.home.rest()
        self._link.lost()


class CellPair:
    def __init__(self, **home: object) -> None:
        self.here = Harness()
        self.home = Harness(**home)  # type: ignore[arg-type]
        self.cell = HomeCell("home", self.here.broker)
        self.wires: list[Wire] = []
        self.connect()

    def connect(self) -> None:
        self.wires = [Wire(self, link) for link in (self.cell.publishing, self.cell.consuming)]
        self.here.clients += self.wires  # type: ignore[arg-type]
        self.cell.link_is_up()
        self.here.turn()

    def cut(self) -> None:
        for wire in self.wires:
            wire.cut()
            self.here.clients.remove(wire)  # type: ignore[arg-type]
        self.here.turn()

    def declare(self, name: str, **arguments: object) -> RemoteQueue:
        """A durable queue in ``home``; arguments are named without x- and with underscores."""
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        made = self.home.vhost.declare_queue(name, durable=True, arguments=table)
        declared = Declaration(self.here.vhost.next_id(), name, "/", made.options, durable=True, arguments=table)
        queue = RemoteQueue(declared, self.here.vhost.queue_context, self.cell)
        self.here.vhost.enter(queue)
        return queue
