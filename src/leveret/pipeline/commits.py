"""Commits: all stages of a batch become visible, once, whatever happens in between.

Theory of operation. One row for each transaction says the last batch that was committed, and which of its stages are
still to be moved. Putting that row is the atomic point: before it a crash leaves stages that nobody sees, behind it the
next start finds the row and moves what is left (pipeline/moving.py). When all is moved and granted, the row is put
again without stages, and their queues go. The order on disk carries this: stages are granted before they can be
committed, a row reaches the disk before the slices of its turn, and queues go after the last slice is granted.

    stages whole ──> row (T, batch, stages) ──> slices ──all granted──> row (T, batch, none), queues removed, answered

A batch that is not above the last one of its transaction is a repeat: its stages are dropped, and it is answered so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.internal_queues import STAGE
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError, PreconditionFailed, StoreError
from leveret.logs import get_log
from leveret.pipeline.inflow import Look
from leveret.pipeline.moving import LOST, Load, Move, Moved, Moves
from leveret.pipeline.stages import Stage, Stages, discard, left_by

COMPONENT = "commit"

log = get_log("pipeline")


class CommitRow(NamedTuple):
    batch: int
    stages: list[str]  # ids of those that are still to be moved
    messages: int

    def encoded(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @staticmethod
    def decoded(row: bytes) -> CommitRow:
        facts = json.loads(row)
        return CommitRow(int(facts["batch"]), [str(id_) for id_ in facts["stages"]], int(facts["messages"]))


class Committed(NamedTuple):
    duplicate: bool
    messages: int
    unroutable: int


Done = Callable[["Committed | LeveretError"], None]
DUPLICATE = Committed(True, 0, 0)


class Commits:
    """Of all transactions of a broker. ``start`` is called once, when definitions and messages are restored."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.stages = Stages(broker)
        self._moves = Moves(broker)
        self._moving: dict[tuple[str, str], list[Callable[[], None]]] = {}  # who waits for the end of each

    def start(self) -> None:
        """Finish what an earlier life had committed; its other stages wait on, or are over."""
        for vhost in self._broker.vhosts.values():
            committed: set[str] = set()
            for transaction in vhost.parameters.names(COMPONENT):
                row = self._row(vhost, transaction)
                if row is not None and row.stages:
                    committed.update(row.stages)
                    log.info("a commit goes on", vhost=vhost.name, transaction=transaction, batch=row.batch)
                    self._move(vhost, transaction, row, lambda outcome: None)
            self.stages.restore(vhost, committed)
        self._broker.wake()

    def last_batch(self, vhost: Vhost, transaction: str) -> int | None:
        row = self._row(vhost, transaction)
        return None if row is None else row.batch

    def _row(self, vhost: Vhost, transaction: str) -> CommitRow | None:
        value = vhost.parameters.get(COMPONENT, transaction)
        try:
            return None if value is None else CommitRow.decoded(value)
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            log.error("the row of a commit makes no sense", transaction=transaction, reason=repr(problem))
            return None

    # ---- committing

    def commit(self, vhost: Vhost, transaction: str, batch: int, ids: Sequence[str], done: Done) -> None:
        """``done`` gets the outcome when all of it is durable, or the reason why nothing is committed."""
        waiting = self._moving.get((vhost.name, transaction))
        if waiting is not None:  # this one may be its repeat: that is known when it is over
            waiting.append(lambda: self.commit(vhost, transaction, batch, ids, done))
            return
        last = self.last_batch(vhost, transaction)
        try:
            if last is not None and batch <= last:
                self._drop_rest(vhost, transaction, batch, only_whole=True)
                self._answer(done, DUPLICATE)
                return
            stages = self._whole_stages(vhost, transaction, batch, ids)
            row = CommitRow(batch, [stage.id for stage in stages], sum(stage.messages for stage in stages))
            vhost.parameters.put(COMPONENT, transaction, row.encoded())
        except LeveretError as problem:
            done(problem)
            return
        for stage in stages:
            self.stages.release(stage)
        self._drop_rest(vhost, transaction, batch)
        self._move(vhost, transaction, row, done)

    def _whole_stages(self, vhost: Vhost, transaction: str, batch: int, ids: Sequence[str]) -> list[Stage]:
        found: list[Stage] = []
        for id_ in dict.fromkeys(ids):
            stage = self.stages.find(vhost, id_)
            if stage is None or not stage.is_whole:
                raise PreconditionFailed(
                    f"no stage '{id_}' in vhost '{vhost.name}': it was never staged, or it was dropped since (a stage "
                    "waits an hour for its commit); nothing is committed, stage the batch again"
                )
            if stage.ticket[:2] != (transaction, batch):
                raise PreconditionFailed(
                    f"stage '{id_}' is of transaction '{stage.ticket.transaction}', batch {stage.ticket.batch}, not of "
                    f"'{transaction}', batch {batch}; nothing is committed"
                )
            found.append(stage)
        return found

    def _drop_rest(self, vhost: Vhost, transaction: str, batch: int, *, only_whole: bool = False) -> None:
        """Other attempts at this batch, and what is left of earlier ones, can never be committed. Behind a repeat those
        that are still being made may be another's, who is to hear by his own commit that he came late."""
        for stage in [*self.stages.of(vhost)]:
            is_late = stage.ticket.transaction == transaction and stage.ticket.batch <= batch
            if is_late and (stage.is_whole or not only_whole):
                self.stages.drop(stage)

    # ---- moving

    def _move(self, vhost: Vhost, transaction: str, row: CommitRow, done: Done) -> None:
        loads: list[Load] = []
        for id_ in row.stages:
            stage, queue = left_by(vhost, id_), vhost.internal.queues.get(f"{STAGE}{id_}")
            if queue is not None:
                loads.append(Load(queue, Look.CLOSE if stage is None else stage.look))
        self._moving[vhost.name, transaction] = []

        def over(outcome: Moved | LeveretError) -> None:
            if isinstance(outcome, Moved):
                self._finish(vhost, transaction, row)
                done(Committed(False, outcome.messages, outcome.unroutable))
            else:
                done(outcome)
            for call in self._moving.pop((vhost.name, transaction)):
                call()
            self._broker.wake()

        Move(self._moves, vhost, loads, over).start()

    def _finish(self, vhost: Vhost, transaction: str, row: CommitRow) -> None:
        """All is where it belongs, on disk. Should this not be recorded, the next start finds empty stages."""
        try:
            vhost.parameters.put(COMPONENT, transaction, row._replace(stages=[]).encoded())
        except LeveretError as problem:
            log.warning("a commit is done and cannot be recorded as done", transaction=transaction, reason=str(problem))
            return
        for id_ in row.stages:
            discard(vhost, id_)

    def _answer(self, done: Done, outcome: Committed) -> None:
        broker = self._broker
        broker.when_granted(lambda: done(outcome), lost=lambda: done(StoreError(LOST)))
