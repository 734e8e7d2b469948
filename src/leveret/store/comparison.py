"""Whether a recovery from a checkpoint found the same as one that read the whole journal.

Both may choose another copy of the same message, and the checkpoint may remember more: the tail of a lane, or settles
of a queue that was deleted. Everything that a client could notice has to be the same.
"""

from __future__ import annotations

from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import Recovered


def differences(found: Recovered, scanned: Recovered) -> list[str]:
    """The differences between a recovery from a checkpoint and a full scan of the same files; empty if they agree."""
    problems = _lane_differences(found, scanned)
    live: dict[int, int] = {}
    for lane in found.lanes.values():
        for id_, (number, _) in lane.index.totals().items():
            live[id_] = live.get(id_, 0) + number
    for segment in found.segments:
        if segment.live != live.pop(segment.id, 0):
            problems.append(f"segment {segment.id} has another number of live messages")
    if live:
        problems.append(f"messages in segments that do not exist: {sorted(live)}")
    ids = {segment.id for segment in found.segments}
    if ids != {segment.id for segment in scanned.segments}:
        problems.append("other segments")
    if not {id_ for segment in found.segments for id_ in (*segment.needs, *segment.after)} <= ids:
        problems.append("segments that wait for one that does not exist")
    needed = {about for segment in scanned.segments for about in segment.needs}
    if not needed <= {about for segment in found.segments for about in segment.needs}:
        problems.append("settles that are needed count as obsolete")
    if found.next_segment < scanned.next_segment or found.next_number < scanned.next_number:
        problems.append("the next segment or record would reuse a number")
    if found.highest_queue < scanned.highest_queue:
        problems.append("the next queue would reuse an ID")
    if found.clean != scanned.clean and not scanned.damages:
        problems.append("the last shutdown was clean according to one of them only")
    return problems


def _lane_differences(found: Recovered, scanned: Recovered) -> list[str]:
    problems: list[str] = []
    for key in sorted(found.lanes.keys() | scanned.lanes.keys()):
        queue, number = key >> 8, key & 0xFF
        one, other = found.lanes.get(key), scanned.lanes.get(key)
        one = RecoveredLane(queue, number) if one is None else one
        other = RecoveredLane(queue, number) if other is None else other
        what = [
            name
            for name, differs in (
                ("messages", _stretches(one) != _stretches(other)),
                ("delivery counts", _counts(one) != _counts(other)),
                ("deadlines", set(one.deadlines) != set(other.deadlines)),
                ("next sequence", one.tail < other.tail),
                ("redelivered flags", found.clean and one.redelivered_below < other.redelivered_below),
            )
            if differs
        ]
        if what:
            problems.append(f"queue {queue}, lane {number}: other {', '.join(what)}")
    return problems


def _stretches(lane: RecoveredLane) -> list[tuple[int, int]]:
    """First and last of the live messages without a gap between them."""
    found: list[tuple[int, int]] = []
    for run in lane.index:
        stop = run.sequence + run.number
        if found and found[-1][1] == run.sequence:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((run.sequence, stop))
    return found


def _counts(lane: RecoveredLane) -> dict[int, int]:
    return {sequence: count for sequence, (count, _) in lane.tries.items()}
