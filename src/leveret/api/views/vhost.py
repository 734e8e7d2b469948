"""The metadata of a virtual host (broker/vhost_metadata.py) in requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leveret.broker.vhost_metadata import DEFAULT_QUEUE_TYPE, Metadata
from leveret.http.errors import BadRequest
from leveret.http.values import excerpt
from leveret.queues.options import QUEUE_TYPES

UNDEFINED = "undefined"


def metadata_given(given: Mapping[str, Any]) -> Metadata:
    """The metadata in a request body or an export; newer exports have them in ``metadata``."""
    metadata = given.get("metadata")
    values = {**(metadata if isinstance(metadata, dict) else {}), **given}
    description = values.get("description") or ""
    if not isinstance(description, str):
        raise BadRequest(f"'description' must be a string, not {excerpt(description)}")
    found: Metadata = {"description": description, "tags": tags_of(values.get("tags") or [])}
    kind = values.get("default_queue_type") or UNDEFINED
    if kind != UNDEFINED:
        if kind not in QUEUE_TYPES:
            raise BadRequest(f"'default_queue_type' must be one of {', '.join(QUEUE_TYPES)}, not {excerpt(kind)}")
        found[DEFAULT_QUEUE_TYPE] = kind
    return found


def cell_given(given: Mapping[str, Any]) -> str | None:
    """The cell where the virtual host shall live; empty: in all; None if the body does not name any."""
    cell = given.get("cell")
    if cell is not None and not isinstance(cell, str):
        raise BadRequest(f"'cell' must be the name of a cell, not {excerpt(cell)}")
    return cell


def tags_of(value: object) -> list[str]:
    """Tags from a list or a comma-separated string, without duplicates, in order."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise BadRequest(f"'tags' must be a list of strings, or a comma-separated string, not {excerpt(value)}")
    tags = (tag.strip() for part in parts for tag in part.split(","))
    return list(dict.fromkeys(tag for tag in tags if tag))
