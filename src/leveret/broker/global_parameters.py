"""Parameters that belong to no virtual host: values in JSON that tools keep at the broker.

Their rows of the definitions have an empty virtual host. Earlier versions kept them in some virtual host, under the
same component; ``gather_global_parameters`` moves those over at a start.
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
CLUSTER_ID = "internal_cluster_id"  # RabbitMQ's name, by which tools tell one broker from another


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
    """Made at the first start, kept from then on; in the form that RabbitMQ gives it."""
    if CLUSTER_ID not in parameters:
        parameters.put(CLUSTER_ID, f"rabbitmq-cluster-id-{secrets.token_urlsafe(16)}")


def gather_global_parameters(parameters: GlobalParameters, vhosts: Iterable[Vhost]) -> None:
    """A value of the new place is the later one, should both have the name."""
    for vhost in vhosts:
        for name in vhost.parameters.names(COMPONENT):
            value = vhost.parameters.get(COMPONENT, name)
            if name not in parameters and value is not None:
                parameters.restore(name, value)
            vhost.parameters.drop(COMPONENT, name)
