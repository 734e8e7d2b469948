"""The records of the replicated log. One record is one message of the engine's stream.

All numbers are big-endian. A record is

      0        4          5       6        8         16         24         32        36            44
      | "LVRR" | version  | kind  | flags  | cell    | epoch    | batch    | part    | checksum    | body ... |
                 u8         u8      u16      u64       u64        u64        u32       u64

``cell`` is a hash of the cell's name. The checksum (xxh3, 64 bits) covers the first 36 bytes and the body.

    CLAIM   begins a leader epoch: ``epoch`` is its number, ``batch`` the number of the first batch that its leader will
            append, the body names the leader (replication/claims.py)
    BATCH   a part of batch number ``batch`` of the journal (replication/batches.py). Parts count from 0; flag 1 marks
            the last one. Batches count from 1, through all epochs.

A message without the first four bytes is not from Leveret. A record with them and a wrong checksum is damaged: members
must not guess, because another member may have read it undamaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64, xxh3_64_intdigest

from leveret.errors import ClusterError

MAGIC = b"LVRR"
VERSION = 1
HEAD = Struct(">4sBBHQQQI")
CHECKSUM = Struct(">Q")
HEAD_SIZE = HEAD.size + CHECKSUM.size
CLAIM, BATCH = 1, 2
KINDS = frozenset((CLAIM, BATCH))
LAST_PART = 1
PART_SIZE = 512 << 10  # bytes of a body in one record
MOST_PARTS = 4096  # of one batch: 2 GiB


class Head(NamedTuple):
    kind: int
    flags: int
    cell: int
    epoch: int
    batch: int
    part: int

    @property
    def is_last(self) -> bool:
        return bool(self.flags & LAST_PART)


def cell_id(name: str) -> int:
    return xxh3_64_intdigest(name.encode())


def encode_record(head: Head, body: bytes | memoryview) -> bytes:
    packed = HEAD.pack(MAGIC, VERSION, *head)
    return b"".join((packed, CHECKSUM.pack(_checksum(packed, body)), body))


def split(cell: int, epoch: int, batch: int, body: bytes, part_size: int = PART_SIZE) -> Iterator[tuple[Head, bytes]]:
    """The records of one batch, at least one. Raises ClusterError for a body that is too large for the log."""
    number = max(-(-len(body) // part_size), 1)
    if number > MOST_PARTS:
        raise ClusterError(
            f"a batch of {len(body)} bytes does not fit into the replicated log (at most {MOST_PARTS * part_size}): "
            "publish smaller messages, or fewer in one transaction"
        )
    view = memoryview(body)
    for part in range(number):
        head = Head(BATCH, LAST_PART if part == number - 1 else 0, cell, epoch, batch, part)
        yield head, encode_record(head, view[part * part_size : (part + 1) * part_size])


def read_head(payload: bytes, cell: int, sequence: int) -> Head | None:
    """The head of a checked record, or None for a message that is not from Leveret.

    Raises ClusterError for a record that is damaged, of another cell, or of a newer version.
    """
    if payload[:4] != MAGIC:
        return None
    if len(payload) < HEAD_SIZE:
        raise _damage(sequence, f"it has {len(payload)} bytes, a record has at least {HEAD_SIZE}")
    _, version, *fields = HEAD.unpack_from(payload)
    head = Head(*fields)
    (checksum,) = CHECKSUM.unpack_from(payload, HEAD.size)
    if checksum != _checksum(payload[: HEAD.size], memoryview(payload)[HEAD_SIZE:]):
        raise _damage(sequence, "wrong checksum")
    if version != VERSION or head.kind not in KINDS:
        raise ClusterError(
            f"record {sequence} of the replicated log has version {version} and kind {head.kind}, which this Leveret "
            f"does not read (version {VERSION}): upgrade this node"
        )
    if head.cell != cell:
        raise ClusterError(
            f"record {sequence} of the replicated log belongs to another cell: two cells use the same stream of the "
            "engine, give each a name of its own"
        )
    return head


def body_of(payload: bytes) -> memoryview:
    return memoryview(payload)[HEAD_SIZE:]


def _checksum(head: bytes, body: bytes | memoryview) -> int:
    digest = xxh3_64(head)
    digest.update(body)
    return digest.intdigest()


def _damage(sequence: int, cause: str) -> ClusterError:
    return ClusterError(
        f"record {sequence} of the replicated log is damaged ({cause}): check the disks of the engine's servers, and "
        "restore the damaged one from its peers"
    )
