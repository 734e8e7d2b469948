"""Parameters that belong to no virtual host.

The definitions on disk have a virtual host in each of their parameters. So all global ones live in one virtual host,
under a component of our own: the default one, or the first there is. When that one is deleted over HTTP they move on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed

COMPONENT = "global-parameter"


def global_parameters(broker: Broker) -> dict[str, object]:
    found: dict[str, object] = {}
    for vhost in broker.vhosts.values():
        found |= _kept_in(vhost)
    return dict(sorted(found.items()))


def put_global(broker: Broker, default_vhost: str, name: str, value: object) -> None:
    home = next((vhost for vhost in broker.vhosts.values() if _kept_in(vhost)), None) or broker.vhosts.get(
        default_vhost
    )
    home = home or next(iter(broker.vhosts.values()), None)
    if home is None:
        raise PreconditionFailed(f"global parameter '{name}' has no place: there is no vhost, make one first")
    home.parameters.put(COMPONENT, name, json.dumps(value).encode())


def drop_global(broker: Broker, name: str) -> None:
    for vhost in broker.vhosts.values():
        vhost.parameters.drop(COMPONENT, name)


def carry_from(broker: Broker, leaving: Vhost) -> None:
    """The virtual host is about to be deleted."""
    heir = next((vhost for vhost in broker.vhosts.values() if vhost is not leaving), None)
    if heir is not None:
        for name, value in _kept_in(leaving).items():
            heir.parameters.put(COMPONENT, name, json.dumps(value).encode())


def _kept_in(vhost: Vhost) -> Mapping[str, object]:
    names = vhost.parameters.names(COMPONENT)
    return {name: json.loads(vhost.parameters.get(COMPONENT, name) or b"null") for name in names}
