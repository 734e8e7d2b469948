"""Opens the segments of a stream that previous runs wrote.

A segment with a valid index was sealed, and is not read. Any other is read completely (store/stream_scan.py), and then
gets its index. The last one may end in an incomplete write, which is truncated. Recovery is idempotent.
"""

from __future__ import annotations

from leveret.logs import get_log
from leveret.store.disk import Disk
from leveret.store.records import Damage
from leveret.store.stream_damage import StreamDamage
from leveret.store.stream_scan import scan
from leveret.store.stream_segments import (
    INDEX_NAME,
    SEGMENT_NAME,
    StreamSegment,
    index_path,
    read_index,
    stream_folder,
    write_index,
)


def open_segments(disk: Disk, stream: int, damage: StreamDamage) -> list[StreamSegment]:
    """In order. Other files are left alone."""
    names = disk.names(stream_folder(stream))
    firsts = sorted(int(match[1]) for name in names if (match := SEGMENT_NAME.fullmatch(name)))
    indexed = {int(match[1]) for name in names if (match := INDEX_NAME.fullmatch(name))}
    for first in indexed.difference(firsts):
        disk.remove(index_path(stream, first))  # its segment was removed
    segments = [StreamSegment(stream, first) for first in firsts]
    for segment in segments:
        if segment.first not in indexed or not _is_known(disk, segment):
            _repair(disk, segment, damage, is_last=segment is segments[-1])
    return segments


def _is_known(disk: Disk, segment: StreamSegment) -> bool:
    """Whether the index is right; then it is taken."""
    path = index_path(segment.stream, segment.first)
    segment.size = disk.size(segment.path)
    try:
        read_index(disk.read(path, 0, disk.size(path)), segment)
    except (Damage, OSError) as problem:
        get_log("store").info("stream index rebuilt", path=path, reason=str(problem))
        return False
    return True


def _repair(disk: Disk, segment: StreamSegment, damage: StreamDamage, *, is_last: bool) -> None:
    """The data may have come from the system's cache, so it is synced before anything is built on it."""
    size = disk.size(segment.path)
    gaps, torn = scan(disk, segment, size, may_be_torn=is_last)
    for gap in gaps:
        damage.found(segment, gap)
    if torn is not None:
        facts = {"path": segment.path, "offset": segment.size, "bytes": size - segment.size, "reason": torn}
        get_log("store").info("incomplete write at the end of a stream truncated", **facts)
    if is_last:
        disk.truncate(segment.path, segment.size)
        disk.sync_folder(stream_folder(segment.stream))
    if len(segment.index):
        keep_index(disk, segment)


def keep_index(disk: Disk, segment: StreamSegment) -> None:
    """Beside a segment that will not change any more. It only saves time, so it may fail."""
    try:
        write_index(disk, segment)
    except OSError as problem:
        get_log("store").warning("stream index cannot be written", path=segment.path, reason=str(problem))
