"""Commits: all stages of a batch become visible atomically, exactly once.

Theory of operation. One row for each transaction holds the last committed batch and its stages that are still to be
moved. Writing that row is the atomic point: after a crash before it the stages stay invisible; after it the next start
finds the row and moves the rest (pipeline/stage_moves.py). When everything is moved and durable, the row is written
again without stages, and their queues are deleted. This relies on the order on disk: stages are durable before they can
be committed, a row is written before the slices of its tick, and queues are deleted after the last slice is durable.

    stages whole ──> row (T, batch, stages) ──> slices ──all granted──> row (T, batch, none), queues removed, answered

A batch number not above the last one of its transaction is a repeat: its stages are dropped; the reply is "duplicate".
For the last batch it has the number of its messages as well: the caller can tell whether the repeat has other rows.

A transaction belongs to the user that committed it first (pipeline/transactions.py). Other users cannot commit to it:
they could turn its owner's batches into repeats. Administrators can, and the owner stays the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.internal_queues import STAGE
from leveret.broker.vhost import Vhost
from leveret.errors import AccessRefused, LeveretError, PreconditionFailed, StoreError
from leveret.logs import get_log
from leveret.pipeline.inflow import Look
from leveret.pipeline.stage_moves import LOST, Load, Move, Moved, Moves
from leveret.pipeline.stages import Stage, Stages, discard, left_by
from leveret.pipeline.transactions import NO_OWNER, CommitRow, Transactions, TransactionsOfBroker
from leveret.pipeline.unroutable import MandatoryAddresses, UnroutableKey

MOST_AHEAD = 1 << 40  # largest step of batch numbers: those that are times in microseconds may be twelve days apart
DISCARDS = 64  # stages removed at once

log = get_log("pipeline")


class Committer(NamedTuple):
    user: str
    is_administrator: bool = False

    def may_use(self, owner: str) -> bool:
        return self.is_administrator or owner == self.user


class Committed(NamedTuple):
    """``before``: the messages that the last batch was committed with, for a repeat of it."""

    duplicate: bool
    messages: int
    unroutable: int
    unroutable_keys: Sequence[UnroutableKey] = ()
    unroutable_mandatory: int = 0
    before: int | None = None


Done = Callable[["Committed | LeveretError"], None]
DUPLICATE = Committed(True, 0, 0)


class Commits:
    """The commits of all transactions of a broker. Call ``start`` once, after definitions, messages and
    ``outboxes`` are restored."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.stages = Stages(broker)
        self._transactions = TransactionsOfBroker()
        self._moves = Moves(broker)
        self.outboxes = self._moves.outboxes
        self._discards = Discards()
        self._moving: dict[tuple[str, str], list[Callable[[], None]]] = {}  # callbacks to run at the end of each commit

    def start(self) -> None:
        """Finish commits of the previous run; other stages are kept until they expire."""
        for vhost in self._broker.vhosts.values():
            committed: set[str] = set()
            for transaction, row in list(self.transactions(vhost).rows()):
                if row.stages:
                    committed.update(row.stages)
                    log.info("commit resumed", vhost=vhost.name, transaction=transaction, batch=row.batch)
                    self._move(vhost, transaction, row, lambda outcome: None)
            self.stages.restore(vhost, committed)
        self._broker.wake()

    def transactions(self, vhost: Vhost) -> Transactions:
        return self._transactions.of(vhost)

    def refuse_stranger(self, vhost: Vhost, transaction: str, by: Committer) -> None:
        """Refuse a user if the transaction belongs to another."""
        row = self.transactions(vhost).get(transaction)
        if row is not None and row.owner != NO_OWNER and not by.may_use(row.owner):
            raise AccessRefused(
                f"transaction '{transaction}' in vhost '{vhost.name}' belongs to user '{row.owner}', not to "
                f"'{by.user}': use another name, or have an administrator delete it or remove its owner (DELETE "
                "/api/pipeline/{vhost}/commits)"
            )

    # ---- committing

    def commit(self, vhost: Vhost, transaction: str, batch: int, ids: Sequence[str], by: Committer, done: Done) -> None:
        """``done`` gets the outcome when all of it is durable, or the reason why nothing is committed."""
        waiting = self._moving.get((vhost.name, transaction))
        if waiting is not None:  # may be a repeat of the running commit: decide when that is done
            waiting.append(lambda: self.commit(vhost, transaction, batch, ids, by, done))
            return
        transactions = self.transactions(vhost)
        last = transactions.get(transaction)
        try:
            self.refuse_stranger(vhost, transaction, by)
            if last is not None and batch <= last.batch:
                self._drop_rest(vhost, transaction, batch, by.user, only_whole=True)
                self._answer(done, DUPLICATE._replace(before=last.messages if batch == last.batch else None))
                return
            self._refuse_far_ahead(vhost, transaction, batch, last)
            stages = self._whole_stages(vhost, transaction, batch, ids, by)
            owner = self._owner(transaction, last, stages, by)
            messages = sum(stage.messages for stage in stages)
            row = CommitRow(batch, [stage.id for stage in stages], messages, owner, self._broker.clock.wall())
            transactions.put(transaction, row)
        except LeveretError as problem:
            done(problem)
            return
        for stage in stages:
            self.stages.release(stage)
        self._drop_rest(vhost, transaction, batch, owner)
        self._move(vhost, transaction, row, done)

    def _refuse_far_ahead(self, vhost: Vhost, transaction: str, batch: int, last: CommitRow | None) -> None:
        if last is not None and batch > last.batch + MOST_AHEAD:
            raise PreconditionFailed(
                f"batch {batch} of transaction '{transaction}' in vhost '{vhost.name}' is more than {MOST_AHEAD} "
                f"ahead, its last batch is {last.batch}: the batches in between could not be committed; use another "
                "transaction, or have an administrator delete this one (DELETE /api/pipeline/{vhost}/commits)"
            )

    def _owner(self, transaction: str, last: CommitRow | None, stages: Sequence[Stage], by: Committer) -> str:
        """A transaction without an owner is claimed by a commit of stages, which required write permission."""
        if last is not None and last.owner != NO_OWNER:
            return last.owner
        owners = [stage.owner for stage in stages if stage.owner != NO_OWNER]
        if last is not None and not stages:
            raise AccessRefused(
                f"transaction '{transaction}' has no owner, and user '{by.user}' commits an empty batch to it: commit "
                "a batch with stages first"
            )
        return owners[0] if owners else by.user

    def delete(self, vhost: Vhost, transaction: str, *, owner_only: bool = False) -> CommitRow | None:
        """Delete the transaction, or only its owner. None if there is no such transaction."""
        row = self.transactions(vhost).get(transaction)
        if row is None:
            return None
        if (vhost.name, transaction) in self._moving:
            raise PreconditionFailed(
                f"batch {row.batch} of transaction '{transaction}' in vhost '{vhost.name}' is being committed: try "
                "again when that is done"
            )
        if owner_only:
            self.transactions(vhost).put(transaction, row._replace(owner=NO_OWNER))
        else:
            self.transactions(vhost).drop(transaction)
        self._broker.wake()
        return row

    def _whole_stages(
        self, vhost: Vhost, transaction: str, batch: int, ids: Sequence[str], by: Committer
    ) -> list[Stage]:
        found: list[Stage] = []
        for id_ in dict.fromkeys(ids):
            stage = self.stages.find(vhost, id_)
            if stage is None or not stage.is_whole:
                raise PreconditionFailed(
                    f"no stage '{id_}' in vhost '{vhost.name}': it was never staged, or it was dropped since (a stage "
                    "waits an hour for its commit or a renewal); nothing is committed, stage the batch again"
                )
            if stage.ticket[:2] != (transaction, batch):
                raise PreconditionFailed(
                    f"stage '{id_}' is of transaction '{stage.ticket.transaction}', batch {stage.ticket.batch}, not of "
                    f"'{transaction}', batch {batch}; nothing is committed"
                )
            if stage.owner != NO_OWNER and not by.may_use(stage.owner):
                raise AccessRefused(
                    f"stage '{id_}' belongs to user '{stage.owner}', not to '{by.user}': the user that stages a batch "
                    "commits it; nothing is committed"
                )
            found.append(stage)
        return found

    def _drop_rest(self, vhost: Vhost, transaction: str, batch: int, owner: str, *, only_whole: bool = False) -> None:
        """Drop other attempts at this batch and leftovers of earlier ones: they can never be committed. After a repeat,
        incomplete stages may belong to another writer, whose own commit will report the duplicate."""
        for stage in self.stages.of_transaction(vhost, transaction):
            is_late = stage.ticket.batch <= batch and stage.owner in (owner, NO_OWNER)
            if is_late and (stage.is_whole or not only_whole):
                self.stages.drop(stage)

    # ---- moving

    def _move(self, vhost: Vhost, transaction: str, row: CommitRow, done: Done) -> None:
        self._moving[vhost.name, transaction] = []

        def over(outcome: Moved | LeveretError) -> None:
            if isinstance(outcome, Moved):
                self._finish(vhost, transaction, row)
                done(Committed(False, *outcome))
            else:
                done(outcome)
            for call in self._moving.pop((vhost.name, transaction)):
                call()
            self._broker.wake()

        Move(self._moves, vhost, loads_of(vhost, row.stages), over).start()

    def _finish(self, vhost: Vhost, transaction: str, row: CommitRow) -> None:
        """All messages are moved and durable. If recording this fails, the next start finds empty stages."""
        try:
            self.transactions(vhost).put(transaction, row._replace(stages=[]))
        except LeveretError as problem:
            log.warning(
                "commit completed but cannot be recorded as completed", transaction=transaction, reason=str(problem)
            )
            return
        self._discards.add(vhost, row.stages)
        if self._discards.step():
            self._broker.background.send(self._discards)

    def _answer(self, done: Done, outcome: Committed) -> None:
        broker = self._broker
        broker.when_granted(lambda: done(outcome), lost=lambda: done(StoreError(LOST)))


def loads_of(vhost: Vhost, ids: Sequence[str]) -> Iterator[Load]:
    """The stages to move, read one by one: a commit may have thousands."""
    for id_ in ids:
        queue = vhost.internal.queues.get(f"{STAGE}{id_}")
        if queue is not None:
            stage = left_by(vhost, id_)
            known = (Look.CLOSE, MandatoryAddresses()) if stage is None else (stage.look, stage.mandatory)
            yield Load(queue, *known)


class Discards:
    """Stages that were moved and are to be removed, some at a time. After a crash the next start removes the rest."""

    def __init__(self) -> None:
        self._stages: deque[tuple[Vhost, str]] = deque()

    def add(self, vhost: Vhost, ids: Sequence[str]) -> None:
        self._stages.extend((vhost, id_) for id_ in ids)

    def step(self) -> bool:
        for _ in range(min(DISCARDS, len(self._stages))):
            discard(*self._stages.popleft())
        return bool(self._stages)
