"""Filters of a query that a batch read applies itself: fewer messages are fetched.

Exact filters are not evaluated again by Spark: those on offset, queue and routing key. A lower bound of the timestamp
only moves the start, to the first message that is not older, so Spark evaluates it again. An upper bound is left to
Spark altogether: the broker's clock can be set back, and later messages would be lost.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from leveret.spark.offsets import Range

TOPIC_WILDCARDS = frozenset("*#")


@dataclass(slots=True)
class PushedFilters:
    """All filters together: a message must fulfil each of them."""

    low: int = 0  # offset
    stop: int | None = None  # offset; exclusive
    since: int | None = None  # milliseconds since 1970
    queues: frozenset[str] | None = None
    routing_key: str | None = None
    takes_routing_key: bool = field(default=True, kw_only=True)

    def take(self, one: Filter) -> bool:
        """Whether the filter is exact, so that Spark need not evaluate it."""
        match one:
            case EqualTo(("queue",), str(name)):
                self._narrow_queues({name})
            case In(("queue",), (*names,)) if all(isinstance(name, str) for name in names):
                self._narrow_queues(names)
            case EqualTo(("routing_key",), str(key)):
                return self._take_routing_key(key)
            case GreaterThan(("timestamp",), datetime() as moment) | GreaterThanOrEqual(
                ("timestamp",), datetime() as moment
            ):
                self._take_time(moment)
                return False
            case EqualTo(("offset",), int(offset)):
                self._narrow(offset, offset + 1)
            case GreaterThan(("offset",), int(offset)):
                self._narrow(offset + 1, None)
            case GreaterThanOrEqual(("offset",), int(offset)):
                self._narrow(offset, None)
            case LessThan(("offset",), int(offset)):
                self._narrow(0, offset)
            case LessThanOrEqual(("offset",), int(offset)):
                self._narrow(0, offset + 1)
            case _:
                return False
        return True

    def reads(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def clipped(self, whole: Range) -> Range:
        start = max(whole.start, self.low)
        return Range(whole.queue, start, whole.stop if self.stop is None else min(whole.stop, self.stop))

    def _narrow(self, low: int, stop: int | None) -> None:
        self.low = max(self.low, low)
        if stop is not None:
            self.stop = stop if self.stop is None else min(self.stop, stop)

    def _narrow_queues(self, names: Collection[str]) -> None:
        self.queues = frozenset(names) if self.queues is None else self.queues & frozenset(names)

    def _take_routing_key(self, key: str) -> bool:
        """The broker filters by a topic pattern: a key without wildcards matches itself only. No pattern is empty."""
        is_plain = bool(key) and not TOPIC_WILDCARDS & {*key.split(".")}
        if not is_plain or not self.takes_routing_key or self.routing_key not in (None, key):
            return False
        self.routing_key = key
        return True

    def _take_time(self, moment: datetime) -> None:
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        milliseconds = max(int(aware.timestamp() * 1000) - 1, 0)  # rounded down, whatever floats do
        self.since = milliseconds if self.since is None else max(self.since, milliseconds)
