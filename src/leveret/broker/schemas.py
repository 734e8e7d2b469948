"""The schema registry of a virtual host: schemas of message bodies, by name and version, and by ID.

It is kept in the parameters, so it is stored, replicated and shared between cells as these are. A name has one small
row; each text has a row of its own, by its ID, and is stored once if several names have it. Numbers of versions are not
used again, unless the whole name is deleted.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from leveret.broker.parameters import Parameters
from leveret.errors import NotFound, PreconditionFailed
from leveret.schemas.schema import Schema

NAMES, TEXTS = "schema-name", "schema-text"  # components of the parameters
COMPONENTS = (NAMES, TEXTS)
MOST_NAMES = 1_000
MOST_VERSIONS = 100  # of a name
HIGHEST_VERSION = 1_000_000
MOST_BYTES = 16 << 20  # of all texts


class NamedSchema(NamedTuple):
    """``versions``: IDs by number, in ascending order. ``last``: the highest number that was ever used."""

    name: str
    type: str
    compatibility: str
    versions: dict[int, str]
    last: int

    @property
    def latest(self) -> int:
        return max(self.versions)


class Schemas:
    def __init__(self, vhost: str, parameters: Parameters) -> None:
        self._vhost = vhost
        self._parameters = parameters

    def names(self) -> list[str]:
        return sorted(self._parameters.names(NAMES))

    def list(self) -> list[NamedSchema]:
        return [self.existing(name) for name in self.names()]

    def get(self, name: str) -> NamedSchema | None:
        row = self._parameters.get(NAMES, name)
        if row is None:
            return None
        value = json.loads(row)
        versions = {int(number): id_ for number, id_ in value["versions"].items()}
        return NamedSchema(name, value["type"], value["compatibility"], versions, value["last"])

    def existing(self, name: str) -> NamedSchema:
        found = self.get(name)
        if found is None:
            raise NotFound(f"no schema '{name}' in vhost '{self._vhost}': add it with PUT /api/schemas/VHOST/NAME")
        return found

    def version(self, name: str, number: int | None = None) -> tuple[int, Schema]:
        """A version and its number; by default the latest."""
        named = self.existing(name)
        found = named.latest if number is None else number
        if found not in named.versions:
            raise NotFound(
                f"schema '{name}' in vhost '{self._vhost}' has no version {found}: it has "
                f"{', '.join(map(str, named.versions))}"
            )
        return found, self.by_id(named.versions[found])

    def by_id(self, id_: str) -> Schema:
        row = self._parameters.get(TEXTS, id_)
        if row is None:
            raise NotFound(f"no schema with the ID '{id_}' in vhost '{self._vhost}'")
        return Schema(*json.loads(row))

    # ---- changes

    def add(self, name: str, schema: Schema, compatibility: str, number: int | None = None) -> tuple[int, bool]:
        """The number of the version, and whether it is new. ``number``: that of an imported version. The caller has
        checked the schema and its compatibility."""
        named = self.get(name) or NamedSchema(name, schema.type, compatibility, {}, 0)
        known = self._number_of(named, schema, number)
        if known is None:
            known = named.last + 1 if number is None else number
            self._refuse_too_many(named, schema)
            self._put_text(schema)
            named.versions[known] = schema.id
            is_new = True
        else:
            is_new = False
        self._put(named._replace(compatibility=compatibility, last=max(named.last, known)))
        return known, is_new

    def refuse_other_version(self, name: str, schema: Schema, number: int) -> None:
        """Refuse an imported version if the name has another one of this number."""
        named = self.get(name)
        if named is not None and (named.type != schema.type or named.versions.get(number, schema.id) != schema.id):
            raise PreconditionFailed(
                f"version {number} of schema '{name}' in vhost '{self._vhost}' is another schema: delete it first"
            )

    def delete(self, name: str) -> None:
        named = self.existing(name)
        self._parameters.drop(NAMES, name)
        self._drop_unused({*named.versions.values()})

    def delete_version(self, name: str, number: int) -> None:
        """With its last version, the name is deleted."""
        self.version(name, number)
        named = self.existing(name)
        id_ = named.versions.pop(number)
        if named.versions:
            self._put(named)
        else:
            self._parameters.drop(NAMES, name)
        self._drop_unused({id_})

    def _number_of(self, named: NamedSchema, schema: Schema, number: int | None) -> int | None:
        """The number that the name has for this schema already."""
        known = [each for each, id_ in named.versions.items() if id_ == schema.id]
        if number is not None:
            return number if number in known else None
        return known[-1] if known else None

    def _refuse_too_many(self, named: NamedSchema, schema: Schema) -> None:
        names = self._parameters.names(NAMES)
        if len(named.versions) >= MOST_VERSIONS:
            raise PreconditionFailed(
                f"schema '{named.name}' in vhost '{self._vhost}' has {MOST_VERSIONS} versions: delete old ones"
            )
        if not named.versions and len(names) >= MOST_NAMES:
            raise PreconditionFailed(
                f"vhost '{self._vhost}' has {MOST_NAMES} schemas: delete those that are not needed"
            )
        size = sum(len(self._parameters.get(TEXTS, id_) or b"") for id_ in self._parameters.names(TEXTS))
        if size + len(schema.text) > MOST_BYTES:
            raise PreconditionFailed(
                f"the schemas of vhost '{self._vhost}' have {size} bytes: at most {MOST_BYTES} are stored; delete old "
                "versions"
            )

    def _put_text(self, schema: Schema) -> None:
        row, before = json.dumps(schema).encode(), self._parameters.get(TEXTS, schema.id)
        if before is not None and before != row:
            raise PreconditionFailed(f"another schema has the same ID '{schema.id}': change the text, such as a doc")
        self._parameters.put(TEXTS, schema.id, row)

    def _put(self, named: NamedSchema) -> None:
        versions = {str(number): id_ for number, id_ in sorted(named.versions.items())}
        row = {"type": named.type, "compatibility": named.compatibility, "versions": versions, "last": named.last}
        self._parameters.put(NAMES, named.name, json.dumps(row).encode())

    def _drop_unused(self, ids: set[str]) -> None:
        """Delete the texts that no name refers to any more."""
        used = {id_ for each in self.list() for id_ in each.versions.values()}
        for id_ in ids - used:
            self._parameters.drop(TEXTS, id_)
