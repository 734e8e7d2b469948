"""The files of streams in a data directory that follows the journal of another node.

The leader writes the files of its streams after the journal, and settles there what is in them; then reclaim removes
the segments. A member that follows gets the journal only, so it writes the files itself:

- The offset of a message is its sequence in the journal less one, and its time is that of its record. So the files of
  all members have the same messages, although not in the same segments.
- A batch has whole records and whole groups. Everything in it was granted, or will be: nothing is taken back.
- Applying a record again has no effect: what the files have is skipped by its offset. This includes the copies that
  reclaim makes.
- ``sync`` comes before a note (store/replica_note.py): whatever a crash takes from the files lies behind the note, and
  is applied again. The note of a leader is no further than its own stream files (replication/journal_replicator.py).
- The leader applies retention, and sends the first offset of the stream. Only segments that are wholly below it are
  removed: the segments here begin at other offsets, so some messages may stay for longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leveret.errors import StoreError
from leveret.logs import get_log
from leveret.store.definitions import Change, Drop, Put, QueueRow
from leveret.store.disk import Disk
from leveret.store.records import PUBLISH, Damage, Record, read_places, read_publish
from leveret.store.scan import is_whole_group, scan
from leveret.store.stream_files import SEGMENT_BYTES, StreamFiles, StreamRun, left_streams
from leveret.store.stream_log import LANE, microseconds
from leveret.wire.fields import decode_table

KIND, STREAM = "x-queue-type", b"stream"
SEGMENT_ARGUMENT = "x-stream-max-segment-size-bytes"


class ReplicaStreams:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._rows: dict[int, QueueRow] = {}  # of streams, by id
        self._open: dict[int, StreamFiles] = {}  # those that were written or trimmed
        self._unsynced: set[int] = set()

    def open(self, queues: Iterable[QueueRow]) -> None:
        """Find the streams, and remove the files of deleted ones that a crash left behind."""
        self._rows = {row.id: row for row in queues if _is_stream(row)}
        for id_ in left_streams(self._disk):
            if id_ not in self._rows:
                get_log("streams").info("removing files of a deleted stream", stream=id_)
                StreamFiles(self._disk, id_, SEGMENT_BYTES).remove()

    def change(self, changes: Sequence[Change]) -> None:
        """These changes of the definitions are committed."""
        for change in changes:
            if isinstance(change, Put):
                if isinstance(change.row, QueueRow) and _is_stream(change.row):
                    self._rows[change.row.id] = change.row
            elif change.kind is QueueRow and self._rows.pop(int(change.key[0]), None) is not None:
                self._delete(change)

    def _delete(self, change: Drop) -> None:
        id_ = int(change.key[0])
        files = self._open.pop(id_, None) or StreamFiles(self._disk, id_, SEGMENT_BYTES)
        self._unsynced.discard(id_)
        files.remove()

    def write(self, writes: Iterable[tuple[int, int, bytes | memoryview]]) -> None:
        """Append the messages of streams in these writes of one batch: segment, offset, data."""
        if not self._rows:
            return
        runs: dict[int, list[StreamRun]] = {}
        for segment, offset, data in writes:
            for id_, run in self._runs(segment, offset, bytes(data)):
                runs.setdefault(id_, []).append(run)
        for id_, own in runs.items():
            self._files(id_).append(own)
            self._unsynced.add(id_)

    def _runs(self, segment: int, offset: int, data: bytes) -> Iterator[tuple[int, StreamRun]]:
        for record in _records(segment, offset, data):
            if record.kind != PUBLISH or not any(place.queue in self._rows for place in read_places(data, record)):
                continue
            published = read_publish(data, record)
            time = microseconds(published.time)
            for place in published.places:
                if place.queue in self._rows and place.lane == LANE:
                    messages = list(published.messages(data, published.members(place), 0.0))
                    yield place.queue, StreamRun(place.sequence - 1, time, messages)

    def trim(self, stream: int, first: int) -> None:
        """Remove the segments of which all messages are below this offset."""
        if stream in self._rows:
            self._files(stream).trim(max_bytes=0, before=None, keep_from=first)

    def _files(self, id_: int) -> StreamFiles:
        files = self._open.get(id_)
        if files is None:
            files = StreamFiles(self._disk, id_, _segment_bytes(self._rows[id_]))
            files.open()
            self._open[id_] = files
        return files

    def sync(self) -> None:
        """Everything that was written survives a power cut once this returns."""
        while self._unsynced:
            id_ = next(iter(self._unsynced))
            self._open[id_].sync()
            self._unsynced.discard(id_)

    def close(self) -> None:
        """Sync and close all files, with their indexes: a leader opens them without reading them."""
        self._unsynced.clear()
        try:
            while self._open:
                self._open.popitem()[1].close()
        finally:
            for files in self._open.values():  # one of them failed: the others are read again from the note on
                files.abandon()
            self._open.clear()


def _is_stream(row: QueueRow) -> bool:
    return (
        STREAM in row.arguments and decode_table(row.arguments, 0, len(row.arguments))[0].get(KIND) == STREAM.decode()
    )


def _segment_bytes(row: QueueRow) -> int:
    value = decode_table(row.arguments, 0, len(row.arguments))[0].get(SEGMENT_ARGUMENT)
    return value if isinstance(value, int) else SEGMENT_BYTES


def _records(segment: int, offset: int, data: bytes) -> Iterator[Record]:
    """The records of one write. StoreError if it is anything else than whole groups: the leader never writes that."""
    group: list[Record] = []
    try:
        for item in scan(data, segment, 0, offset):
            if not isinstance(item, Record):
                raise Damage(item.reason)
            group.append(item)
            if item.ends_group:
                if not is_whole_group(group):
                    raise Damage("a group of which a part is missing")
                yield from group
                group = []
        if group:
            raise Damage("a group without its end")
    except Damage as problem:
        raise StoreError(
            f"the replicated log has an invalid record at {offset} of segment {segment} ({problem}): remove the data "
            "directory, the node will copy it again"
        ) from problem
