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


def list_of_nothing(number: int) -> bytes:
    """A header that is a list of a type that takes no bytes."""
    return _with_headers(pa.nulls(number))


def list_of_empty_structs(number: int) -> bytes:
    return _with_headers(pa.StructArray.from_buffers(pa.struct([]), number, [None]))


def many_booleans(number: int) -> bytes:
    """A header that is a list of bits."""
    bits = pa.py_buffer(bytes(number // 8))
    return _with_headers(pa.Array.from_buffers(pa.bool_(), number, [None, bits]))


def many_null_headers(rows: int, number: int) -> bytes:
    """Rows with many headers of a type that takes no bytes."""
    kind = pa.struct([(str(name), pa.null()) for name in range(number)])
    headers = pa.StructArray.from_buffers(kind, rows, [None], children=[pa.nulls(rows)] * number)
    return arrow_stream(pa.record_batch({"body": pa.array([b""] * rows), "headers": headers}))


def _with_headers(values: pa.Array) -> bytes:
    """One row, with a list of these values as a header."""
    many = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    headers = pa.StructArray.from_arrays([many], ["h"])
    return arrow_stream(pa.record_batch({"body": pa.array([b""]), "headers": headers}))


VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={"variant": "true"})])
NAMELESS = b"\x01\x00\x00"  # the metadata of a variant without names


def variant_of_one_text(number: int, size: int) -> bytes:
    """A variant that is an array, whose values are all the same text."""
    text = b"\x40" + size.to_bytes(4, "little") + bytes(size)
    return _with_variants([variant_array(number, text)])


def many_large_variants(number: int) -> bytes:
    """Headers of one row that are arrays of 240 arrays of 40 values, which are all the same."""
    value = variant_array(240, variant_array(40, b"\x40\x10\x00\x00\x00" + bytes(16)))
    return _with_variants([value] * number)


def variant_array(number: int, value: bytes) -> bytes:
    """A variant that is an array of the same value, at the same place."""
    is_large, width = 4, 3  # bytes of an offset, minus one
    return bytes([3 | (is_large | width) << 2]) + number.to_bytes(4, "little") + bytes(4 * (number + 1)) + value


def _with_variants(values: list[bytes]) -> bytes:
    headers = [(str(name), {"value": value, "metadata": NAMELESS}) for name, value in enumerate(values)]
    column = pa.array([headers], pa.map_(pa.string(), VARIANT))
    return arrow_stream(pa.record_batch({"body": pa.array([b""]), "headers": column}))


def rows_of_nothing() -> bytes:
    """Many rows of a type that takes no bytes."""
    stream = Patched(arrow_stream(pa.record_batch({"body": pa.array([b""], pa.binary(0))})))
    struct.pack_into("<q", stream.data, stream.place(stream.batch, LENGTH), ROWS_OF_NOTHING)
    for node in stream.pairs(NODES):
        stream.set_pair(node, ROWS_OF_NOTHING, 0)
    return bytes(stream.data)
