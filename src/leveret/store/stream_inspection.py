"""Reads and checks the files of a stream that no broker uses. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from leveret.message import Address, Message
from leveret.store.disk import ReadableDisk
from leveret.store.records import Damage
from leveret.store.stream_chunk import SEGMENT_HEAD, AddressKey
from leveret.store.stream_scan import WINDOW, SegmentWalk, scan
from leveret.store.stream_segments import SEGMENT_NAME, StreamSegment, index_path, read_index, stream_folder


class StreamDamaged(NamedTuple):
    path: str
    offset: int
    size: int
    reason: str
    is_tail: bool  # an incomplete write at the end of the last segment


class StreamMessage(NamedTuple):
    offset: int
    message: Message
    time: float  # of arrival, in seconds since 1970


class LeftStream:
    """All segments are read and checked at once; ``next`` is the offset behind the last message."""

    def __init__(self, disk: ReadableDisk, id_: int) -> None:
        self._disk = disk
        names = disk.names(stream_folder(id_))
        firsts = sorted(int(match[1]) for name in names if (match := SEGMENT_NAME.fullmatch(name)))
        self._segments = [StreamSegment(id_, first) for first in firsts]
        self.damages: list[StreamDamaged] = []
        self.messages = 0
        self.next = 0
        for segment in self._segments:
            self._scan(segment, is_last=segment is self._segments[-1])
        self.bytes = sum([segment.size for segment in self._segments])

    def _scan(self, segment: StreamSegment, *, is_last: bool) -> None:
        size = self._disk.size(segment.path)
        gaps, torn = scan(self._disk, segment, size, may_be_torn=is_last and not self._is_sealed(segment, size))
        for gap in gaps:
            self.damages.append(StreamDamaged(segment.path, gap.at, gap.end - gap.at, gap.reason, False))
        if torn is not None:
            self.damages.append(StreamDamaged(segment.path, segment.size, size - segment.size, torn, True))
        walk = SegmentWalk(self._disk, segment, ahead=WINDOW)
        lost = {gap.at for gap in gaps}
        self.messages += sum([head.number for head in walk.heads(SEGMENT_HEAD.size) if head.at not in lost])
        self.next = max(self.next, segment.next)

    def _is_sealed(self, segment: StreamSegment, size: int) -> bool:
        """Whether its index shows that it was written to the end."""
        path = index_path(segment.stream, segment.first)
        sealed = StreamSegment(segment.stream, segment.first)
        sealed.size = size
        try:
            read_index(self._disk.read(path, 0, self._disk.size(path)), sealed)
        except (Damage, OSError):
            return False
        return True

    def read(self) -> Iterator[StreamMessage]:
        """In order; what is damaged is left out."""
        known: dict[AddressKey, Address] = {}
        for segment in self._segments:
            walk = SegmentWalk(self._disk, segment, ahead=WINDOW)
            for head in walk.heads(SEGMENT_HEAD.size):
                chunk = walk.chunk(head)
                for first, time, messages in chunk.runs(known) if chunk is not None else ():
                    for offset, message in enumerate(messages, first):
                        yield StreamMessage(offset, message, time / 1_000_000)
