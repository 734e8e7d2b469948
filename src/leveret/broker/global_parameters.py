"""Global parameters: JSON values that belong to no virtual host.

Their rows in the definitions have an empty virtual host. Earlier versions stored them in a virtual host under the same
component; ``gather_global_parameters`` moves those at the start.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from leveret.broker.parameters import Parameters
from leveret.store.definitions import Change

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

COMPONENT = "global-parameter"
NO_VHOST = ""
CLUSTER_ID = "internal_cluster_id"  # RabbitMQ's name; tools use it to distinguish clusters


class GlobalParameters:
    """``record`` writes a change before it takes effect."""

    def __init__(self, record: Callable[[Change], None]) -> None:
        self._rows = Parameters(NO_VHOST, record)

    def __contains__(self, name: str) -> bool:
        return self._rows.get(COMPONENT, name) is not None

    def get(self, name: str) -> object:
        """None if there is none."""
        return json.loads(self._rows.get(COMPONENT, name) or b"null")

    def all(self) -> Mapping[str, object]:
        """By name."""
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
    """Generated at the first start, in RabbitMQ's form."""
    if CLUSTER_ID not in parameters:
        parameters.put(CLUSTER_ID, f"rabbitmq-cluster-id-{secrets.token_urlsafe(16)}")


def gather_global_parameters(parameters: GlobalParameters, vhosts: Iterable[Vhost]) -> None:
    """If a name exists in both places, the global value is newer and wins."""
    for vhost in vhosts:
        for name in vhost.parameters.names(COMPONENT):
            value = vhost.parameters.get(COMPONENT, name)
            if name not in parameters and value is not None:
                parameters.restore(name, value)
            vhost.parameters.drop(COMPONENT, name)
