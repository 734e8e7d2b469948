"""The memory alarm: the high watermark, above which publishers are blocked, and half of it, above which queues page
out.

Two readings are compared with the watermark. The gauge counts a message once per queue, and other data kept for clients
(broker/memory_users.py); with fan-out it is too high, because queues share the bodies. The resident size of the process
includes memory that the allocator has not returned to the system, so it may stay high after the messages are gone.

- The alarm is raised when both are above the watermark, and ends when one of them has fallen to 90 % of it.
- It is also raised when the resident size alone is above 120 % of the watermark, whatever the gauge shows: something
  that is not counted uses memory. This alarm ends at 95 % of that limit. Memory that is free but still resident is
  returned to the system before and during it (``wants_trim``). If the resident size stays high for half a minute and
  does not grow, while the gauge is within the watermark, that counts as fragmentation: publishers are unblocked.

The limit of the resident size is never below the size at the start plus some headroom; otherwise a low watermark would
block publishers from the start. A process that runs more than the broker is not measured (``baseline`` is None).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leveret.backlog.context import MemoryGauge
from leveret.logs import get_log

CALM = 0.9
RESIDENT = 1.2  # of the watermark
RESIDENT_CALM = 0.95
HEADROOM = 64 << 20  # bytes above the resident size at the start that never raise the alarm
PATIENCE = 60  # checks; there are two per second

ENGINE = "engine"  # the name of the alarm while the engine of the replicated log does not answer
EXCEEDED = "memory high watermark exceeded"
Listener = Callable[[str, Mapping[str, object]], None]


class MemoryAlarm:
    def __init__(
        self,
        gauge: MemoryGauge,
        high_watermark: int,
        resident: Callable[[], int | None],
        baseline: int | None = None,
    ) -> None:
        self.shortage = 0  # above this, queues keep as little as possible in memory
        self.high_watermark = high_watermark
        self.raised = False
        self.wants_trim = False  # much resident memory is not in use: the allocator should return it to the system
        self._baseline = baseline
        self._is_over = False  # the resident size is above its limit
        self._over_for = 0  # checks
        self._largest = 0  # the largest resident size during these checks
        self._seen: int | None = None  # resident size at the last check
        self._tolerated = 0  # resident size that is treated as fragmentation
        self._gauge = gauge
        self._resident = resident

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, high_watermark: int) -> None:
        self._high_watermark = high_watermark
        self.shortage = high_watermark // 2

    def check_shortage(self) -> bool:
        """Whether a shortage began now. Both readings must be high: queues that share bodies need not page them out."""
        gauge = self._gauge
        before, limit = gauge.is_short, self.shortage * (CALM if gauge.is_short else 1)
        gauge.is_short = gauge.total > limit and (self._seen is None or self._seen > limit)
        return gauge.is_short and not before

    def used(self) -> int:
        counted = self._gauge.total
        if counted <= self.high_watermark * CALM:
            return counted  # avoids a system call while there is nothing to decide
        resident = self._resident()
        return counted if resident is None else min(counted, resident)

    def look(self, resident: int | None) -> None:
        """Check the current resident size; called regularly, whatever the gauge shows."""
        self._seen = resident
        if resident is None or self._baseline is None:
            return
        limit = max(self.high_watermark * RESIDENT, self._baseline + HEADROOM)
        uncounted = resident - self._baseline - self._gauge.total
        self.wants_trim = resident > limit * CALM and uncounted > self.high_watermark // 4
        if resident <= limit * RESIDENT_CALM:
            self._is_over, self._tolerated, self._over_for = False, 0, 0
        elif resident > max(limit, self._tolerated):
            self._is_over = True
            self._wait_out(resident)

    def _wait_out(self, resident: int) -> None:
        if resident > self._largest * 1.01 or not self._over_for or self._gauge.total > self.high_watermark * CALM:
            self._over_for, self._largest = 0, resident
        self._over_for += 1
        if self._over_for > PATIENCE:
            self._is_over, self._over_for, self._tolerated = False, 0, resident + HEADROOM

    @property
    def reason(self) -> str | None:
        """Why publishers are blocked."""
        if not self.raised:
            return None
        return EXCEEDED if not self._is_over else f"{EXCEEDED} by the resident size of the process"

    def check(self) -> bool:
        """Read the gauge; True if the alarm was raised or cleared just now."""
        used = self.used()
        before = self.raised
        if used > self.high_watermark or self._is_over:
            self.raised = True
        elif used <= self.high_watermark * CALM:
            self.raised = False
        return self.raised != before


def blocked_reason(alarms: Mapping[str, str]) -> str:
    """The reason in ``connection.blocked``, with RabbitMQ's wording where RabbitMQ has the alarm."""
    low = " & ".join(name for name in ("disk", "memory") if name in alarms)
    others = [reason for name, reason in alarms.items() if name not in ("disk", "memory")]
    return ", ".join([f"low on {low}"] * bool(low) + others)


class Events:
    """Events of the broker as a whole: alarms. Listeners are called on the event loop in the order of subscription; an
    error in one does not affect others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._log = get_log("broker")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` for every event; the result unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def tell(self, name: str, **facts: object) -> None:
        for listener in list(self._listeners):
            try:
                listener(name, facts)
            except Exception:  # noqa: BLE001 - an error in one listener must not stop the others
                self._log.exception("internal error in an event listener", event_name=name)
