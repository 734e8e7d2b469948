"""Whether data of one Protobuf message can be read as another, without losing or changing a value.

Fields are matched by number, so they can be renamed. Protobuf itself reads more: an int64 as an int32, for example,
which cuts large numbers off. Such changes are refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

from leveret.schemas.protobuf import GROUP, MESSAGE, REPEATED, REQUIRED, TYPES, ProtoField, ProtoFiles
from leveret.schemas.resolution import Resolution, below

WIDER = {  # by the type that was written, the types that it can be read as
    "int32": ("int64",),
    "uint32": ("uint64", "int64"),
    "sint32": ("sint64",),
    "bool": ("int32", "int64", "uint32", "uint64"),
    "enum": ("int32", "int64"),
    "string": ("bytes",),
}


def unreadable_protobuf(reader: ProtoFiles, reader_name: str, writer: ProtoFiles, writer_name: str) -> Iterator[str]:
    """The reasons why the message ``reader_name`` cannot read what ``writer_name`` wrote."""
    return _Protobuf(reader, writer).compare(reader_name, writer_name, "")


class _Protobuf:
    def __init__(self, reader: ProtoFiles, writer: ProtoFiles) -> None:
        self._reader, self._writer = reader, writer
        self._resolution = Resolution()

    def compare(self, reader: str, writer: str, path: str) -> Iterator[str]:
        yield from self._resolution.once((reader, writer), lambda: self._messages(reader, writer, path))

    def _messages(self, reader: str, writer: str, path: str) -> Iterator[str]:
        written = {field.number: field for field in self._writer.messages[writer]}
        for field in self._reader.messages[reader]:
            self._resolution.step()
            place = below(path, field.name)
            source = written.get(field.number)
            if field.label == REQUIRED and (source is None or source.label != REQUIRED):
                yield f"{place}: the field is required, but may be missing in the data; make it optional"
            if source is not None:
                yield from self._fields(field, source, place)

    def _fields(self, field: ProtoField, source: ProtoField, path: str) -> Iterator[str]:
        is_message = field.kind in (MESSAGE, GROUP)
        if (field.label == REPEATED) != (source.label == REPEATED) or (is_message and field.kind != source.kind):
            yield f"{path}: field {field.number} was {source} and cannot be read as {field}"
        elif is_message:
            yield from self.compare(field.type_name, source.type_name, path)
        elif field.kind != source.kind and TYPES[field.kind] not in WIDER.get(TYPES[source.kind], ()):
            yield f"{path}: field {field.number} was {source} and cannot be read as {field}"
