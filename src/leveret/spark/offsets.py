"""Computations with offsets: where a query starts, the size of a batch, and its division into partitions.

The offset of a query maps each queue to the next offset to read. All functions here are pure. The rules:

- A queue that is in the end of a batch but not in its start is *placed*: this batch reads nothing of it, the next batch
  starts there. A start that depends on the time (`latest`, a new partition) is thereby in the checkpoint before
  anything is read, and a restart starts at the same offset.
- A batch reads from each queue in proportion to its backlog, and at least one message of each if the limit allows.
- Keys are sorted, because Spark compares offsets as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from leveret.spark.errors import DataLoss, OptionError
from leveret.spark.options import EARLIEST, LATEST, Home, Position

Offsets = dict[str, int]
KEEP_GOING = 'to continue with the messages that are left, set .option("failOnDataLoss", "false")'


@dataclass(frozen=True, slots=True)
class Source:
    """A queue as the broker describes it: `first` is the offset of its oldest message, `next` that of the next one."""

    queue: str
    kind: str
    partition: int
    first: int
    next: int
    messages: int
    bytes: int
    home: Home | None = None  # in a cluster of several cells

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.messages if self.messages else 0.0


@dataclass(frozen=True, slots=True)
class Range:
    """The messages of a queue with start <= offset < stop."""

    queue: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def sorted_by_queue(offsets: Mapping[str, int]) -> Offsets:
    return dict(sorted(offsets.items()))


def wanted_offset(source: Source, position: Position) -> int:
    """The requested offset, or EARLIEST or LATEST."""
    if position.everywhere is not None:
        return position.everywhere
    assert position.by_queue is not None
    if source.queue not in position.by_queue:
        raise OptionError(
            f"option {position.option} has no offset for queue '{source.queue}'; add it "
            f"({EARLIEST} is the earliest offset, {LATEST} the latest)"
        )
    return position.by_queue[source.queue]


def wanted_time(source: Source, position: Position) -> int:
    if position.timestamp is not None:
        return position.timestamp
    assert position.timestamps is not None
    if source.queue not in position.timestamps:
        raise OptionError(f"option {position.option} has no time for queue '{source.queue}'; add it")
    return position.timestamps[source.queue]


def refuse_strangers(sources: Iterable[Source], position: Position) -> None:
    """Refuse offsets and times for queues that the query does not read."""
    named = set(position.by_queue or position.timestamps or ())
    strangers = sorted(named - {source.queue for source in sources})
    if strangers:
        raise OptionError(f"option {position.option} names '{strangers[0]}', which the query does not read; remove it")


def is_fixed(position: Position) -> bool:
    """Whether the position is the same at any time. The earliest offset changes only when messages are deleted."""
    if position.by_queue is not None:
        return LATEST not in position.by_queue.values()
    return position.everywhere == EARLIEST


def placed(source: Source, wanted: int, option: str, *, lossy: bool) -> int:
    """The offset to use for a requested one; `lossy`: the nearest offset if it was deleted."""
    if wanted == EARLIEST:
        return source.first
    if wanted == LATEST:
        return source.next
    if wanted < source.first and not lossy:
        raise DataLoss(
            f"option {option}: offset {wanted} of queue '{source.queue}' was deleted, the first is {source.first}; "
            f"choose a later one, or {KEEP_GOING}"
        )
    if wanted > source.next:
        raise OptionError(
            f"option {option}: offset {wanted} of queue '{source.queue}' does not exist yet, "
            f"the next is {source.next}; choose an earlier one, or latest"
        )
    return max(wanted, source.first)


def refuse_loss(source: Source, start: int) -> None:
    """Raise DataLoss if a query that stopped at `start` cannot continue there."""
    if start < source.first:
        raise DataLoss(
            f"queue '{source.queue}': offsets {start} to {source.first - 1} were removed by retention before they were "
            f"read; keep more (x-max-age, x-max-length-bytes, or the option pinned), and {KEEP_GOING}"
        )
    if start > source.next:
        raise DataLoss(
            f"queue '{source.queue}' ends at offset {source.next}, but {start} was reached before: it was deleted and "
            f"declared again; start with a new checkpoint, or {KEEP_GOING}"
        )


def vanished(queue: str, start: int) -> DataLoss:
    return DataLoss(
        f"queue '{queue}' was deleted, it was read up to offset {start}; declare it again with a new checkpoint, or "
        f"{KEEP_GOING}"
    )


def vanished_lease(queue: str, lease: int) -> DataLoss:
    return DataLoss(
        f"queue '{queue}' was deleted, it was read up to lease {lease}; declare it again with a new checkpoint, or "
        f"{KEEP_GOING}"
    )


def resumed(source: Source, start: int) -> int:
    """The offset to continue at if data loss is allowed: a queue that was declared again is read from its start."""
    return source.first if start > source.next or start < source.first else start


def shares(waiting: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `limit` among the queues in proportion to their backlogs; each gets at least one if possible."""
    busy = {queue: size for queue, size in waiting.items() if size > 0}
    if sum(busy.values()) <= limit:
        return dict(busy)
    if limit <= len(busy):
        longest = sorted(busy, key=lambda queue: (-busy[queue], queue))
        return dict.fromkeys(longest[:limit], 1)
    total = sum(busy.values())
    given = {queue: max(size * limit // total, 1) for queue, size in busy.items()}
    spare = limit - sum(given.values())
    rounded_down = [queue for queue, size in busy.items() if size * limit >= total]
    rounded_down.sort(key=lambda queue: (-(busy[queue] * limit % total), queue))
    for queue in rounded_down[: max(spare, 0)]:
        given[queue] += 1
    for _ in range(-spare):
        given[max(given, key=lambda queue: given[queue])] -= 1
    return given


def most_rows(waiting: Mapping[str, int], mean_bytes: Mapping[str, float], max_rows: int | None, max_bytes: int) -> int:
    """Convert a limit in bytes to messages, by the mean message size of each queue; at least one."""
    rows = sum(waiting.values())
    size = sum(count * mean_bytes[queue] for queue, count in waiting.items())
    by_bytes = rows if size <= max_bytes else max(int(rows * max_bytes / size), 1)
    return by_bytes if max_rows is None else min(by_bytes, max_rows)


def ranges_between(start: Mapping[str, int], end: Mapping[str, int]) -> list[Range]:
    """The ranges of a batch. Queues that are only placed, or were declared again, have none."""
    found = (Range(queue, start[queue], stop) for queue, stop in end.items() if queue in start)
    return [one for one in found if one.size > 0]


def cut(ranges: list[Range], pieces: int | None) -> list[Range]:
    """Divide into at least `pieces` ranges, if there are enough messages; the longest are divided most."""
    counts = [1] * len(ranges)
    for _ in range(min(pieces or 0, sum(one.size for one in ranges)) - len(ranges)):
        longest = max(range(len(ranges)), key=lambda at: ranges[at].size / counts[at])
        counts[longest] += 1
    return [part for one, count in zip(ranges, counts, strict=True) for part in _parts(one, count)]


def _parts(whole: Range, count: int) -> list[Range]:
    edges = [whole.start + whole.size * at // count for at in range(count + 1)]
    return [Range(whole.queue, low, high) for low, high in pairwise(edges)]
