"""Clients of ``leveret serve --cells``, one in each cell: the system chooses the cell of a connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
from pika.exceptions import AMQPError

from leveret.session.connection_moves import STAY

MOST_TRIES = 200


class CellClient:
    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.connection = connection
        impl: Any = connection._impl
        self.cell = str(impl.server_properties["cell"])
        self.channel: Any = connection.channel()

    def publisher(self) -> Any:
        """A channel with confirms."""
        channel: Any = self.connection.channel()
        channel.confirm_delivery()
        return channel


@contextmanager
def clients_by_cell(url: str, *cells: str) -> Iterator[dict[str, CellClient]]:
    """By the name of the cell; connects until there is one in each."""
    found: dict[str, CellClient] = {}
    surplus: list[CellClient] = []
    try:
        for _ in range(MOST_TRIES):
            if set(cells) <= set(found):
                break
            parameters = pika.URLParameters(url)
            parameters.client_properties = {STAY: True}
            client = CellClient(pika.BlockingConnection(parameters))
            if client.cell in found:
                surplus.append(client)
            else:
                found[client.cell] = client
        assert set(cells) <= set(found), sorted(found)
        yield found
    finally:
        for client in (*found.values(), *surplus):
            with suppress(AMQPError):  # its cell may be gone
                client.connection.close()


@contextmanager
def client_elsewhere(url: str, home: str) -> Iterator[CellClient]:
    """A connection that may move, in another cell than ``home``."""
    for _ in range(MOST_TRIES):
        client = CellClient(pika.BlockingConnection(pika.URLParameters(url)))
        try:
            if client.cell != home:
                yield client
                return
        finally:
            client.connection.close()
    raise AssertionError(f"all of {MOST_TRIES} connections were in {home}")


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
