"""Two brokers, as two cells, with one virtual host that lives in the second: clients log in at the first."""

from __future__ import annotations

from leveret.broker.cells import RelayedClient
from leveret.broker.vhost_cells import follow_placement
from leveret.session.connection import Connection
from leveret.session.relayed_connection import RelayedConnection
from tests.support.peer_pair import Client, Harness, Socket
from tests.support.stomp_harness import StompPeer

PLACED = "placed"  # the virtual host


class HomeSocket(Socket):
    """The near end of the link (session.relayed_connection.HomeLink): what is written arrives at the home session."""

    def __init__(self, session: Connection) -> None:
        super().__init__()
        self._session = session

    def write(self, data: bytes) -> None:
        super().write(data)
        self._session.receive(data)


class CellsWithPlacedVhost:
    """A broker.cells.ClientRelay for the first. ``requests`` are the connections that wait for the second."""

    def __init__(self) -> None:
        self.near, self.home = Harness(), Harness()
        self.requests: list[tuple[Connection, str]] = []
        for harness, name in ((self.near, "c1"), (self.home, "c2")):
            cells = harness.broker.cells
            cells.name, cells.nodes, cells.clients = name, {"c1": "c1", "c2": "c2"}, self
            vhost = harness.broker.add_vhost(PLACED)
            harness.broker.permissions.set("guest", PLACED, ".*", ".*", ".*")
            follow_placement(harness.broker, vhost, "c2")

    def relay(self, client: RelayedClient, cell: str) -> None:
        assert isinstance(client, Connection)
        self.requests.append((client, cell))

    def accept(self) -> tuple[Connection, RelayedConnection]:
        """The home cell serves the connection that waits. Returns its session, and the one that passes bytes on."""
        ((waiting, cell),) = self.requests
        assert cell == "c2"
        handover, peer = waiting.handover(), waiting.peer
        session: Connection
        if handover.protocol == "stomp":
            session = StompPeer(self.home, waiting.name).connection
        else:
            session = Client(self.home, waiting.name).session
        session.peer = session.outbox._peer = peer  # what it writes reaches the client
        user = self.home.broker.users.get(handover.user)
        assert user is not None
        session.take_over(handover, user)
        self.home.turn()
        relayed = RelayedConnection(waiting, HomeSocket(session))
        peer.resume_reading()
        self.home.turn()
        return session, relayed
