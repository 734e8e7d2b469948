"""What clients of a cell did, with start and end of each operation, and which guarantees the answers violate.

Pure, in the style of Jepsen's checker for queues: a load records operations (times come from the caller), and ``check``
looks at the whole history after everything was drained and acked.

A publish is *confirmed*, *nacked*, or *unknown* when the connection was lost: an unknown or nacked message may be
there, once, or not at all. A confirmed message must be there until an ack for it was sent; acks are lazy, so it may
come back after that, marked as redelivered.

Messages have an order only if the load can know it: those of one channel, and those of which one was confirmed before
the other was sent. First deliveries of a queue with one consumer at a time must not contradict that order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

LISTED = 40  # violations in a report; the rest is counted
NEVER = float("inf")


class Outcome(StrEnum):
    CONFIRMED = "confirmed"
    NACKED = "nacked"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    LOST = "confirmed, never acked, and not in the final drain"
    INVENTED = "delivered, but never sent to this queue"
    ALTERED = "delivered with another body than was sent"
    UNMARKED = "delivered again without the redelivered flag"
    REPEATED = "delivered twice to the same consumer, which did not requeue it"
    REORDERED = "first delivered after a message that was published later"
    MISSING = "declared, and not there at the end"


class Violation(NamedTuple):
    kind: Kind
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.kind} ({self.detail})"


@dataclass(slots=True)
class Publish:
    """``channel``: one channel of one connection. ``place``: the number of this publish there."""

    ident: str
    queue: str
    channel: str
    place: int
    sent_at: float
    ended_at: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    is_acked: bool = False


class Delivery(NamedTuple):
    """``consumer``: one consumer of one connection. ``is_intact``: the body is the one that belongs to ``ident``."""

    ident: str
    queue: str
    consumer: str
    redelivered: bool
    at: float
    is_intact: bool = True

    def __str__(self) -> str:
        flag = "redelivered" if self.redelivered else "not redelivered"
        return f"{self.queue}, by {self.consumer} at {self.at:.3f}, {flag}"


@dataclass
class OperationHistory:
    """``shared``: queues with several consumers at a time, for which order is not checked. ``holds``: the broker may
    not have noticed the end of a consumer's connection, and gets its messages back late: they come again, marked,
    behind others, and the client sees them for the first time."""

    shared: frozenset[str] = frozenset()
    holds: bool = False
    publishes: dict[str, Publish] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    acks: int = 0
    definitions: dict[str, float] = field(default_factory=dict)  # when they were declared
    _drained: set[str] = field(default_factory=set)
    _found: set[str] = field(default_factory=set)

    def sent(self, ident: str, queue: str, channel: str, place: int, at: float) -> None:
        """Call this before the bytes are written."""
        assert ident not in self.publishes, f"the load has used {ident} twice"
        self.publishes[ident] = Publish(ident, queue, channel, place, at)

    def answered(self, ident: str, outcome: Outcome, at: float) -> None:
        publish = self.publishes[ident]
        assert publish.outcome is Outcome.UNKNOWN, f"{ident} was answered twice"
        publish.outcome, publish.ended_at = outcome, at

    def delivered(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    def ack_sent(self, ident: str) -> None:
        """Call this before the bytes are written: from here on the broker may forget the message."""
        self.acks += 1
        if ident in self.publishes:
            self.publishes[ident].is_acked = True

    def declared(self, name: str, at: float) -> None:
        """The broker has answered."""
        self.definitions[name] = at

    def found(self, names: Iterable[str]) -> None:
        """Definitions that are there at the end."""
        self._found.update(names)

    def drained(self, queue: str) -> None:
        """Everything in this queue was delivered and acked; it is empty."""
        self._drained.add(queue)

    # ---- figures

    def confirm_times(self, queue: str) -> list[float]:
        found = (each for each in self.publishes.values() if each.queue == queue)
        return sorted(each.ended_at for each in found if each.outcome is Outcome.CONFIRMED)

    def summary(self) -> str:
        outcomes = Counter(each.outcome for each in self.publishes.values())
        told = ", ".join(f"{outcomes[each]:,} {each}" for each in Outcome)
        again = len(self.deliveries) - len({(each.queue, each.ident) for each in self.deliveries})
        return (
            f"{len(self.publishes):,} published ({told}), {len(self.deliveries):,} delivered ({again:,} again), "
            f"{self.acks:,} acks, {len(self.definitions):,} definitions"
        )

    # ---- the check

    def check(self) -> Report:
        missing = {each.queue for each in self.publishes.values()} - self._drained
        assert not missing, f"these queues were not drained, so nothing can be said about losses: {sorted(missing)}"
        violations = [*self._lost(), *self._deliveries(), *self._disorder(), *self._undeclared()]
        return Report(self.summary(), violations)

    def _lost(self) -> Iterator[Violation]:
        last: dict[str, Delivery] = {each.ident: each for each in self.deliveries}
        for each in self.publishes.values():
            if each.outcome is Outcome.CONFIRMED and not each.is_acked:
                seen = f"last delivered to {last[each.ident]}" if each.ident in last else "never delivered"
                yield Violation(Kind.LOST, each.ident, f"{each.queue}, confirmed at {each.ended_at:.3f}, {seen}")

    def _deliveries(self) -> Iterator[Violation]:
        before: set[str] = set()
        unmarked: set[str] = set()
        to_consumer: set[tuple[str, str]] = set()
        for each in self.deliveries:
            publish = self.publishes.get(each.ident)
            if publish is None or publish.queue != each.queue:
                yield Violation(Kind.INVENTED, each.ident, str(each))
                continue
            if not each.is_intact:
                yield Violation(Kind.ALTERED, each.ident, str(each))
            # With several consumers, one of them may read its delivery after another one got the message again.
            if not each.redelivered and each.ident in (unmarked if each.queue in self.shared else before):
                yield Violation(Kind.UNMARKED, each.ident, str(each))
            if not each.redelivered:
                unmarked.add(each.ident)
            if (each.consumer, each.ident) in to_consumer:
                yield Violation(Kind.REPEATED, each.ident, str(each))
            before.add(each.ident)
            to_consumer.add((each.consumer, each.ident))

    def _disorder(self) -> Iterator[Violation]:
        seen: set[str] = set()
        lines: dict[str, _Line] = {}
        for each in self.deliveries:
            publish = self.publishes.get(each.ident)
            if publish is None or publish.queue != each.queue or each.queue in self.shared or each.ident in seen:
                continue
            seen.add(each.ident)
            if self.holds and each.redelivered:
                continue
            overtaken = lines.setdefault(each.queue, _Line()).add(publish)
            if overtaken is not None:
                yield Violation(Kind.REORDERED, each.ident, f"{each}, after {overtaken}")

    def _undeclared(self) -> Iterator[Violation]:
        for name, at in self.definitions.items():
            if name not in self._found:
                yield Violation(Kind.MISSING, name, f"declared at {at:.3f}")


class _Line:
    """First deliveries of one queue."""

    def __init__(self) -> None:
        self._last: dict[str, Publish] = {}  # by channel
        self._latest: Publish | None = None  # the delivered one that was sent last

    def add(self, publish: Publish) -> str | None:
        """A message that was delivered before this one and published after it, if there is one."""
        last, latest = self._last.get(publish.channel), self._latest
        if last is None or last.place < publish.place:
            self._last[publish.channel] = publish
        if latest is None or latest.sent_at < publish.sent_at:
            self._latest = publish
        if last is not None and last.place > publish.place:
            return last.ident
        if latest is not None and publish.outcome is Outcome.CONFIRMED and publish.ended_at < latest.sent_at:
            return latest.ident
        return None


class Report(NamedTuple):
    summary: str
    violations: list[Violation]

    @property
    def counts(self) -> Counter[Kind]:
        return Counter(each.kind for each in self.violations)

    def __str__(self) -> str:
        if not self.violations:
            return f"{self.summary}: no violations"
        counted = "; ".join(f"{number} x {kind}" for kind, number in self.counts.items())
        listed = "\n  ".join(str(each) for each in self.violations[:LISTED])
        return f"{self.summary}: {len(self.violations)} violations\n{counted}\n  {listed}"
