"""The files of one stream: appended at the end, removed from the front, read anywhere.

Theory of operation. The journal confirms what is published to a stream; these files are a copy that is written after
it. So nothing here is durable before ``sync``, and after a crash the journal passes again what was not synced: what is
there already is skipped by its offset. See store/stream_chunk.py for the bytes, store/stream_segments.py for the
position index, store/stream_scan.py for what a crash may leave and what becomes of it.

    streams/7/00000000000000000000.seg    sealed: synced, and never changed again
              00000000000000000000.idx    its position index; if it is missing, the segment is read
              00000000000001048576.seg    the one that is written

Every run of the broker begins a new segment, with its first append. A segment is synced before the next one is begun,
so only the last one can be incomplete.

One worker opens, appends, syncs, trims and closes. Any number of others may read at the same time: they see what
``next`` and the sizes of the segments say, which are set after the bytes are written. Nothing is locked. A segment that
is removed under a reader raises StreamGone there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from errno import EIO
from operator import attrgetter

from leveret.logs import get_log
from leveret.message import Address
from leveret.store.disk import Disk
from leveret.store.stream_chunk import (
    SEGMENT_HEAD,
    AddressKey,
    ChunkDraft,
    ChunkHead,
    StreamChunk,
    StreamRun,
    drafts,
    segment_head,
)
from leveret.store.stream_damage import StreamDamage
from leveret.store.stream_recovery import keep_index, open_segments
from leveret.store.stream_scan import WINDOW, SegmentWalk, StreamGone
from leveret.store.stream_segments import (
    FOLDER,
    INDEX_NAME,
    SEGMENT_NAME,
    StreamSegment,
    index_path,
    stream_folder,
)

__all__ = ["StreamChunk", "StreamFiles", "StreamGone", "StreamRun", "left_streams"]

WRITE = 8 << 20  # bytes that are gathered before they are written
SHORT_READ = 64 << 10
NO_LIMIT = 1 << 62
SEGMENT_BYTES = 64 << 20  # of a segment, unless the stream has an argument for it
MOST_RESUMED = 64  # places at which a reader stopped, that are remembered

_first_of = attrgetter("first")


def left_streams(disk: Disk) -> list[int]:
    """Ids of all streams that have files: those of no queue were being removed when the broker ended."""
    return sorted(int(name) for name in disk.folders(FOLDER) if name.isascii() and name.isdecimal())


class StreamFiles:
    """``first`` is the offset of the oldest message, ``next`` that of the next one; ``bytes`` is the size on disk."""

    def __init__(self, disk: Disk, id_: int, segment_bytes: int) -> None:
        self.id = id_
        self.first = 0
        self.next = 0
        self.bytes = 0
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._segments: tuple[StreamSegment, ...] = ()  # by first offset; replaced, never changed
        self._doomed: list[StreamSegment] = []  # out of retention, and perhaps still on disk
        self._current: StreamSegment | None = None  # the last one, if it is open for appending
        self._handle = 0
        self._synced = 0  # bytes of the current one
        self._synced_next = 0
        self._is_torn = False  # an append failed: there may be a part of it behind the last whole chunk
        self._is_unsure = False  # a sync failed: what was not synced before may or may not be on disk
        self._resume: dict[int, tuple[StreamSegment, int]] = {}  # by offset: where the chunk with it begins
        self._damage = StreamDamage(disk)
        self._log = get_log("store")

    @property
    def segments(self) -> int:
        """How many files it has."""
        return len(self._segments)

    # ---- the beginning

    def open(self) -> None:
        """Read the files of previous runs. An incomplete end is truncated, damage quarantined and skipped."""
        segments = self._segments = tuple(open_segments(self._disk, self.id, self._damage))
        if segments:
            self.next = max(segment.next for segment in segments)
            self.first = segments[0].first
            self.bytes = sum([segment.size for segment in segments])

    # ---- messages in

    def append(self, runs: Sequence[StreamRun]) -> None:
        """Write what lies at ``next`` or behind it. When this fails, ``next`` shows how far it came."""
        self._refuse_unsure()
        if self._is_torn:
            self.rewind()
        segment, at = self._current, 0 if self._current is None else self._current.size
        buffers: list[bytes] = []
        written: list[tuple[int, ChunkDraft]] = []
        for draft in drafts(runs, self.next):
            if segment is None:
                segment = self._begin(draft.first)
                at = segment.size
            head, body = draft.sealed(self.id, segment.first, at, self._synced)
            buffers += (head, body)
            written.append((at, draft))
            at += len(head) + len(body)
            if at >= self._segment_bytes or at - segment.size >= WRITE:
                self._write(segment, buffers, written, at)
                buffers, written = [], []
                if at >= self._segment_bytes:
                    self._seal(segment)
                    segment = None
        if segment is not None and buffers:
            self._write(segment, buffers, written, at)

    def _write(
        self, segment: StreamSegment, buffers: list[bytes], written: list[tuple[int, ChunkDraft]], end: int
    ) -> None:
        self._is_torn = True
        self._disk.append(self._handle, buffers)
        self._is_torn = False
        for at, draft in written:
            segment.index.add(at, draft.first, draft.latest)
        self.bytes += end - segment.size
        segment.next = written[-1][1].next
        segment.size = end
        self.next = segment.next
        self.first = self._segments[0].first

    def _begin(self, first: int) -> StreamSegment:
        """A new segment is whole and known on disk before the first chunk goes into it."""
        disk, segment, before = self._disk, StreamSegment(self.id, first), self._segments
        if before and before[-1].first == first:  # nothing in it was sound
            disk.remove(before[-1].path)
            self.bytes -= before[-1].size
            before = before[:-1]
        handle = disk.create(segment.path)
        try:
            disk.append(handle, [segment_head(self.id, first)])
            disk.sync(handle)
            for folder in (stream_folder(self.id), *(() if before else (FOLDER, "."))):
                disk.sync_folder(folder)
        except OSError:
            disk.close(handle)
            disk.remove(segment.path)
            raise
        segment.size = self._synced = SEGMENT_HEAD.size
        self._synced_next = self.next
        self.bytes += segment.size
        self._handle, self._current = handle, segment
        self._segments = (*before, segment)
        return segment

    def _seal(self, segment: StreamSegment) -> None:
        self._sync(segment)
        keep_index(self._disk, segment)
        self._let_go()

    def _let_go(self) -> None:
        self._current = None
        self._disk.close(self._handle)

    def sync(self) -> int:
        """All below the result survives a power cut."""
        self._refuse_unsure()
        if self._current is not None:
            self._sync(self._current)
        return self.next

    def _sync(self, segment: StreamSegment) -> None:
        if self._synced < segment.size:
            self._is_unsure = True
            try:
                self._disk.sync(self._handle)
            except OSError as problem:
                raise OSError(EIO, f"sync failed: {problem.strerror or problem}", segment.path) from problem
            self._is_unsure = False
            self._synced, self._synced_next = segment.size, segment.next

    def _refuse_unsure(self) -> None:
        if self._is_unsure:
            raise OSError(EIO, "an earlier sync failed: rewind first", stream_folder(self.id))

    def rewind(self) -> None:
        """After a failed append: cut what it may have left behind the last whole chunk, to append again.

        After a failed sync: cut what was not synced before, and go on in a new file. ``next`` falls to what the last
        good sync said; all from there on must be appended again.
        """
        segment = self._current
        if segment is not None and self._is_unsure:
            self._disk.truncate(segment.path, self._synced)
            self._let_go()
            self.bytes -= segment.size - self._synced
            segment.size = self._synced  # its index may go further: nothing is found there, as in a segment that ends
            self.next = segment.next = max(self._synced_next, segment.first)
            self._resume.clear()
        elif segment is not None:
            self._disk.truncate(segment.path, segment.size)
        self._is_torn = self._is_unsure = False

    # ---- messages out

    def read(self, offset: int, stop: int, most_bytes: int) -> list[StreamRun]:
        """Messages from the first one at or behind ``offset`` on, of so many bytes or fewer: at least one of them,
        unless there is none below ``stop``."""
        known: dict[AddressKey, Address] = {}
        found: list[StreamRun] = []
        ahead = min(max(most_bytes, SHORT_READ), WINDOW)
        try:
            for segment, head, chunk in self._walk(max(offset, self.first), stop, ahead, most_bytes):
                end = chunk.through(most_bytes)
                found += chunk.within(chunk.first, end).runs(known)
                self._remember(end, segment, head.at if end < head.next else head.end)
        except StreamGone:
            if not found and self.first <= offset:
                raise
            return found or self.read(self.first, stop, most_bytes)
        return found

    def chunks(self, offset: int, stop: int) -> Iterator[StreamChunk]:
        """All messages with ``offset`` <= their offset < ``stop``, in columns.

        StreamGone if retention has taken some of them, before or while they are read.
        """
        for _, _, chunk in self._walk(offset, stop, WINDOW, NO_LIMIT):
            yield chunk

    def offset_at(self, time: int) -> int:
        """The first offset whose time is ``time`` (microseconds since 1970) or later; ``next`` if there is none."""
        upto = self.next
        for segment in self._segments:
            at = segment.index.position_since(time)
            if at is None:
                continue
            walk = SegmentWalk(self._disk, segment, ahead=WINDOW, on_gap=self._damage.found)
            try:
                for head in walk.heads(at):
                    chunk = walk.chunk(head) if head.latest >= time else None
                    found = None if chunk is None else chunk.first_since(time)
                    if found is not None:
                        return found
            except StreamGone:
                continue
        return upto

    def _walk(
        self, offset: int, stop: int, ahead: int, budget: int
    ) -> Iterator[tuple[StreamSegment, ChunkHead, StreamChunk]]:
        """The chunks from ``offset`` on, cut to [offset, stop), and the heads of the uncut ones.

        ``budget``: as many chunks as have so many bytes, and the first one in any case.
        """
        segment, at = self._place_of(offset)
        begun = offset
        while segment is not None and max(offset, segment.first) < stop:
            walk = SegmentWalk(self._disk, segment, ahead=ahead, on_gap=self._damage.found)
            for head in walk.heads(at):
                if head.next <= offset:
                    continue
                size = head.end - head.at
                if head.first >= stop or (offset > begun and size > budget):
                    return
                chunk = walk.chunk(head)
                if chunk is not None:
                    yield segment, head, chunk.within(offset, stop)
                    offset = head.next
                    budget -= size
            segment, at = self._behind(segment), SEGMENT_HEAD.size
            if offset < min(stop, self.first):
                raise StreamGone(f"stream {self.id} begins at offset {self.first} now")

    def _place_of(self, offset: int) -> tuple[StreamSegment | None, int]:
        """Where to begin reading: the segment, and the position in it."""
        segments = self._segments
        if offset < self.first:
            raise StreamGone(f"stream {self.id} begins at offset {self.first}, offset {offset} is gone")
        if not segments:
            return None, 0
        resumed = self._resume.get(offset)
        if resumed is not None:
            return resumed
        segment = segments[max(bisect_right(segments, offset, key=_first_of) - 1, 0)]
        return segment, segment.index.position_of(offset)

    def _behind(self, segment: StreamSegment) -> StreamSegment | None:
        segments = self._segments
        place = bisect_right(segments, segment.first, key=_first_of)
        return segments[place] if place < len(segments) else None

    def _remember(self, offset: int, segment: StreamSegment, at: int) -> None:
        """A reader goes on where it stopped."""
        if len(self._resume) >= MOST_RESUMED:
            self._resume.clear()
        self._resume[offset] = segment, at

    # ---- the end

    def trim(self, *, max_bytes: int | None, before: int | None, keep_from: int | None) -> int:
        """Remove sealed segments from the front: as long as there are more than ``max_bytes``, or all of it came before
        the time ``before`` (microseconds since 1970); but nothing at ``keep_from`` or behind it, and never the last.

        The new ``first``.
        """
        for segment, following in zip(self._segments, self._segments[1:], strict=False):
            is_old = before is not None and segment.index.latest < before
            is_much = max_bytes is not None and self.bytes > max_bytes
            if not (is_old or is_much) or (keep_from is not None and following.first > keep_from):
                break
            self._doomed.append(segment)
            self._segments = self._segments[1:]
            self.first = following.first
            self.bytes -= segment.size
        self._remove_doomed()
        return self.first

    def _remove_doomed(self) -> None:
        """One after the other, so that a power cut leaves no hole. What cannot be removed is tried again later."""
        try:
            while self._doomed:
                segment = self._doomed[0]
                self._disk.remove(segment.path)
                self._disk.sync_folder(stream_folder(self.id))
                self._disk.remove(index_path(self.id, segment.first))
                del self._doomed[0]
        except OSError as problem:
            self._log.warning("old stream segment cannot be removed", stream=self.id, reason=str(problem))

    def remove(self) -> None:
        """The stream is deleted."""
        if self._current is not None:
            self._let_go()
        self.first = self.next
        self._segments, self._doomed, self.bytes = (), [], 0
        self._is_torn = self._is_unsure = False
        self._resume.clear()
        folder = stream_folder(self.id)
        names = self._disk.names(folder)
        if names:
            for name in names:
                if SEGMENT_NAME.fullmatch(name) or INDEX_NAME.fullmatch(name):
                    self._disk.remove(f"{folder}/{name}")
            self._disk.remove(folder)
            self._disk.sync_folder(FOLDER)

    def close(self) -> None:
        """Sync and close. After a failed sync only close: the next start reads what is there."""
        segment = self._current
        if segment is None:
            return
        try:
            if not self._is_unsure:
                if self._is_torn:
                    self.rewind()
                self._sync(segment)
                keep_index(self._disk, segment)
        finally:
            self._let_go()

    def abandon(self) -> None:
        """Close without a sync: the next start reads what is there."""
        if self._current is not None:
            self._let_go()
