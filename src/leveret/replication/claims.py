"""Leader epochs: the log itself decides which node leads.

A node claims the leadership by a CLAIM record, which the engine appends only if the log still ends where the node has
read it (compare and set). So a claim is stored directly behind the last record that its node has read, or nowhere. From
the next record on, only records of this epoch count, until the next claim.

Two rules prevent that two nodes depose each other again and again:

- A claim needs a proof that the leader of one epoch is dead. Once another node's claim is read, the proof is out of
  date: to claim again takes a proof about the leader of the new epoch.
- A life is one run of one process. A node that restarts finds its former claim as that of another life, and never
  continues the epoch: it may have forgotten what it had sent.

Correctness needs neither rule: a proof may be wrong, and the leader alive. Its records behind the claim do not count,
and it grants none of them (replication/append_window.py).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from leveret.errors import ClusterError
from leveret.replication.records import CLAIM, Head, body_of, encode_record

LONGEST_NAME = 1024  # bytes of a claim's body


class Claim(NamedTuple):
    """A CLAIM record that was read, at its place in the log."""

    epoch: int
    sequence: int
    batch: int  # the first one of this epoch
    node: str
    life: str
    has_base: bool = False  # the log begins with the data directory of this node, which members have to copy


class ClaimAttempt(NamedTuple):
    """To be appended if the last sequence of the log is ``expected``."""

    expected: int
    epoch: int
    payload: bytes


class Position(NamedTuple):
    """What a member has: all batches up to ``batch``. The last record that it read is ``sequence``, in ``epoch``."""

    sequence: int = 0
    epoch: int = 0
    batch: int = 0


class StaleProof(Exception):
    """The proof is about another epoch than that of the log."""


def decode_claim(head: Head, sequence: int, payload: bytes) -> Claim:
    body = body_of(payload)
    try:
        node, life, has_base = msgspec.msgpack.decode(body[: LONGEST_NAME + 1], type=tuple[str, str, bool])
    except msgspec.MsgspecError as problem:
        raise ClusterError(
            f"the claim at record {sequence} of the replicated log cannot be read ({problem}): upgrade this node"
        ) from problem
    return Claim(head.epoch, sequence, head.batch, node, life, has_base)


class Candidate:
    """One life of a node, as it tries to become the leader."""

    def __init__(self, cell: int, node: str, life: str) -> None:
        self.node = node
        self.life = life
        self._cell = cell
        self._attempts: dict[int, int] = {}  # sequence: epoch

    def attempt(self, at: Position, dead: int, has_base: bool = False) -> ClaimAttempt:
        """``at`` is where this node has read the log to, ``dead`` the epoch whose leader is proved to be dead, 0 if
        there was none yet. ``has_base``: this is the first claim, and the node has data that is not in the log."""
        if dead != at.epoch:
            raise StaleProof(f"the proof is about epoch {dead}, the log is in epoch {at.epoch}")
        epoch = at.epoch + 1
        body = msgspec.msgpack.encode((self.node, self.life, has_base))
        if len(body) > LONGEST_NAME:
            raise ClusterError(f"the node name {self.node[:40]!r}... is too long: choose one below 900 bytes")
        self._attempts[at.sequence + 1] = epoch
        return ClaimAttempt(at.sequence, epoch, encode_record(Head(CLAIM, 0, self._cell, epoch, at.batch + 1, 0), body))

    def forget(self) -> None:
        """The claims that were made are over, wherever they are read."""
        self._attempts.clear()

    def has_won(self, claim: Claim) -> bool:
        """Whether a claim that was read is one that this life made."""
        return claim.life == self.life and self._attempts.get(claim.sequence) == claim.epoch
