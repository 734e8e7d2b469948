"""The segments of the journal, and which of their records are still needed.

A segment can be removed when three things are true: no message in it is live, no settle in it is needed (the segment
with the settled message is gone), and no return in it counts (see store/reclaim.py for how the last of them are copied
elsewhere). All numbers here are bytes, except ``live``; content is counted once per queue it is in.
"""

from __future__ import annotations

from collections.abc import Iterator

HALF = 0.5
SMALL = 0.25  # of the size of a segment: remains below that are worth merging
MERGE_FROM = 4  # small ones


class Segment:
    __slots__ = (
        "after",
        "content",
        "id",
        "is_damaged",
        "is_going",
        "is_pinned",
        "is_safe",
        "is_sealed",
        "is_stuck",
        "live",
        "live_content",
        "marks",
        "needs",
        "returns",
        "size",
    )

    def __init__(self, id_: int, size: int = 0) -> None:
        self.id = id_
        self.size = size  # of the file
        self.content = 0  # ever published into it
        self.live_content = 0
        self.live = 0  # messages, once per queue they are in
        self.needs: dict[int, int] = {}  # by the segment that they are about, bytes of settles in this one
        self.returns = 0  # bytes of returns that count
        self.marks = 0  # bytes of settles and returns ever written into it
        self.after: set[int] = set()  # segments with old copies of what is here: settles name us, so they go first
        self.is_sealed = False  # nothing more is written into it
        self.is_safe = False  # sealed, and all of it is on disk
        self.is_damaged = False  # or has old copies: reclaimed first
        self.is_pinned = False  # a group that waits for disk space settles messages here
        self.is_going = False  # the writer is about to remove it
        self.is_stuck = False  # reclaim failed because live messages could not be read: the file is kept

    def gain(self, number: int, size: int) -> None:
        self.live += number
        self.live_content += size

    def lose(self, number: int, size: int) -> None:
        self.live -= number
        self.live_content -= size

    @property
    def is_ripe(self) -> bool:
        """Its file can be removed."""
        return self.is_safe and self.is_dead and not self.is_going

    @property
    def kept(self) -> int:
        """About how many bytes would have to be copied."""
        living = (self.size - self.marks) * self.live_content // max(self.content, 1)
        return living + sum(self.needs.values()) + self.returns

    @property
    def is_bound(self) -> bool:
        """Copying its live records would not free it."""
        return self.is_stuck or self.is_going or bool(self.after)

    @property
    def is_dead(self) -> bool:
        return not (self.live or self.needs or self.returns or self.after or self.is_pinned)


class Segments:
    """All segments that exist, by id."""

    def __init__(self, full_size: int) -> None:
        self.full_size = full_size
        self._all: dict[int, Segment] = {}

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._all

    def __getitem__(self, id_: int) -> Segment:
        return self._all[id_]

    def add(self, segment: Segment) -> None:
        self._all[segment.id] = segment

    def unpin(self) -> None:
        for segment in self._all.values():
            segment.is_pinned = False

    def remove(self, id_: int) -> None:
        """The file is gone: settles about it are not needed any more."""
        del self._all[id_]
        for segment in self._all.values():
            segment.needs.pop(id_, None)
            segment.after.discard(id_)

    def has_dead(self) -> bool:
        """Whether there are files to remove."""
        return any(segment.is_ripe for segment in self)

    def take_dead(self) -> list[int]:
        """The segments whose files can be removed, oldest first. They are listed until the files are gone."""
        dead = [segment for segment in self if segment.is_ripe]
        for segment in dead:
            segment.is_going = True
        return sorted(segment.id for segment in dead)

    def to_reclaim(self) -> int | None:
        """The segment that frees most space for the least copying, if any is worth it."""
        sealed = [segment for segment in self if segment.is_safe and not segment.is_bound]
        best: tuple[float, int] | None = None
        for segment in sealed:
            ratio = 0.0 if segment.is_damaged else segment.kept / max(segment.size, 1)
            if ratio < HALF and (best is None or (ratio, segment.id) < best):
                best = (ratio, segment.id)
        if best is not None:
            return best[1]
        small = [segment.id for segment in sealed if segment.size < self.full_size * SMALL]
        return min(small) if len(small) >= MERGE_FROM else None
