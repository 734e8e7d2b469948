"""Packs: some thousand staged messages as one message of their stage.

A stage is written once and read once, whole. So plain messages (their only property is the delivery mode persistent)
are not stored one by one: a pack holds the contents of many, and the commit takes it apart. A stage may hold packs and
single messages; the first byte tells them apart, since a content begins with the type of its header frame, 2.

    | 0 | "LVP" | number of runs u32 | run ... | number of messages x u32 content length | contents |
    run: u8 length + exchange, u8 length + routing key, u32 number of messages

All numbers are little-endian. A pack has at most as many messages and bytes as one step of a commit moves.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct
from sys import byteorder
from typing import TYPE_CHECKING, NamedTuple

from leveret.message import PERSISTENT, Address, Message
from leveret.wire.constants import DEFAULT_FRAME_MAX

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAGIC = b"\x00LVP"
MOST_RUNS = 256  # of a pack; rows whose address changes more often are staged one by one
HEAD = Struct("<4sI")
NUMBER = Struct("<I")
CHANNEL = 1


class Pack(NamedTuple):
    """A pack to be staged, and what is checked before: the first message of each run, and the length of the run."""

    data: bytes
    firsts: list[tuple[Message, int]]
    messages: int
    size: int  # bytes of the contents


def packed(runs: Sequence[tuple[int, int, Address]], ends: npt.NDArray[np.int32], contents: bytes) -> Pack:
    """``runs``: first row, end and address; ``ends``: where the content of each row begins, and the end of the last."""
    first, last = int(ends[0]), int(ends[-1])
    contents = contents[first:last]
    parts = [HEAD.pack(MAGIC, len(runs))]
    firsts: list[tuple[Message, int]] = []
    for start, stop, address in runs:
        exchange, key = address.exchange.encode(), address.key.encode()
        parts += (bytes((len(exchange),)), exchange, bytes((len(key),)), key, NUMBER.pack(stop - start))
        content = contents[int(ends[start]) - first : int(ends[start + 1]) - first]
        firsts.append(((content, address, PERSISTENT), stop - start))
    lengths = (ends[1:] - ends[:-1]).astype("<u4")
    parts += (lengths.tobytes(), contents)
    return Pack(b"".join(parts), firsts, len(lengths), len(contents))


def is_pack(content: bytes) -> bool:
    return content[:1] == MAGIC[:1]


def unpacked(data: bytes) -> list[list[Message]]:
    """The messages of a pack, in runs of one address."""
    _, number = HEAD.unpack_from(data)
    at = HEAD.size
    runs: list[tuple[Address, int]] = []
    known: dict[tuple[str, str], Address] = {}
    for _ in range(number):
        exchange, at = _text(data, at)
        key, at = _text(data, at)
        address = known.get((exchange, key))
        if address is None:
            address = known[exchange, key] = Address(exchange, key, CHANNEL, DEFAULT_FRAME_MAX)
        runs.append((address, NUMBER.unpack_from(data, at)[0]))
        at += NUMBER.size
    total = sum([count for _, count in runs])
    lengths = array("I", data[at : at + total * NUMBER.size])
    if byteorder == "big":
        lengths.byteswap()
    ends = [*accumulate(lengths, initial=at + total * NUMBER.size)]
    contents = [data[start:stop] for start, stop in pairwise(ends)]
    starts = accumulate([count for _, count in runs], initial=0)
    return [
        [(content, address, PERSISTENT) for content in contents[start : start + count]]
        for start, (address, count) in zip(starts, runs, strict=False)
    ]


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return data[at + 1 : end].decode(), end
