"""Connections that move between cells in memory."""

from __future__ import annotations

from leveret.session.amqp_connection import AmqpConnection
from tests.support.peer_pair import Client, Harness


class Passing:
    """broker.cells.ConnectionMover from ``here`` to one of the cells: the client keeps its socket."""

    def __init__(self, here: Harness, **cells: Harness) -> None:
        self.here = here
        self.cells = cells
        self.is_refused = False
        self.moved: list[Client] = []

    def move(self, cell: str, peer: object, state: bytes, rest: bytes) -> bool:
        if self.is_refused:
            return False
        (client,) = [each for each in self.here.clients if isinstance(each, Client) and each.socket is peer]
        home = self.cells[cell]
        self.moved.append(client)
        before = client.session
        client.session = AmqpConnection(home.broker, client.socket, home.login, home.limits, before.name)
        home.broker.registry.add(client.session)
        client.session.continue_from(state, rest)
        client.harness = home
        self.here.clients.remove(client)
        home.clients.append(client)
        self.here.broker.timers.at(0, before.lost)  # as when its socket is closed here
        return True
