"""Schemas as rows: of names, of versions, and of definitions files, where each version has a row of its own."""

from __future__ import annotations

from leveret.broker.schemas import NamedSchema
from leveret.broker.vhost import Vhost
from leveret.http.errors import BadRequest
from leveret.http.rows import Row, WholeRows
from leveret.http.values import text_of
from leveret.schemas.schema import MODES, Schema


def named_row(found: tuple[Vhost, NamedSchema]) -> Row:
    vhost, named = found
    return {
        "vhost": vhost.name,
        "name": named.name,
        "type": named.type,
        "compatibility": named.compatibility,
        "version": named.latest,
        "id": named.versions[named.latest],
        "versions": [{"version": number, "id": id_} for number, id_ in named.versions.items()],
    }


SCHEMA_ROWS = WholeRows(("vhost", "name", "type", "compatibility", "version", "id", "versions"), named_row)


def schema_row(schema: Schema) -> Row:
    return {"id": schema.id, "type": schema.type, "schema": schema.text, "message": schema.message or None}


def version_row(vhost: Vhost, name: str, number: int, schema: Schema) -> Row:
    return {"vhost": vhost.name, "name": name, "version": number, **schema_row(schema)}


def versions_of(vhost: Vhost) -> list[tuple[str, int]]:
    """Name and number of every version."""
    return [(named.name, number) for named in vhost.schemas.list() for number in named.versions]


def exported_row(vhost: Vhost, version: tuple[str, int]) -> Row | None:
    """None: the version was deleted meanwhile."""
    name, number = version
    named = vhost.schemas.get(name)
    if named is None or number not in named.versions:
        return None
    row = version_row(vhost, name, number, vhost.schemas.by_id(named.versions[number]))
    return {**row, "compatibility": named.compatibility}


def schema_given(given: Row) -> tuple[str, str, str]:
    """The arguments of ``checked_schema``."""
    return text_of(given, "type", "avro"), text_of(given, "schema"), text_of(given, "message", "")


def compatibility_given(given: Row, default: str) -> str:
    mode = text_of(given, "compatibility", default)
    if mode not in MODES:
        raise BadRequest(f"'compatibility' is '{mode[:80]}': choose one of {', '.join(MODES)}")
    return mode
