"""Metadata of a virtual host: its description, tags and default queue type.

They are stored as a parameter of the virtual host, under an internal component. The default queue type is stored and
returned, but has no effect on declarations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leveret.broker.vhost import Vhost
from leveret.http.errors import BadRequest
from leveret.http.values import excerpt
from leveret.queues.options import QUEUE_TYPES

COMPONENT, NAME = "vhost-metadata", "metadata"
UNDEFINED = "undefined"

Facts = dict[str, Any]


def facts_of(vhost: Vhost) -> Facts:
    """The description, the tags and, if it is set, the default_queue_type."""
    value = vhost.parameters.get(COMPONENT, NAME)
    return {"description": "", "tags": []} if value is None else dict(json.loads(value))


def note_facts(vhost: Vhost, facts: Facts) -> None:
    if facts == {"description": "", "tags": []}:
        vhost.parameters.drop(COMPONENT, NAME)
    else:
        vhost.parameters.put(COMPONENT, NAME, json.dumps(facts).encode())


def facts_given(given: Mapping[str, Any]) -> Facts:
    """The metadata in a request body or an export; newer exports have them in ``metadata``."""
    metadata = given.get("metadata")
    values = {**(metadata if isinstance(metadata, dict) else {}), **given}
    description = values.get("description") or ""
    if not isinstance(description, str):
        raise BadRequest(f"'description' must be a string, not {excerpt(description)}")
    facts: Facts = {"description": description, "tags": tags_of(values.get("tags") or [])}
    kind = values.get("default_queue_type") or UNDEFINED
    if kind != UNDEFINED:
        if kind not in QUEUE_TYPES:
            raise BadRequest(f"'default_queue_type' must be one of {', '.join(QUEUE_TYPES)}, not {excerpt(kind)}")
        facts["default_queue_type"] = kind
    return facts


def tags_of(value: object) -> list[str]:
    """Tags from a list or a comma-separated string, without duplicates, in order."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise BadRequest(f"'tags' must be a list of strings, or a comma-separated string, not {excerpt(value)}")
    tags = (tag.strip() for part in parts for tag in part.split(","))
    return list(dict.fromkeys(tag for tag in tags if tag))
