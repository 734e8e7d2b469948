"""Arrow streams that are small on the wire and large when they are decoded."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from tests.support.http_api import arrow_stream

MIB = 1 << 20
V4 = pa.ipc.MetadataVersion.V4
HEADER, CUSTOM_METADATA = 2, 4  # fields of a Message, by their place in its table
LENGTH, NODES, BUFFERS, COMPRESSION = 0, 1, 2, 3  # fields of a RecordBatch
ROWS_OF_NOTHING = 1 << 33
DEPRECATED = {"ARROW:experimental_compression": "zstd"}


class Patched:
    """A stream of a schema and a record batch, whose metadata can be changed in place."""

    def __init__(self, stream: bytes) -> None:
        self.data = bytearray(stream)
        self.metadata = 8 + struct.unpack_from("<i", stream, 4)[0] + 8  # of the second message
        message = self.metadata + self._uint32(self.metadata)
        header = self.place(message, HEADER)
        self.batch = header + self._uint32(header)

    def _uint32(self, place: int) -> int:
        value: int = struct.unpack_from("<I", self.data, place)[0]
        return value

    def _entry(self, table: int, field: int) -> int:
        vtable: int = table - struct.unpack_from("<i", self.data, table)[0]
        return vtable + 4 + 2 * field

    def place(self, table: int, field: int) -> int:
        offset: int = struct.unpack_from("<H", self.data, self._entry(table, field))[0]
        return table + offset

    def remove(self, table: int, field: int) -> None:
        struct.pack_into("<H", self.data, self._entry(table, field), 0)

    def pairs(self, field: int) -> list[int]:
        """Where each pair of 64-bit numbers of a vector is: nodes (length, nulls) or buffers (offset, length)."""
        vector = self.place(self.batch, field)
        vector += self._uint32(vector)
        return [vector + 4 + 16 * place for place in range(self._uint32(vector))]

    def set_pair(self, place: int, first: int, second: int) -> None:
        struct.pack_into("<qq", self.data, place, first, second)


def compressed_by_deprecated_key(size: int) -> bytes:
    """Buffers of ``size`` zeros compressed with Zstandard, declared by the custom metadata of a V4 message only."""
    options = pa.ipc.IpcWriteOptions(metadata_version=V4, compression="zstd")
    offsets = np.arange(0, size + 1, 16 * MIB, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(bytes(size))]
    batch = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)], ["body"])
    stream = Patched(arrow_stream(batch, options=options, custom_metadata=DEPRECATED))
    stream.remove(stream.batch, COMPRESSION)
    return bytes(stream.data)


def many_views(number: int, size: int) -> bytes:
    """``number`` views of the same ``size`` bytes."""
    view = struct.pack("<i4sii", size, bytes(4), 0, 0)
    buffers = [None, pa.py_buffer(view * number), pa.py_buffer(bytes(size))]
    return arrow_stream(
        pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.binary_view(), number, buffers)], ["body"])
    )


def shared_buffers(size: int) -> bytes:
    """A body and ten properties whose values are the same ``size`` bytes."""
    names = ["content_type", "content_encoding", "correlation_id", "reply_to", "expiration"]
    names += ["message_id", "type", "user_id", "app_id"]
    columns = {"body": pa.array([bytes(size)]), "properties": pa.array([dict.fromkeys(names, "")])}
    stream = Patched(arrow_stream(pa.record_batch(columns)))
    buffers = stream.pairs(BUFFERS)
    offsets, values = (struct.unpack_from("<qq", stream.data, place) for place in buffers[1:3])
    for column in range(len(names)):  # behind the three buffers of the body and the validity of the struct
        stream.set_pair(buffers[4 + 3 * column + 1], *offsets)
        stream.set_pair(buffers[4 + 3 * column + 2], *values)
    return bytes(stream.data)


def rows_of_nothing() -> bytes:
    """Many rows of a type that takes no bytes."""
    stream = Patched(arrow_stream(pa.record_batch({"body": pa.array([b""], pa.binary(0))})))
    struct.pack_into("<q", stream.data, stream.place(stream.batch, LENGTH), ROWS_OF_NOTHING)
    for node in stream.pairs(NODES):
        stream.set_pair(node, ROWS_OF_NOTHING, 0)
    return bytes(stream.data)
