"""Whether JSON bodies that match one list of fields also match another.

Fields are matched by name. A body may have more fields than the schema, so fields can be removed; a new field must be
nullable, because earlier bodies do not have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from leveret.schemas.ddl import DdlType
from leveret.schemas.resolution import Resolution, below

WHOLE = ("tinyint", "smallint", "int", "bigint")
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
TEXTS = ("char", "varchar", "string")


def unreadable_ddl(reader: DdlType, writer: DdlType) -> Iterator[str]:
    """The reasons why a body that matches ``writer`` may not match ``reader``."""
    return _compare(Resolution(), reader, writer, "")


def _compare(resolution: Resolution, reader: DdlType, writer: DdlType, path: str) -> Iterator[str]:
    resolution.step()
    if reader.kind == writer.kind == "struct":
        yield from _structs(resolution, reader, writer, path)
    elif reader.kind == writer.kind and reader.inner:
        for now, was in zip(reader.inner, writer.inner, strict=True):
            yield from _compare(resolution, now, was, f"{path}[]")
    elif not _widens(reader, writer):
        yield f"{path}: {writer} cannot be read as {reader}"


def _structs(resolution: Resolution, reader: DdlType, writer: DdlType, path: str) -> Iterator[str]:
    written = {field.name: field for field in writer.fields}
    for field in reader.fields:
        place = below(path, field.name)
        source = written.get(field.name)
        if source is not None:
            yield from _compare(resolution, field.type, source.type, place)
        if not field.nullable and (source is None or source.nullable):
            yield f"{place}: the field is NOT NULL, but may be missing in the data; make it nullable"


def _widens(reader: DdlType, writer: DdlType) -> bool:
    """Whether every value of one type is a value of the other, as JSON."""
    was, now = writer.kind, reader.kind
    if writer == reader or now == "variant":
        return True
    if was in WHOLE and now in WHOLE:
        return WHOLE.index(was) <= WHOLE.index(now)
    if now == "decimal" and was in (*WHOLE, "decimal"):
        digits, scale = writer.sizes if was == "decimal" else (DIGITS[was], 0)
        return digits - scale <= reader.sizes[0] - reader.sizes[1] and scale <= reader.sizes[1]
    if now == "double":
        return was in ("tinyint", "smallint", "int", "float")
    if now == "float":
        return was in ("tinyint", "smallint")
    if was in TEXTS and now in TEXTS:
        return now == "string" or (bool(writer.sizes and reader.sizes) and writer.sizes[0] <= reader.sizes[0])
    return False
