"""A Spark sink at a broker without a server: rows are staged and committed, and the harness rests in between.

harness = StoredHarness()
sink = Sink(harness)
stage = sink.stage("T", 0, b"one", b"two")
assert sink.commit("T", 0, stage) == Committed(False, 2, 0)
"""

from __future__ import annotations

from leveret.errors import LeveretError
from leveret.message import PERSISTENT, Address, Message
from leveret.pipeline.commits import Commits, Committed, Committer
from leveret.pipeline.inflow import front, looked_at
from leveret.pipeline.stages import Stage, Ticket
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.content import body_of, make_content
from leveret.wire.properties import Properties
from tests.support.peer_pair import Harness

Outcome = Committed | LeveretError
USER = "guest"


def row(body: bytes, address: Address, **properties: object) -> Message:
    """As arrow_rows.py makes them: persistent unless stated otherwise."""
    given = Properties(**{"delivery_mode": 2, **properties})  # type: ignore[arg-type]
    return make_content(given, body), address, PERSISTENT


def address(exchange: str = "", key: str = "q") -> Address:
    return Address(exchange, key, 1, DEFAULT_FRAME_MAX)


class Sink:
    """The commits of one run of a broker. ``commits.start`` has finished, or continues, what the previous run left.
    ``commits``: with outboxes that are restored."""

    def __init__(self, harness: Harness, commits: Commits | None = None) -> None:
        self.harness = harness
        self.commits = commits or Commits(harness.broker)
        self.stages = self.commits.stages
        if commits is None:
            self.commits.outboxes.restore()
        self.commits.start()
        harness.rest()

    def begin(self, transaction: str = "T", batch: int = 0, *, attempt: int = 0) -> Stage:
        return self.stages.begin(self.harness.vhost, Ticket(transaction, batch, 0, attempt), USER)

    def add(self, stage: Stage, messages: list[Message]) -> None:
        """All of one address."""
        while messages:
            look, piece = looked_at(front(messages), self.harness.clock.now())
            self.stages.add(stage, piece, look)
            messages = messages[len(piece) :]

    def finish(self, stage: Stage) -> str:
        self.stages.seal(stage)
        self.harness.rest()
        self.stages.mark_whole(stage)
        return stage.id

    def stage(
        self,
        transaction: str,
        batch: int,
        *bodies: bytes,
        exchange: str = "",
        key: str = "q",
        attempt: int = 0,
        **properties: object,
    ) -> str:
        stage = self.begin(transaction, batch, attempt=attempt)
        to = address(exchange, key)
        self.add(stage, [row(body, to, **properties) for body in bodies])
        return self.finish(stage)

    def send(self, transaction: str, batch: int, *ids: str) -> list[Outcome]:
        """Commit without waiting: the list gets the outcome when there is one."""
        outcomes: list[Outcome] = []
        self.commits.commit(self.harness.vhost, transaction, batch, ids, Committer(USER), outcomes.append)
        return outcomes

    def commit(self, transaction: str, batch: int, *ids: str) -> Committed:
        outcomes = self.send(transaction, batch, *ids)
        self.harness.rest()
        (outcome,) = outcomes
        if isinstance(outcome, LeveretError):
            raise outcome
        return outcome

    def ids(self) -> list[str]:
        """Of the stages that are there."""
        return [stage.id for stage in self.stages.of(self.harness.vhost)]

    def last(self, transaction: str = "T") -> int | None:
        row = self.commits.transactions(self.harness.vhost).get(transaction)
        return None if row is None else row.batch


def drained(harness: Harness, queue: str) -> list[bytes]:
    """All that a queue has, in order; it is empty afterwards."""
    bodies = []
    while True:
        found = harness.queue(queue)
        if found.when_loaded(lambda: None):
            harness.rest()
        taken = found.get(True)
        if taken is None:
            harness.turn()
            return bodies
        bodies.append(body_of(taken.message[0]))
