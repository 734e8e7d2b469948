"""Appends that wait for their acks before they are written.  Hot path.

Theory of operation. A message that is settled before it is drafted is never written: no record, no sync, no settle
entry, no hand-over to the writer and back, and its confirm leaves with the tick that handles the ack. So an append
waits for a moment if the messages of its lane are usually settled sooner than the disk syncs. That is learnt per lane,
in ``LaneLog.quick``: a settle that came before the grant raises it, a wait in vain lowers it twice as fast. A lane
without quick consumers therefore never waits, and one whose consumers become slow waits a few times in vain.

Appends of any lane wait while nothing waits for a receipt: no publisher for a confirm, no consumer of a stream. They
wait for up to ``PERIODS`` periods; what is not settled then shares one write, one sync and two hand-overs.

There is one timer for all that waits, not one per message. It is set for ``WAIT`` seconds when the first append waits;
when it fires, appends that were there when it was set must be settled. If one is not, everything is written; if all
are, the timer is set again for those that arrived since. So an append that something waits for waits for one to two
periods at most. Nothing is confirmed earlier than before: what is confirmed is synced, or was settled.
"""

from __future__ import annotations

from collections.abc import Sequence

from leveret.store.batch import Append, Unit
from leveret.store.lane_log import MOST_QUICK, LaneLog

WAIT = 0.003  # seconds; the event loop counts in milliseconds, and an ack of ten at 5,000 a second takes two
PERIODS = 3  # that appends wait if nothing waits for their receipts
MOST_WAITING = 1024  # appends, and settles that arrived meanwhile: drafting them must not stall the loop
IN_VAIN = 2  # waits in vain count that much more than those that save a write


class AckWait:
    __slots__ = ("_lanes", "_periods", "_since", "has_slow", "is_pressed", "is_timed")

    def __init__(self, lanes: dict[int, LaneLog]) -> None:
        self._lanes = lanes
        self._periods = 0  # since the timer was set first
        self._since = 0  # receipts up to this one were issued when the timer was set
        self.is_timed = False
        self.is_pressed = False  # something in this tick cannot wait
        self.has_slow = False  # something in this tick is for a lane without quick consumers

    def begin(self, issued: int) -> None:
        """The timer was set."""
        self.is_timed = True
        self._periods = 0
        self._since = issued

    def is_patient(self) -> bool:
        """The timer has fired, and nothing waits for a receipt: whether to set it again."""
        self._periods += 1
        return self._periods < PERIODS

    def unsettled(self, pending: Sequence[Append | Unit]) -> list[Append | Unit]:
        """What is left of these to be written."""
        return [each for each in pending if isinstance(each, Unit) or each.left]

    def was_in_vain(self, pending: Sequence[Append | Unit]) -> bool:
        """The timer has fired: whether something that was there when it was set is still to be written."""
        self.is_timed = False
        since = self._since
        late = [each for each in pending if isinstance(each, Append) and each.left and each.receipt <= since]
        for lane in {place[0] << 8 | place[1] for append in late for place in append.placements}:
            log = self._lanes.get(lane)
            if log is not None:  # once, however many messages are late: one late ack may be for all of them
                log.quick = max(log.quick - IN_VAIN, -MOST_QUICK)
        return bool(late)
