"""Several cells with their management API, and a client in each cell."""

from __future__ import annotations

from typing import Any, NamedTuple

import pika

from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import CellClient
from tests.support.management_api import ManagementApi, in_path

PERSISTENT = pika.BasicProperties(delivery_mode=2)


class ManagedCells(NamedTuple):
    broker: BrokerProcess
    api: ManagementApi
    clients: dict[str, CellClient]

    def url(self, vhost: str) -> str:
        return f"{self.broker.url().rstrip('/')}/{vhost}"

    def node(self, cell: str) -> str:
        """The first cell has the name of the node."""
        own = self.api.get("overview")[1]["node"]
        return own if cell == "c1" else f"{own}-{cell}"

    def rows(self, path: str, **query: object) -> list[dict[str, Any]]:
        status, value = self.api.get(path, **query)
        assert status == 200, value
        return value if isinstance(value, list) else value["items"]

    def declare(self, cell: str, name: str, messages: int = 0, **arguments: object) -> str:
        """A durable queue of this cell, with messages published from the first one. Returns its path."""
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.clients[cell].channel.queue_declare(name, durable=True, arguments=table)
        publisher = self.clients["c1"].publisher()
        for number in range(messages):
            publisher.basic_publish("", name, b"%d" % number, PERSISTENT)
        publisher.close()
        return f"queues/%2F/{in_path(name)}"
