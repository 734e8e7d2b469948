"""Reading records in a row out of a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leveret.store.disk import ReadableDisk
from leveret.store.records import (
    HEAD_SIZE,
    MARK,
    Damage,
    Record,
    place_in_group,
    read_record,
    record_number,
    record_size,
)

BUDGET = 1 << 20  # bytes
SHORT = 16 << 10


class Gap(NamedTuple):
    """Bytes that are no record."""

    at: int
    end: int
    reason: str


def scan(data: bytes, segment: int, at: int, base: int = 0) -> Iterator[Record | Gap]:
    """All sound records of a segment from ``at`` on, and what is between them. ``base``: the offset of data[0]."""
    last = 0  # number of a record
    while at < len(data):
        try:
            record = read_record(data, at, segment, base)
        except Damage as problem:
            following = _behind(data, segment, at, base) or _next_record(data, segment, at, base, last)
            yield Gap(at, following, str(problem))
            at = following
        else:
            yield record
            last = record.number
            at = record.end


def _behind(data: bytes, segment: int, at: int, base: int) -> int | None:
    """Where the record behind a damaged one begins, if its head has a plausible size and a valid record follows.

    Most damage is in bodies. This also avoids taking bytes of a body for a record.
    """
    if len(data) - at < HEAD_SIZE or not data.startswith(MARK, at):
        return None
    end = at + record_size(data, at)
    try:
        read_record(data, end, segment, base)
    except Damage:
        return None
    return end


def _next_record(data: bytes, segment: int, at: int, base: int, last: int) -> int:
    """Where the next sound record begins; the end if there is none.

    A body may be full of marks that claim to be long records. Checking costs what they claim, so only so much is spent
    on long ones; and a record's number must follow from the last sound one, as far as the bytes between allow.
    """
    budget = BUDGET + 4 * len(data)
    begun = at
    while (at := data.find(MARK, at + 1)) >= 0 and len(data) - at >= HEAD_SIZE:
        size = record_size(data, at)
        number = record_number(data, at)
        if (last and not last < number <= last + 1 + (at - begun) // HEAD_SIZE) or (budget < 0 and size > SHORT):
            continue
        budget -= min(size, len(data) - at)
        try:
            read_record(data, at, segment, base)
        except Damage:
            continue
        return at
    return len(data)


def is_whole_group(records: Sequence[Record]) -> bool:
    places = [record.place for record in records]
    return records[-1].ends_group and places == [place_in_group(n) for n in range(len(records))]


def read_slice(disk: ReadableDisk, path: str, segment: int, offset: int, size: int) -> tuple[bytes, list[Record]]:
    """About ``size`` bytes of a segment, and the records that lie wholly in them: at least one, if one is there.

    Places within the records count from the beginning of the data. Damage if a record is invalid.
    """
    data = disk.read(path, offset, size)
    if HEAD_SIZE <= len(data) < (wanted := record_size(data, 0)) and data.startswith(MARK):
        data = disk.read(path, offset, wanted)
    records: list[Record] = []
    at = 0
    while len(data) - at >= HEAD_SIZE and at + record_size(data, at) <= len(data):
        record = read_record(data, at, segment, offset)
        records.append(record)
        at = record.end
    if not records and data:
        raise Damage(f"no record at {offset}")
    return data, records
