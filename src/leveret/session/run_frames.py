"""Runs of messages on a link between cells, each as one frame.  Hot path.

Both ends are brokers, so a message travels as it is stored: its content keeps the channel number and the frame size of
the publisher, which are part of its address. One frame holds consecutive messages with any addresses.

    | 9 | channel | size | first | flags | addresses | messages |                            | 0xCE |
      1   2         4      8       1       2           4
                         then:
                         addresses x | channel 2 | frame size 4 | length 2 | exchange and routing key |
                         messages  x | length 4 |
                         messages  x | number of its address 2 |      if there are several
                         the contents

``first`` is the delivery tag of the first message; publishes are counted instead. ``flags`` are Traits of all messages
of a publish, or REDELIVERED. A larger message is sent in ordinary frames. A frame with the flags UNSEEN has neither
addresses nor contents: it returns deliveries, from ``first`` on, that no consumer has seen.
"""

from __future__ import annotations

from itertools import repeat
from struct import Struct, error, pack, unpack_from
from typing import NamedTuple

from leveret.errors import FrameError
from leveret.message import PERSISTENT, TRANSIENT, Address, Message, Traits
from leveret.wire.constants import END_BYTE
from leveret.wire.fields import decode_short
from leveret.wire.frames import ENVELOPE

RUN = 9  # the type of the frame
MOST_RUN = 1 << 20  # bytes of contents
LARGEST_RUN = 64 << 20  # bytes of a frame, with its addresses
MOST_KNOWN = 1_024  # addresses that one channel remembers
PLAIN, DURABLE, OTHER = 0, 1, 2  # traits of a publish; OTHER: decided by the properties of each message
REDELIVERED = 1
UNSEEN = 3

HEAD = Struct(">QBHI")
ADDRESS = Struct(">HIH")
KNOWN_TRAITS = {PLAIN: TRANSIENT, DURABLE: PERSISTENT}


class DecodedRun(NamedTuple):
    first: int
    flags: int
    messages: list[Message]


def run_frame(channel: int, first: int, flags: int, run: list[Message]) -> bytes:
    contents = [message[0] for message in run]
    number = len(contents)
    address = run[0][1]
    table = _encode_address(address)
    numbers = b""
    places: dict[Address, int] = {address: 0}
    if number > 1:
        addresses = [message[1] for message in run]
        places = dict.fromkeys(addresses, 0)
        if len(places) > 1:
            for place, each in enumerate(places):
                places[each] = place
            table = b"".join([_encode_address(each) for each in places])
            numbers = pack(f">{number}H", *[places[each] for each in addresses])
    lengths = pack(f">{number}I", *map(len, contents))
    payload = (HEAD.pack(first, flags, len(places), number), table, lengths, numbers, *contents, END_BYTE)
    size = sum(map(len, payload)) - 1
    return b"".join((ENVELOPE.pack(RUN, channel, size), *payload))


def unseen_frame(channel: int, first: int, number: int) -> bytes:
    return ENVELOPE.pack(RUN, channel, HEAD.size) + HEAD.pack(first, UNSEEN, 0, number) + END_BYTE


def unseen_tags(frame: bytes) -> range | None:
    """The deliveries that the frame returns. None: it is a run of messages."""
    if len(frame) != ENVELOPE.size + HEAD.size + 1:
        return None
    first, flags, _, number = HEAD.unpack_from(frame, ENVELOPE.size)
    return range(first, first + number) if flags == UNSEEN else None


def _encode_address(address: Address) -> bytes:
    names = address.tail[1:-1]
    return ADDRESS.pack(address.channel, address.frame_max, len(names)) + names


def traits_flags(run: list[Message]) -> int:
    first = run[0][2]
    flags = PLAIN if first is TRANSIENT else DURABLE if first is PERSISTENT else OTHER
    if flags != OTHER and len(run) > 1 and any(message[2] is not first for message in run):
        return OTHER
    return flags


def decode_run(data: bytes, pos: int, stop: int, traits: Traits | None, known: dict[bytes, Address]) -> DecodedRun:
    """The frame at pos..stop, whose envelope was checked. ``traits`` None: those of its flags."""
    try:
        first, flags, different, number = HEAD.unpack_from(data, pos + 7)
        addresses, at = _decode_addresses(data, pos + 7 + HEAD.size, different, known)
        lengths = unpack_from(f">{number}I", data, at)
        at += 4 * number
        numbers: tuple[int, ...] = ()
        if different > 1:
            numbers = unpack_from(f">{number}H", data, at)
            at += 2 * number
        if not number or at + sum(lengths) != stop - 1:
            raise FrameError("the lengths of a run on a link do not fit its frame")
        used = KNOWN_TRAITS.get(flags, TRANSIENT) if traits is None else traits
        messages: list[Message] = []
        add = messages.append
        sources = repeat(addresses[0]) if different == 1 else [addresses[each] for each in numbers]
        for length, address in zip(lengths, sources, strict=False):
            end = at + length
            add((data[at:end], address, used))
            at = end
    except (error, IndexError) as problem:
        raise FrameError(f"malformed run on a link: {problem}") from problem
    return DecodedRun(first, flags, messages)


def _decode_addresses(data: bytes, at: int, number: int, known: dict[bytes, Address]) -> tuple[list[Address], int]:
    found = []
    for _ in range(number):
        channel, frame_max, length = ADDRESS.unpack_from(data, at)
        end = at + ADDRESS.size + length
        key = data[at:end]
        address = known.get(key)
        if address is None:
            exchange, middle = decode_short(key, ADDRESS.size, len(key))
            routing_key, _ = decode_short(key, middle, len(key))
            if len(known) >= MOST_KNOWN:
                known.clear()
            address = known[key] = Address(exchange, routing_key, channel, frame_max)
        found.append(address)
        at = end
    return found, at
