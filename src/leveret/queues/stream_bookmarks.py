"""Where the named readers of a stream stand, kept under their names so that they go on there after a restart.

What a reader has acked is kept a moment later: one write for many acks. After a crash it is given again what it acked
in that moment. A reader that leaves may still ack what it holds: until then it counts, or until another takes its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.errors import AccessRefused, PreconditionFailed, ResourceFault
from leveret.logs import get_log
from leveret.queues.stream_reader import StreamReader

if TYPE_CHECKING:
    from leveret.backlog.context import Cancellable
    from leveret.queues.stream import StreamQueue

KEEP_AFTER = 1.0  # seconds


class Bookmarks:
    __slots__ = ("_gone", "_here", "_queue", "_timer")

    def __init__(self, queue: StreamQueue) -> None:
        self._queue = queue
        self._here: dict[str, StreamReader] = {}
        self._gone: dict[int, StreamReader] = {}  # by number: with messages in their hands
        self._timer: Cancellable | None = None

    def refuse_reader(self, name: str | None) -> None:
        """Two readers that move one bookmark would skip what the other has not read; and names are bounded."""
        if name in self._here:
            queue = self._queue
            raise AccessRefused(
                f"consumer '{name}' of stream '{queue.name}' in vhost '{queue.vhost}' in exclusive use: cancel it, or "
                "take another x-stream-consumer"
            )
        book = self._queue.context.stream_offsets
        if name is not None and book is not None:
            book.refuse_too_many(self._queue.name, name)

    def enter(self, reader: StreamReader) -> int | None:
        """Where it went on in an earlier life; None if it never was here."""
        name, book = reader.options.name, self._queue.context.stream_offsets
        if name is None or book is None:
            return None
        self._here[name] = reader
        self._gone = {number: gone for number, gone in self._gone.items() if gone.options.name != name}
        found = book.get(self._queue.name, name)
        return None if found is None else min(found, self._queue.tail)  # a power cut may have taken the end

    def leave(self, reader: StreamReader) -> None:
        name = reader.options.name
        if name is not None and self._here.pop(name, None) is not None:
            self.keep(reader)
            if reader.in_hands:
                self._gone[reader.number] = reader

    def find_gone(self, number: int) -> StreamReader | None:
        return self._gone.get(number)

    def moved(self, reader: StreamReader) -> None:
        """It has settled something."""
        if reader.options.name is None:
            return
        if not reader.in_hands and self._gone.pop(reader.number, None) is not None:
            self.keep(reader)
        elif self._timer is None:
            context = self._queue.context
            self._timer = context.schedule(context.now() + KEEP_AFTER, self.keep_all)

    def keep_all(self) -> None:
        self._timer = None
        for reader in (*self._here.values(), *self._gone.values()):
            self.keep(reader)

    def keep(self, reader: StreamReader) -> None:
        queue, name, safe = self._queue, reader.options.name, reader.safe
        book = queue.context.stream_offsets
        if name is None or book is None or safe is None or safe == reader.stored or not queue.alive:
            return
        try:
            book.put(queue.name, name, safe, reader.options.pinned)
            reader.stored = safe
        except (
            ResourceFault,
            PreconditionFailed,
        ) as refusal:  # no request waits for it: the reader gets these again
            get_log("streams").warning(
                "offset of a stream consumer cannot be stored", consumer=name, reason=refusal.text
            )

    def pinned_at(self) -> int | None:
        """The lowest offset that a pinned reader still needs."""
        book = self._queue.context.stream_offsets
        return None if book is None else book.pinned(self._queue.name)

    def stop(self) -> None:
        """The stream is deleted, and its bookmarks with it."""
        if self._timer is not None:
            self._timer.cancel()
        self._here.clear()
        self._gone.clear()
        if self._queue.context.stream_offsets is not None:
            self._queue.context.stream_offsets.forget(self._queue.name)
