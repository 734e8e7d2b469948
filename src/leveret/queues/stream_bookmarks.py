"""The positions of named readers of a stream, stored under their names so that they continue there after a restart.

The acknowledged offset is stored a moment later: one write for many acks. After a crash a reader gets again what it
acknowledged in that moment. A reader that was cancelled may still acknowledge its messages: that counts until all are
settled, or until another reader takes its name.
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
        self._gone: dict[int, StreamReader] = {}  # by number: cancelled readers with unacknowledged messages
        self._timer: Cancellable | None = None

    def refuse_reader(self, name: str | None) -> None:
        """Refuse a second reader of a name, which would skip what the first has not read; and too many names."""
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
        """The stored offset of a reader; None if it has none."""
        name, book = reader.options.name, self._queue.context.stream_offsets
        if name is None or book is None:
            return None
        self._here[name] = reader
        self._gone = {number: gone for number, gone in self._gone.items() if gone.options.name != name}
        found = book.get(self._queue.name, name)
        # A power failure may have lost the end of the stream.
        return None if found is None else min(found, self._queue.tail)

    def leave(self, reader: StreamReader) -> None:
        name = reader.options.name
        if name is not None and self._here.pop(name, None) is not None:
            self.keep(reader)
            if reader.unacked:
                self._gone[reader.number] = reader

    def find_gone(self, number: int) -> StreamReader | None:
        return self._gone.get(number)

    def moved(self, reader: StreamReader) -> None:
        """The reader has settled messages."""
        if reader.options.name is None:
            return
        if not reader.unacked and self._gone.pop(reader.number, None) is not None:
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
        ) as refusal:  # no client waits for it: the reader gets these messages again
            get_log("streams").warning(
                "offset of a stream consumer cannot be stored", consumer=name, reason=refusal.text
            )

    def pinned_at(self) -> int | None:
        """The lowest offset of a pinned reader."""
        book = self._queue.context.stream_offsets
        return None if book is None else book.pinned(self._queue.name)

    def stop(self) -> None:
        """The stream is deleted."""
        if self._timer is not None:
            self._timer.cancel()
        self._here.clear()
        self._gone.clear()
        if self._queue.context.stream_offsets is not None:
            self._queue.context.stream_offsets.forget(self._queue.name)
