"""Damaged bytes of a stream: reported once, and copied to quarantine."""

from __future__ import annotations

from leveret.logs import get_log
from leveret.store.disk import Disk
from leveret.store.scan import Gap
from leveret.store.stream_scan import StreamGone, read_around
from leveret.store.stream_segments import StreamSegment

FOLDER = "quarantine"
MOST_NOISE = 20  # damages of a stream that are logged one by one


class StreamDamage:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._told: set[tuple[int, int]] = set()
        self._log = get_log("store")

    def __len__(self) -> int:
        return len(self._told)

    def found(self, segment: StreamSegment, gap: Gap) -> None:
        if (segment.first, gap.at) in self._told:
            return
        self._told.add((segment.first, gap.at))
        if len(self._told) <= MOST_NOISE:
            facts = {"path": segment.path, "offset": gap.at, "bytes": gap.end - gap.at, "reason": gap.reason}
            self._log.error("stream is damaged, unreadable bytes moved to quarantine", **facts)
        path = f"{FOLDER}/stream-{segment.stream}-{segment.first:020d}-{gap.at}.damaged"
        try:
            handle = self._disk.create(path)
            try:
                self._disk.append(handle, [read_around(self._disk, segment.path, gap.at, gap.end - gap.at)])
            finally:
                self._disk.close(handle)
        except FileExistsError:
            pass  # by a previous run
        except (OSError, StreamGone) as problem:  # the disk is full, or retention was faster: continue
            self._log.warning("damaged bytes cannot be copied to quarantine", path=path, reason=str(problem))
