"""What a load did and received over many runs of one broker, and which guarantees that violates.

Pure: a load records in a ``History`` what it sent, what was confirmed, what it received and acked; nothing here knows
of sockets or time. Most violations are found as they happen, lost messages by ``finish``, after everything was drained.

A message is *owed* to each queue of its route from its confirm on, until an ack for it is on its way (acks are lazy, so
it may still come back, marked redelivered). It is *done* where no crash may bring it back: its ack was committed, or
its queue was purged or deleted, and the broker said so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

KEPT = 40  # violations listed in full; the rest is counted


class Kind(StrEnum):
    LOST = "confirmed, and gone before it was acked"
    ALTERED = "not the body that was sent"
    INVENTED = "never sent to this queue"
    UNMARKED = "received again without the redelivered flag"
    REPEATED = "received twice in one life, though nobody gave it back"
    REORDERED = "overtaken by a later one of the same publisher"
    RISEN = "came back after it was settled for good"
    MISSING = "was declared, and is not there"
    UNDEAD = "was deleted, and is there"


class Violation(NamedTuple):
    kind: Kind
    life: int
    what: str
    detail: str

    def __str__(self) -> str:
        return f"life {self.life}: {self.what}: {self.kind} ({self.detail})"


def digest(body: bytes) -> str:
    return blake2b(body, digest_size=12).hexdigest()


@dataclass(slots=True)
class Copy:
    """One message in one queue."""

    received: int = 0
    last_life: int = 0
    acked: bool = False
    waived: bool = False  # it may be gone, or not: a purge of its queue was sent, and not answered
    done: bool = False


@dataclass(slots=True)
class Sent:
    publisher: str
    counter: int
    digest: str
    priority: int
    persistent: bool
    life: int
    copies: dict[str, Copy]
    confirmed_at: float | None = None
    refused: bool = False


@dataclass
class History:
    restless: frozenset[str] = frozenset()
    """Queues whose consumers requeue messages within a run: the order of redeliveries is not checked there."""
    life: int = 0
    messages: dict[str, Sent] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    found: Counter[Kind] = field(default_factory=Counter)
    confirmed_in: Counter[int] = field(default_factory=Counter)
    received_in: Counter[int] = field(default_factory=Counter)
    repeated: int = 0
    _last: dict[tuple[str, str, str, int, bool], int] = field(default_factory=dict)
    _sent_to: dict[str, list[str]] = field(default_factory=dict)
    _things: dict[tuple[str, str], bool | None] = field(default_factory=dict)

    def begin_life(self) -> None:
        """The broker starts. Everything in progress in the previous run is over."""
        self.life += 1
        self._last.clear()

    # ---- publishing

    def sent(
        self,
        ident: str,
        publisher: str,
        counter: int,
        queues: Iterable[str],
        body_digest: str,
        *,
        priority: int = 0,
        persistent: bool = True,
    ) -> None:
        """``counter`` grows with each message of this publisher, whatever its target."""
        assert ident not in self.messages, f"the load used {ident} twice"
        copies = {queue: Copy() for queue in queues}
        self.messages[ident] = Sent(publisher, counter, body_digest, priority, persistent, self.life, copies)
        for queue in copies:
            self._sent_to.setdefault(queue, []).append(ident)

    def confirmed(self, ident: str, at: float = 0.0) -> None:
        message = self.messages[ident]
        assert message.confirmed_at is None, f"{ident} was confirmed twice"
        assert not message.refused, f"{ident} was confirmed after it was refused"
        message.confirmed_at = at
        self.confirmed_in[self.life] += 1

    def refused(self, ident: str) -> None:
        """A nack, or a rollback: nothing is owed. It may be there all the same."""
        message = self.messages[ident]
        assert message.confirmed_at is None, f"{ident} was refused after it was confirmed"
        message.refused = True

    # ---- consuming

    def received(self, queue: str, consumer: str, ident: str, body_digest: str, redelivered: bool) -> None:
        self.received_in[self.life] += 1
        message = self.messages.get(ident)
        copy = message.copies.get(queue) if message else None
        if message is None or copy is None:
            self._note(Kind.INVENTED, ident, f"received from {queue} by {consumer}")
            return
        where = f"{queue}, by {consumer}, sent in life {message.life}, redelivered={redelivered}"
        if message.digest != body_digest:
            self._note(Kind.ALTERED, ident, where)
        if copy.done:
            self._note(Kind.RISEN, ident, where)
        if copy.received:
            self.repeated += 1
            if not redelivered:
                self._note(Kind.UNMARKED, ident, f"{where}, last seen in life {copy.last_life}")
            if copy.last_life == self.life and queue not in self.restless:
                self._note(Kind.REPEATED, ident, where)
        copy.received += 1
        copy.last_life = self.life
        self._judge_order(message, queue, consumer, ident, redelivered)

    def _judge_order(self, message: Sent, queue: str, consumer: str, ident: str, redelivered: bool) -> None:
        """Each consumer of a queue sees the messages of a publisher (of one priority) in the order they were sent."""
        fresh_only = queue in self.restless
        if fresh_only and redelivered:
            return
        line = (consumer, queue, message.publisher, message.priority, fresh_only)
        last = self._last.get(line, -1)
        if message.counter <= last:
            self._note(Kind.REORDERED, ident, f"{queue}, by {consumer}, after number {last} of {message.publisher}")
        else:
            self._last[line] = message.counter

    def acked(self, queue: str, ident: str) -> None:
        """An ack is sent: from here on the broker may forget it. Tell before sending."""
        self._copy(queue, ident).acked = True

    def unacked(self, queue: str, ident: str) -> None:
        """The ack was taken back (a transaction that was rolled back)."""
        self._copy(queue, ident).acked = False

    def settled(self, queue: str, ident: str) -> None:
        """The broker said that its ack is committed."""
        self._copy(queue, ident).done = True

    def waive(self, queue: str) -> list[str]:
        """The queue is about to be purged or deleted: nothing in it is owed any more. What may be in it."""
        held = self._sent_to.pop(queue, [])
        for ident in held:
            self._copy(queue, ident).waived = True
        return held

    def emptied(self, queue: str, held: Iterable[str]) -> None:
        """The broker said that the queue was purged or deleted; ``held`` is what ``waive`` gave."""
        for ident in held:
            self._copy(queue, ident).done = True

    def _copy(self, queue: str, ident: str) -> Copy:
        """Messages that were never sent must not exist; what happens to them is not checked."""
        message = self.messages.get(ident)
        return (message.copies.get(queue) if message else None) or Copy()

    # ---- definitions

    def unsure(self, kind: str, name: str) -> None:
        """A declare or delete is sent: the thing may be there or not."""
        self._things[kind, name] = None

    def declared(self, kind: str, name: str) -> None:
        self._things[kind, name] = True

    def deleted(self, kind: str, name: str) -> None:
        self._things[kind, name] = False

    def seen(self, kind: str, name: str, there: bool) -> None:
        """What the broker reports after a restart; it must stay so from then on."""
        expected = self._things[kind, name]
        if expected is not None and expected != there:
            self._note(Kind.MISSING if expected else Kind.UNDEAD, f"{kind} {name}", "as the restarted broker has it")
        self._things[kind, name] = there

    def things(self, kind: str) -> list[str]:
        return [name for each, name in self._things if each == kind]

    def exists(self, kind: str, name: str) -> bool | None:
        return self._things.get((kind, name))

    # ---- the verdict

    def finish(self) -> None:
        """Everything was drained and acked: what is owed still was lost."""
        for ident, message in self.messages.items():
            if message.confirmed_at is None or not message.persistent:
                continue
            for queue, copy in message.copies.items():
                if not (copy.acked or copy.waived or copy.done):
                    seen = f"last received in life {copy.last_life}" if copy.received else "never received"
                    self._note(Kind.LOST, ident, f"{queue}, sent in life {message.life}, {seen}")

    def _note(self, kind: Kind, what: str, detail: str) -> None:
        self.found[kind] += 1
        if len(self.violations) < KEPT:
            self.violations.append(Violation(kind, self.life, what, detail))

    def summary(self) -> str:
        return (
            f"{len(self.messages):,} sent, {self.confirmed_in.total():,} confirmed, {self.received_in.total():,}"
            f" received, {self.repeated:,} again, {len(self._things):,} definitions, {self.found.total()} violations"
        )

    def assert_kept(self, where: str = "") -> None:
        """Fails, with what was found, if any promise was broken."""
        if self.found:
            counted = "; ".join(f"{number} x {kind}" for kind, number in self.found.items())
            told = "\n  ".join(str(each) for each in self.violations)
            raise AssertionError(f"{where}\n{self.summary()}\n{counted}\n  {told}")
