"""Small durable values of a virtual host, for example which queues are paused and how an exchange is sharded.

Each has a component (its owner), a name and a value in bytes. Policies are kept in the same table of the
definitions, but are managed by broker/policies.py.

Global parameters are JSON values that belong to no virtual host: in their rows it is empty. Earlier versions stored
them in a virtual host under the same component; ``gather_global_parameters`` moves those at startup.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from leveret.store.definitions import Change, Drop, ParameterRow, Put

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

COMPONENT = "global-parameter"
NO_VHOST = ""
SLOT_TABLES = "sharding"  # the component of the tables of slots, which all cells have
LEFT_CELLS = "leveret_left_cells"  # a global parameter: nodes that get no shards
CLUSTER_ID = "internal_cluster_id"  # RabbitMQ's name; tools use it to distinguish clusters


class Parameters:
    """``record`` writes a change before it takes effect."""

    def __init__(self, vhost: str, record: Callable[[Change], None]) -> None:
        self._vhost = vhost
        self._record = record
        self._values: dict[tuple[str, str], bytes] = {}

    def get(self, component: str, name: str) -> bytes | None:
        return self._values.get((component, name))

    def names(self, component: str) -> list[str]:
        return [name for owner, name in self._values if owner == component]

    def put(self, component: str, name: str, value: bytes) -> None:
        if self._values.get((component, name)) != value:
            self._record(Put(ParameterRow(self._vhost, component, name, value)))
            self._values[component, name] = value

    def drop(self, component: str, name: str) -> None:
        if (component, name) in self._values:
            self._record(Drop(ParameterRow, (self._vhost, component, name)))
            del self._values[component, name]


class GlobalParameters:
    """``record`` writes a change before it takes effect."""

    def __init__(self, record: Callable[[Change], None]) -> None:
        self._rows = Parameters(NO_VHOST, record)

    def __contains__(self, name: str) -> bool:
        return self._rows.get(COMPONENT, name) is not None

    def get(self, name: str) -> object:
        """The value; None if the parameter does not exist."""
        return json.loads(self._rows.get(COMPONENT, name) or b"null")

    def all(self) -> Mapping[str, object]:
        """All global parameters by name."""
        return {name: json.loads(self._rows.get(COMPONENT, name) or b"null") for name in self.names()}

    def names(self) -> list[str]:
        return sorted(self._rows.names(COMPONENT))

    def put(self, name: str, value: object) -> None:
        self.restore(name, json.dumps(value).encode())

    def restore(self, name: str, value: bytes) -> None:
        self._rows.put(COMPONENT, name, value)

    def drop(self, name: str) -> None:
        self._rows.drop(COMPONENT, name)


def ensure_cluster_id(parameters: GlobalParameters) -> None:
    """Generate the cluster ID at the first start, in RabbitMQ's format."""
    if CLUSTER_ID not in parameters:
        parameters.put(CLUSTER_ID, f"rabbitmq-cluster-id-{secrets.token_urlsafe(16)}")


def gather_global_parameters(parameters: GlobalParameters, vhosts: Iterable[Vhost]) -> None:
    """Move the parameters of earlier versions. If a name exists in both places, the global value is newer and wins."""
    for vhost in vhosts:
        for name in vhost.parameters.names(COMPONENT):
            value = vhost.parameters.get(COMPONENT, name)
            if name not in parameters and value is not None:
                parameters.restore(name, value)
            vhost.parameters.drop(COMPONENT, name)
