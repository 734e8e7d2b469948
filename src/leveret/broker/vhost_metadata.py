"""Description, tags and default queue type of a virtual host, kept as one of its parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leveret.broker.vhost import Vhost
from leveret.queues.options import QUEUE_TYPE

COMPONENT, NAME = "vhost-metadata", "metadata"
DEFAULT_QUEUE_TYPE = "default_queue_type"

Metadata = dict[str, Any]


def metadata_of(vhost: Vhost) -> Metadata:
    """The description, the tags and, if it is set, the default_queue_type."""
    value = vhost.parameters.get(COMPONENT, NAME)
    return {"description": "", "tags": []} if value is None else dict(json.loads(value))


def note_metadata(vhost: Vhost, metadata: Metadata) -> None:
    if metadata == {"description": "", "tags": []}:
        vhost.parameters.drop(COMPONENT, NAME)
    else:
        vhost.parameters.put(COMPONENT, NAME, json.dumps(metadata).encode())


def with_queue_type(
    vhost: Vhost, name: str, arguments: Mapping[str, object], *, durable: bool, is_bound_to_client: bool
) -> Mapping[str, object]:
    """The arguments of a declaration, with the default type if they name none.

    As in RabbitMQ, it applies to queues that every type can be: durable, named, neither exclusive nor auto-delete. A
    queue that exists with another type stays equivalent.
    """
    if vhost.parameters.get(COMPONENT, NAME) is None or QUEUE_TYPE in arguments:
        return arguments
    kind = metadata_of(vhost).get(DEFAULT_QUEUE_TYPE)
    if kind is None or not name or not durable or is_bound_to_client:
        return arguments
    current = vhost.queues.get(name)
    if current is not None and current.arguments.get(QUEUE_TYPE) != kind:
        return arguments
    return {**arguments, QUEUE_TYPE: kind}
