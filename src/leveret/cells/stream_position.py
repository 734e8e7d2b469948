"""Where a consumer of a stream of another cell continues after the link was lost.

The home cell reports the offset of the next delivery when it does not follow from the one before
(session/consumer_reports.py). In between, delivery tags and offsets grow together. So the oldest delivery that is not
settled has a known offset, and a consumer that has received nothing has the offset at which it starts.

A named consumer continues at the offset that its home cell has stored, if there is one.
"""

from __future__ import annotations

from collections import deque


class StreamPosition:
    """Outlives the links. Deliveries are tagged 1, 2, 3, ... again on each of them."""

    __slots__ = ("_marks", "_seen", "_waits", "resume_at")

    def __init__(self, waits: bool) -> None:
        """``waits``: the consumer has named an offset, which the stream may not have reached yet."""
        self._marks: deque[tuple[int, int]] = deque()  # tags, and the offsets that were reported for them
        self._seen = 0  # the client may have seen messages below this offset
        self._waits = waits
        self.resume_at: int | None = None  # None: where the arguments of the consumer say

    def report(self, tag: int, offset: int, oldest: int) -> None:
        """The delivery ``tag`` has this offset. Deliveries before ``oldest`` are settled."""
        marks = self._marks
        if marks and marks[-1][0] == tag:
            marks.pop()
        marks.append((tag, offset))
        while len(marks) > 1 and marks[1][0] <= oldest:
            marks.popleft()

    def number_seen(self, tag: int, number: int) -> int:
        """How many of these deliveries, from the first on, the client has got before."""
        if not self._seen:
            return 0
        offset = self._offset_of(tag)
        return 0 if offset is None else max(0, min(number, self._seen - offset))

    def link_lost(self, oldest: int, untaken: int) -> None:
        """``oldest``: the first delivery that is not settled; ``untaken``: the first that the client has not got."""
        offset, last_seen = self._offset_of(oldest), self._offset_of(untaken - 1)
        if last_seen is not None:
            self._seen = max(self._seen, last_seen + 1)
        if offset is not None and (self._seen or not self._waits):
            self.resume_at = offset
        self._marks.clear()

    def _offset_of(self, tag: int) -> int | None:
        found = next(((first, offset) for first, offset in reversed(self._marks) if first <= tag), None)
        return None if found is None else found[1] + tag - found[0]
