"""Reading records in a row out of a segment."""

from __future__ import annotations

from leveret.store.disk import ReadableDisk
from leveret.store.records import HEAD_SIZE, MARK, Damage, Record, read_record, record_size


def read_slice(disk: ReadableDisk, path: str, segment: int, offset: int, size: int) -> tuple[bytes, list[Record]]:
    """About ``size`` bytes of a segment, and the records that lie wholly in them: at least one, if one is there.

    Places within the records count from the beginning of the data. Damage if a record cannot be believed.
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
