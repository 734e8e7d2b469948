"""What administrators note about a virtual host: a description, tags, the queue type that they had in mind.

It is kept among the parameters of the virtual host, under a component of our own. The queue type is kept and shown, and
changes no declaration.
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
    """Description, tags and, if one is noted, default_queue_type."""
    value = vhost.parameters.get(COMPONENT, NAME)
    return {"description": "", "tags": []} if value is None else dict(json.loads(value))


def note_facts(vhost: Vhost, facts: Facts) -> None:
    if facts == {"description": "", "tags": []}:
        vhost.parameters.drop(COMPONENT, NAME)
    else:
        vhost.parameters.put(COMPONENT, NAME, json.dumps(facts).encode())


def facts_given(given: Mapping[str, Any]) -> Facts:
    """The properties of a virtual host in a body or an export; newer exports have them in ``metadata``."""
    metadata = given.get("metadata")
    said = {**(metadata if isinstance(metadata, dict) else {}), **given}
    description = said.get("description") or ""
    if not isinstance(description, str):
        raise BadRequest(f"'description' must be a string, not {excerpt(description)}")
    facts: Facts = {"description": description, "tags": tags_of(said.get("tags") or [])}
    kind = said.get("default_queue_type") or UNDEFINED
    if kind != UNDEFINED:
        if kind not in QUEUE_TYPES:
            raise BadRequest(f"'default_queue_type' must be one of {', '.join(QUEUE_TYPES)}, not {excerpt(kind)}")
        facts["default_queue_type"] = kind
    return facts


def tags_of(value: object) -> list[str]:
    """From a list, or from a text with commas; each once, in the order given."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise BadRequest(f"'tags' must be a list of strings, or a comma-separated string, not {excerpt(value)}")
    tags = (tag.strip() for part in parts for tag in part.split(","))
    return list(dict.fromkeys(tag for tag in tags if tag))
