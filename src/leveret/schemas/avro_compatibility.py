"""Whether data of one Avro schema can be read with another: the rules of Avro's schema resolution."""

from __future__ import annotations

from collections.abc import Iterator

from leveret.schemas.avro import AvroField, AvroType, shortened
from leveret.schemas.resolution import Resolution, below

PROMOTIONS = {  # by the type that was written, the types that it can be read as
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def unreadable_avro(reader: AvroType, writer: AvroType) -> Iterator[str]:
    """The reasons why ``reader`` cannot read what ``writer`` wrote."""
    return _Avro().compare(reader, writer, "")


class _Avro:
    def __init__(self) -> None:
        self._resolution = Resolution()

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        self._resolution.step()
        if writer.kind == "union":
            for branch in writer.inner:
                yield from self.compare(reader, branch, path)
        elif reader.kind == "union":
            if not any(self._reads(branch, writer) for branch in reader.inner):
                yield f"{path or 'the schema'}: {writer} cannot be read as {reader}"
        elif reader.kind != writer.kind:
            if reader.kind not in PROMOTIONS.get(writer.kind, ()):
                yield f"{path or 'the schema'}: {writer} cannot be read as {reader}"
        elif reader.kind in ("array", "map"):
            yield from self.compare(reader.inner[0], writer.inner[0], f"{path}[]")
        elif reader.name:
            yield from self._named(reader, writer, path)
        else:
            yield from _decimals(reader, writer, path)

    def _reads(self, reader: AvroType, writer: AvroType) -> bool:
        return next(self.compare(reader, writer, ""), None) is None

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        if not _has_name(reader, writer.name):
            yield f"{path or 'the schema'}: {writer} cannot be read as {reader}; add an alias or keep the name"
        elif reader.kind == "record":
            yield from self._resolution.once((reader, writer), lambda: self._records(reader, writer, path))
        elif reader.kind == "enum":
            known = {*reader.symbols}
            missing = next((symbol for symbol in writer.symbols if symbol not in known), None)
            if missing is not None and reader.default is None:
                yield f"{path or 'the schema'}: {reader} lacks the symbol {shortened(missing)} and has no default"
        elif reader.size != writer.size:
            yield f"{path or 'the schema'}: the size of {reader} changed from {writer.size} to {reader.size}"
        else:
            yield from _decimals(reader, writer, path)

    def _records(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
        written = {field.name: field for field in writer.fields}
        for field in reader.fields:
            place = below(path, field.name)
            source = _source(field, written)
            if source is not None:
                yield from self.compare(field.type, source.type, place)
            elif not field.has_default:
                yield f"{place}: the field is missing in the data and has no default"


def _source(field: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _has_name(reader: AvroType, written: str) -> bool:
    """By the last part of the name, as in Avro's rules, or by an alias."""
    return reader.name.rpartition(".")[2] == written.rpartition(".")[2] or written in reader.aliases


def _decimals(reader: AvroType, writer: AvroType, path: str) -> Iterator[str]:
    was, now = (writer.precision, writer.scale), (reader.precision, reader.scale)
    if reader.logical == writer.logical == "decimal" and was != now:
        yield f"{path or 'the schema'}: decimal{was} cannot be read as decimal{now}"
