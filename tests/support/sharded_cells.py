"""Sharded exchanges of ``leveret serve --cells 3``: processes, a client in each cell, and their policies."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import ChannelClosedByBroker

import leveret
from leveret.cli.many_cells import ManyCells
from leveret.session.connection_moves import STAY
from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import CellClient, clients_by_cell, until
from tests.support.management_api import ManagementApi

CELLS = ("c1", "c2", "c3")
NODES = ("hare", "hare-c2", "hare-c3")
FLAGS = ("--node-name", "hare", "--http-port", "0", "--cells")


class Cluster:
    """Three cells, and a client in each of them."""

    def __init__(self, broker: BrokerProcess, clients: dict[str, CellClient]) -> None:
        self.broker = broker
        self.url = broker.url()
        self.clients = clients
        self.api = ManagementApi(broker.url("http"))

    def shard(self, exchange: str, kind: str = "x-modulus-hash", number: int = 2, **more: object) -> list[str]:
        """Declare an exchange in the second cell, and shard it by a policy; returns the names of its shards."""
        self.clients["c2"].channel.exchange_declare(exchange, kind, durable=True)
        return self.policy(exchange, number, **more)

    def policy(self, exchange: str, number: int, cells: int = 3, **more: object) -> list[str]:
        definition = {"shards-per-node": number} | {name.replace("_", "-"): value for name, value in more.items()}
        policy = {"pattern": f"^{exchange}$", "definition": definition, "apply-to": "exchanges"}
        assert self.api.put(f"policies/%2F/{exchange}", policy)[0] in (201, 204)
        wanted = shards_of(exchange, number, NODES[:cells])
        until(lambda: all(self.knows(client, wanted) for client in self.clients.values()))
        return wanted

    def knows(self, client: CellClient, shards: list[str]) -> bool:
        """Whether the cell has the shards, and all cells their bindings."""
        channel: Any = client.connection.channel()
        try:
            for shard in shards:
                channel.queue_declare(shard, passive=True)
        except ChannelClosedByBroker:
            return False
        channel.close()
        return len(self.bindings(shards[0].split()[1])) >= len(shards)

    def bindings(self, exchange: str) -> dict[str, str]:
        rows = self.api.get(f"exchanges/%2F/{quote(exchange)}/bindings/source")[1]
        return {row["destination"]: row["routing_key"] for row in rows}

    def declared(self, queue: str, cell: str = "c1") -> Any:
        """The counts, from the home of the queue."""
        return self.clients[cell].channel.queue_declare(queue, passive=True).method

    def bodies(self, queue: str, cell: str) -> list[bytes]:
        """Takes all messages of the queue."""
        number = self.declared(queue, cell).message_count
        return [self.clients[cell].channel.basic_get(queue, auto_ack=True)[2] for _ in range(number)]


def shards_of(exchange: str, number: int, nodes: tuple[str, ...] = NODES) -> list[str]:
    return [f"sharding: {exchange} - {node} - {index}" for node in nodes for index in range(number)]


@contextmanager
def running(folder: Path, cells: int = 3, port: str = "0") -> Iterator[Cluster]:
    with (
        BrokerProcess(folder, *FLAGS, str(cells), port=port) as broker,
        clients_by_cell(broker.url(), *CELLS[:cells]) as clients,
    ):
        yield Cluster(broker, clients)


@contextmanager
def consumers(cluster: Cluster, cell: str, number: int) -> Iterator[list[CellClient]]:
    """Connections that stay in one cell."""
    parameters = pika.URLParameters(cluster.url)
    parameters.client_properties = {STAY: True}
    with ExitStack() as stack:
        found: list[CellClient] = []
        while len(found) < number:
            client = CellClient(pika.BlockingConnection(parameters))
            stack.callback(client.connection.close)
            if client.cell == cell:
                found.append(client)
        yield found


def await_resized(cluster: Cluster, exchange: str) -> None:
    """Until the first cell reports that the slots have moved."""
    until(lambda: _is_resized(cluster.broker.log(), exchange))


def _is_resized(log: str, exchange: str) -> bool:
    lines = [line for line in log.splitlines() if f"exchange={exchange}" in line and "sharded exchange" in line]
    return bool(lines) and "has been resized" in lines[-1]


class OwnCells:
    """The first cell in a thread of the test, with real processes for the others."""

    def __init__(self, folder: Path) -> None:
        settings = leveret.Settings(
            data_dir=folder, amqp_port=0, http_port=None, stomp_port=None, cells=3, node_name="hare"
        )
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.cells = self.run(self._start(settings))

    async def _start(self, settings: leveret.Settings) -> ManyCells:
        cells = ManyCells(settings, {}, None)
        await cells.start()
        return cells

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def call(self, call: Callable[[], object]) -> object:
        async def on_loop() -> object:
            return call()

        return self.run(on_loop())

    def stop(self) -> None:
        self.run(self.cells.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


def consume_rapidly(client: CellClient, exchange: str) -> None:
    for _ in range(7):
        client.channel.basic_consume(exchange, lambda *_: None)


def consume_for_a_while(cluster: Cluster, cell: str, queue: str, number: int, **arguments: object) -> list[bytes]:
    """The bodies that a consumer gets until there are so many."""
    got: list[bytes] = []
    with consumers(cluster, cell, 1) as (consumer,):
        consumer.channel.basic_consume(queue, lambda *parts: got.append(parts[3]), auto_ack=True, arguments=arguments)
        deadline = time.monotonic() + 60
        while len(got) < number and time.monotonic() < deadline:
            consumer.connection.process_data_events(0.05)
    return got
