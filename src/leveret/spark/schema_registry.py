"""The schemas of a broker, for Spark's driver and workers.

A schema never changes under its ID, so each process looks up an ID once. IDs that are unknown are asked for again after
a while: the schema may have been added meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from leveret.schemas.schema import Schema
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused, OptionError
from leveret.spark.options import Access, connection_options

UNKNOWN_SECONDS = 5.0  # that an unknown ID is not asked for again
MOST_CACHED = 10_000  # IDs in a process: those in messages are chosen by publishers
ID = re.compile("[0-9a-f]{16}")

_known: dict[tuple[Access, str], Schema] = {}
_unknown: dict[tuple[Access, str], float] = {}


class SchemaRegistry:
    """Takes the options of ``format("leveret")`` that are about the connection: ``endpoint``, ``vhost``, ``username``,
    ``credentialsFile``, ``timeoutSeconds``, ``retrySeconds``.

        registry = SchemaRegistry(endpoint="http://127.0.0.1:15672", vhost="/")
        registry.schema("orders:2")
    """

    def __init__(self, **options: str) -> None:
        self._access = connection_options(options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and other._access == self._access

    def __hash__(self) -> int:
        return hash(self._access)

    def schema(self, reference: str) -> Schema:
        """The schema ``NAME``, in its latest version, or ``NAME:VERSION``."""
        name, version = reference_of(reference)
        query = {"name": name} if version is None else {"name": name, "version": version}
        return self._get(query)

    def by_id(self, id_: str) -> Schema | None:
        """None: there is no such schema."""
        key = self._access, id_
        if key in _known:
            return _known[key]
        if not ID.fullmatch(id_) or _unknown.get(key, 0.0) > time.monotonic():
            return None
        try:
            found = self._get({"id": id_})
        except BrokerRefused as refusal:
            if refusal.status not in (400, 404):
                raise
            _remember(_unknown, key, time.monotonic() + UNKNOWN_SECONDS)
            return None
        _remember(_known, key, found)
        return found

    def _get(self, query: Mapping[str, object]) -> Schema:
        with BrokerClient(self._access) as broker:
            row = broker.get("schemas", query)
        return Schema(str(row["type"]), str(row["schema"]), str(row.get("message") or ""))


def reference_of(reference: str) -> tuple[str, int | None]:
    """``orders`` or ``orders:2``. A name may contain colons."""
    name, colon, version = reference.rpartition(":")
    if not colon or not version.isdecimal():
        name, version = reference, ""
    if not name:
        raise OptionError(f"schema {reference!r} has no name; give NAME or NAME:VERSION")
    return name, int(version) if version else None


def _remember(cache: dict[Any, Any], key: object, value: object) -> None:
    if len(cache) >= MOST_CACHED:
        cache.clear()
    cache[key] = value
