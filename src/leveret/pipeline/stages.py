"""Stages: messages sent by executors, durable and invisible, until a commit publishes them or their transaction rests.

Theory of operation. A stage is an internal queue of its virtual host (broker/internal_queues.py) and a row among the
parameters with its transaction and owner. Expiration and priority of its messages have no effect yet. The row is
written when all messages are there. So a queue without a row, or with fewer messages than its row states, was left
incomplete by a crash, and the next start removes it. The request that stages is answered when everything is durable;
only then can the stage be committed (pipeline/commits.py).

    begin ──> add, add, ... ──> seal ──granted──> whole ──commit──> moved, gone
      └── drop (incomplete body, not renewed for an hour, another attempt committed) ──> gone

A stage lives as long as its transaction is *renewed*: by each further stage of the same user, by each part of it that
arrives, and by a request of a task that computes its rows. The time of the last renewal is not stored: after a restart
a stage whose hour is over gets some minutes in which its tasks can renew it.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from leveret.backlog.context import Cancellable
from leveret.broker.broker import Broker
from leveret.broker.internal_queues import STAGE
from leveret.broker.publishes import write_run
from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed, ResourceFault
from leveret.logs import get_log
from leveret.message import PERSISTENT, Address, Message
from leveret.pipeline.inflow import Look
from leveret.pipeline.packs import Pack
from leveret.pipeline.transactions import NO_OWNER
from leveret.pipeline.unroutable import MandatoryAddresses
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import QueueOptions

COMPONENT = "stage"
LIFETIME = 3600.0  # seconds that a stage waits for its commit, or for the next renewal of its transaction
GRACE = 600.0  # seconds that a stage has at least after a restart: several times what tasks wait between renewals
MOST_OF_A_USER = 10_000  # stages in a virtual host; a sink sends 8 MiB in each
MOST_OF_A_VHOST = 20_000  # each takes 8 KiB of memory

PACK_ADDRESS = Address("", "", 0, 0)  # the messages of a pack have their own

log = get_log("pipeline")


class Ticket(NamedTuple):
    """The identity of a stage: one attempt at one partition of one batch of a transaction."""

    transaction: str
    batch: int
    partition: int = 0
    attempt: int = 0


class Stage:
    def __init__(
        self, id_: str, vhost: Vhost, ticket: Ticket, since: float, queue: ClassicQueue, owner: str = NO_OWNER
    ) -> None:
        self.id = id_
        self.vhost = vhost
        self.ticket = ticket
        self.since = since  # wall time
        self.queue = queue
        self.owner = owner  # the user that staged it; earlier versions did not record it
        self.messages = 0
        self.entries = 0  # messages of its queue: packs, and messages that are in none
        self.bytes = 0
        self.look = Look.PLAIN  # the closest inspection that one of its messages needs (pipeline/inflow.py)
        self.exchanges: set[str] = set()
        self.mandatory = MandatoryAddresses()
        self.is_whole = False  # complete and on disk
        self.timer: Cancellable | None = None

    def encoded(self) -> bytes:
        facts = {
            **self.ticket._asdict(),
            "owner": self.owner,
            "since": self.since,
            "messages": self.messages,
            "entries": self.entries,
            "bytes": self.bytes,
            "look": self.look,
            "exchanges": sorted(self.exchanges),
            "mandatory": self.mandatory.encoded(),
        }
        return json.dumps(facts).encode()

    def decode(self, row: bytes) -> None:
        """ValueError, KeyError or TypeError if this is not the row of a stage."""
        facts = json.loads(row)
        self.ticket = Ticket(*(facts[field] for field in Ticket._fields))
        self.owner = str(facts.get("owner", NO_OWNER))
        self.since, self.messages, self.bytes = float(facts["since"]), int(facts["messages"]), int(facts["bytes"])
        self.entries = int(facts.get("entries", self.messages))  # earlier versions had no packs
        self.look, self.exchanges = Look(facts["look"]), set(facts["exchanges"])
        self.mandatory = MandatoryAddresses.decoded(facts.get("mandatory", {}))  # earlier versions did not record it


class Stages:
    """All stages of a broker that are not committed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stages: dict[str, Stage] = {}  # by id
        self._of_transaction: dict[tuple[Vhost, str], dict[str, Stage]] = {}  # the same, by id
        self._number: Counter[tuple[Vhost, str | None]] = Counter()  # stages of each user; with None: of all users
        self._renewed: dict[tuple[Vhost, str], dict[str, float]] = {}  # by transaction: until when those of a user live

    # ---- making one

    def begin(self, vhost: Vhost, ticket: Ticket, owner: str) -> Stage:
        self._refuse_too_many(vhost, owner)
        id_ = secrets.token_hex(16)
        queue = vhost.internal.open(f"{STAGE}{id_}", QueueOptions(), vhost.queue_context)
        stage = Stage(id_, vhost, ticket, self._broker.clock.wall(), queue, owner)
        self._enter(stage, LIFETIME)
        return stage

    def renew(self, vhost: Vhost, transaction: str, owner: str) -> int:
        """Let the stages of this user in the transaction live for another hour; returns their number."""
        own = [stage for stage in self.of_transaction(vhost, transaction) if stage.owner == owner]
        if own:
            self._renewed[vhost, transaction][owner] = self._broker.clock.now() + LIFETIME
        return len(own)

    def _refuse_too_many(self, vhost: Vhost, owner: str) -> None:
        own, all_ = self._number[vhost, owner], self._number[vhost, None]
        if own >= MOST_OF_A_USER or all_ >= MOST_OF_A_VHOST:
            raise PreconditionFailed(
                f"user '{owner}' has {own} stages in vhost '{vhost.name}', and all users have {all_}: at most "
                f"{MOST_OF_A_USER} and {MOST_OF_A_VHOST} can wait for their commit; stage more rows at once, commit "
                "smaller batches, or drop stages that are not needed (DELETE /api/pipeline/{vhost}/stages)"
            )

    def add(self, stage: Stage, run: list[Message], look: Look) -> None:
        """Add admitted messages of one address (pipeline/admission.py)."""
        self._refuse_if_gone(stage)
        stage.look = max(stage.look, look)
        if [True for message in run if message[2] is not PERSISTENT]:
            run = [(content, address, PERSISTENT) for content, address, _ in run]
        size = sum([len(message[0]) for message in run])
        stage.messages += len(run)
        stage.bytes += size
        self._write(stage, run, size)

    def add_pack(self, stage: Stage, pack: Pack) -> None:
        """Add admitted messages, all plain, as one message."""
        self._refuse_if_gone(stage)
        stage.messages += pack.messages
        stage.bytes += pack.size
        self._write(stage, [(pack.data, PACK_ADDRESS, PERSISTENT)], len(pack.data))

    def _write(self, stage: Stage, run: list[Message], size: int) -> None:
        stage.entries += len(run)
        self._renewed[stage.vhost, stage.ticket.transaction][stage.owner] = self._broker.clock.now() + LIFETIME
        write_run([stage.queue], self._broker.log, run, size, False)
        self._broker.wake()

    def seal(self, stage: Stage) -> None:
        """Call when all messages are added. The stage is ``whole`` once they are durable."""
        self._refuse_if_gone(stage)
        stage.vhost.parameters.put(COMPONENT, stage.id, stage.encoded())
        self._broker.wake()

    def mark_whole(self, stage: Stage) -> None:
        self._refuse_if_gone(stage)
        stage.is_whole = True

    def _refuse_if_gone(self, stage: Stage) -> None:
        if stage.id not in self._stages or not stage.queue.alive:
            raise PreconditionFailed(
                f"stage '{stage.id}' of transaction '{stage.ticket.transaction}', batch {stage.ticket.batch}, was "
                "dropped while it was being created: another attempt was committed, or it took too long"
            )

    # ---- looking

    def of(self, vhost: Vhost) -> Iterator[Stage]:
        return (stage for stage in self._stages.values() if stage.vhost is vhost)

    def of_transaction(self, vhost: Vhost, transaction: str) -> list[Stage]:
        return [*self._of_transaction.get((vhost, transaction), {}).values()]

    def find(self, vhost: Vhost, id_: str) -> Stage | None:
        stage = self._stages.get(id_)
        return stage if stage is not None and stage.vhost is vhost and stage.queue.alive else None

    # ---- the end of one

    def drop(self, stage: Stage) -> None:
        """Delete the stage with its messages. Dropping a stage that does not exist is not an error."""
        if self._stages.get(stage.id) is stage:
            self.release(stage)
            discard(stage.vhost, stage.id)
            self._broker.wake()

    def release(self, stage: Stage) -> None:
        """Stop tracking the stage; its queue and row stay."""
        del self._stages[stage.id]
        key = (stage.vhost, stage.ticket.transaction)
        siblings = self._of_transaction[key]
        del siblings[stage.id]
        if not siblings:
            del self._of_transaction[key], self._renewed[key]
        for owner in (stage.owner, None):
            self._number[stage.vhost, owner] -= 1
            if not self._number[stage.vhost, owner]:
                del self._number[stage.vhost, owner]
        if stage.timer is not None:
            stage.timer.cancel()

    def _enter(self, stage: Stage, left: float) -> None:
        """``left``: the seconds that the stage lives from now on, unless its transaction is renewed."""
        self._stages[stage.id] = stage
        self._of_transaction.setdefault((stage.vhost, stage.ticket.transaction), {})[stage.id] = stage
        for owner in (stage.owner, None):
            self._number[stage.vhost, owner] += 1
        moment = self._broker.clock.now() + left
        renewed = self._renewed.setdefault((stage.vhost, stage.ticket.transaction), {})
        renewed[stage.owner] = max(moment, renewed.get(stage.owner, moment))
        self._expire_at(moment, stage)

    def _expire_at(self, moment: float, stage: Stage) -> None:
        stage.timer = self._broker.timers.at(moment, lambda: self._expire(stage))

    def _expire(self, stage: Stage) -> None:
        renewed = self._renewed[stage.vhost, stage.ticket.transaction][stage.owner]
        if renewed > self._broker.clock.now():
            self._expire_at(renewed, stage)
            return
        transaction, batch = stage.ticket.transaction, stage.ticket.batch
        told = {"vhost": stage.vhost.name, "transaction": transaction, "batch": batch, "messages": stage.messages}
        log.info("uncommitted stage dropped", **told)
        self.drop(stage)

    # ---- restart

    def restore(self, vhost: Vhost, committed: set[str]) -> None:
        """Restore the stages that are complete and remove the others. ``committed`` ones are moved by Commits."""
        for id_ in vhost.parameters.names(COMPONENT):
            if id_ not in committed and not self._restore(vhost, id_):
                discard(vhost, id_)
        for name in [name for name in vhost.internal.queues if name.startswith(STAGE)]:
            id_ = name.removeprefix(STAGE)
            if id_ not in committed and id_ not in self._stages:
                discard(vhost, id_)

    def _restore(self, vhost: Vhost, id_: str) -> bool:
        stage = left_by(vhost, id_)
        if stage is None or stage.queue.ready != stage.entries:
            return False
        stage.is_whole = True
        self._enter(stage, max(stage.since + LIFETIME - self._broker.clock.wall(), GRACE))
        return True


def left_by(vhost: Vhost, id_: str) -> Stage | None:
    """The stage from its row and its queue; None if one of them is missing or the row is invalid."""
    row, queue = vhost.parameters.get(COMPONENT, id_), vhost.internal.queues.get(f"{STAGE}{id_}")
    if row is None or queue is None:
        return None
    stage = Stage(id_, vhost, Ticket("", 0), 0.0, queue)
    try:
        stage.decode(row)
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        log.error("stage cannot be restored", vhost=vhost.name, stage=id_, reason=repr(problem))
        return None
    return stage


def discard(vhost: Vhost, id_: str) -> None:
    """Delete the row of a stage, and its queue with all messages."""
    name = f"{STAGE}{id_}"
    try:
        vhost.parameters.drop(COMPONENT, id_)
        if name in vhost.internal.queues:
            vhost.internal.remove(name)
    except ResourceFault as refusal:  # the store is read-only: the next start does it
        log.warning("stage cannot be dropped", vhost=vhost.name, stage=id_, reason=refusal.text)
