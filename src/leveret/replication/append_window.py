"""The leader's appends to the log: pipelined, granted in order, fenced.

Every record is sent with the sequence at which it must be stored, its *predicted* sequence: the engine stores it there
or refuses it (compare and set on the last sequence). Predictions begin behind the leader's own claim, so between the
claim and a record there are only records of this leader, and those that it has read and found void. A record that is
stored at its predicted sequence, with all before it stored at theirs, counts for every member: it is *granted*.

That the engine has stored one record says nothing about those before it. When the records for 10 and 11 are under way
and another record takes 10, the first is refused, but the second is stored at 11, as predicted: it is void, since its
predecessor is missing. So grants are strictly in order.

When an append is refused or not answered, the log itself is asked what is at the first sequence that is not known:

    nothing                 send again what is under way, with the same predictions and message ids: the engine answers
                            a repeated id with the sequence of the first
    our record              the acknowledgement was lost: as if it had arrived
    a claim, a higher epoch another node leads: grant nothing more, ever
    anything else           void: pass over it; all that is under way moves one sequence up, and acknowledgements for
                            former predictions do not count

This class does no IO: after each call, ``take_work`` says what to send and what to read.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from leveret.errors import ClusterError
from leveret.replication.claims import Claim, Position
from leveret.replication.records import CLAIM, PART_SIZE, Head, read_head, split

SIZE = 4  # records under way: more only wait in the engine
WORTHWHILE = 16 << 10  # bytes: a smaller record waits for the one that is under way

Token = TypeVar("Token")


class Send(NamedTuple):
    """Append ``payload`` if the last sequence of the log is ``sequence - 1``."""

    message_id: str
    sequence: int
    payload: bytes


class Read(NamedTuple):
    """Read the record with this sequence, if there is one."""

    sequence: int


class _Entry(Generic[Token]):
    __slots__ = ("head", "is_acknowledged", "payload", "token")

    def __init__(self, head: Head, payload: bytes, token: Token | None) -> None:
        self.head = head
        self.payload = payload
        self.token = token  # with the last part of a batch
        self.is_acknowledged = False


class AppendWindow(Generic[Token]):
    """One epoch of one leader. A ``Token`` stands for a batch, and is returned when that is granted."""

    def __init__(self, cell: int, claim: Claim, size: int = SIZE, part_size: int = PART_SIZE) -> None:
        self.deposed: str | None = None  # why nothing is granted any more
        self.epoch = claim.epoch
        self.next_batch = claim.batch
        self.position = Position(claim.sequence, claim.epoch, claim.batch - 1)  # of the last batch that was granted
        self.granted_bytes = 0
        self._cell = cell
        self._size = size
        self._part_size = part_size
        self._known = claim.sequence  # up to here every record is ours and granted, or void
        self._sent: deque[_Entry[Token]] = deque()  # predicted at _known + 1, _known + 2, ...
        self._waiting: deque[_Entry[Token]] = deque()
        self._is_reading = False
        self._work: list[Send | Read] = []

    def has_room(self, size: int) -> bool:
        """Whether to send so many bytes at once. Until then, better gather more: the engine needs about the same time
        for a small record as for a large one, and does the next one after it. So small ones are not pipelined."""
        if self._waiting or self._is_reading or self.deposed is not None:
            return False
        return not self._sent or (size >= WORTHWHILE and len(self._sent) < self._size)

    @property
    def is_idle(self) -> bool:
        """Whether all that was appended is granted."""
        return not self._sent and not self._waiting

    def append(self, body: bytes, token: Token) -> None:
        """Append a batch."""
        for head, payload in split(self._cell, self.epoch, self.next_batch, body, self._part_size):
            self._waiting.append(_Entry(head, payload, token if head.is_last else None))
        self.next_batch += 1
        self._fill()

    def take_work(self) -> list[Send | Read]:
        work, self._work = self._work, []
        return work

    # ---- answers of the engine

    def acknowledge(self, message_id: str, sequence: int) -> list[Token]:
        """The engine has stored this message at this sequence. Returns what is granted by that."""
        if self.deposed is not None:
            return []
        for place, entry in enumerate(self._sent):
            if self._id(place) == message_id:
                if sequence != self._known + 1 + place:
                    self._depose(
                        f"batch {entry.head.batch} was stored at {sequence} instead of {self._known + 1 + place}"
                    )
                    return []
                entry.is_acknowledged = True
                return self._grant()
        return []  # granted already, or the answer to a former prediction

    def look(self) -> None:
        """An append was refused or not answered: ask the log what there is."""
        if self._sent and not self._is_reading and self.deposed is None:
            self._is_reading = True
            self._work.append(Read(self._known + 1))

    def reconnect(self) -> None:
        """The connection is a new one: answers to what was sent and asked before will not come."""
        self._work.clear()
        self._is_reading = False
        self.look()

    def found(self, sequence: int, payload: bytes | None) -> list[Token]:
        """The log has this record at this sequence, or None yet. Returns what is granted by that."""
        if not self._is_reading or sequence != self._known + 1 or self.deposed is not None:
            return []
        if payload is None:
            self._send_again()
            return []
        try:
            head = read_head(payload, self._cell, sequence)
        except ClusterError as problem:
            self._depose(str(problem))
            return []
        return self._judge(head, payload)

    def _judge(self, head: Head | None, payload: bytes) -> list[Token]:
        first = self._sent[0]
        if head is not None and head == first.head and payload == first.payload:
            first.is_acknowledged = True
            return self._grant()
        if head is not None and (head.epoch > self.epoch or head == first.head):
            kind = "claimed" if head.kind == CLAIM else "used"
            self._depose(f"epoch {head.epoch} was {kind} by another node at record {self._known + 1}")
            return []
        self._pass_over()
        return []

    def _pass_over(self) -> None:
        self._known += 1
        for entry in self._sent:
            entry.is_acknowledged = False
        self._work.append(Read(self._known + 1))

    def _grant(self) -> list[Token]:
        granted: list[Token] = []
        known = self._known
        while self._sent and self._sent[0].is_acknowledged:
            entry = self._sent.popleft()
            self._known += 1
            self.granted_bytes += len(entry.payload)
            if entry.token is not None:
                granted.append(entry.token)
                self.position = Position(self._known, self.epoch, entry.head.batch)
        if self._is_reading and self._sent:
            if self._known > known:
                self._work.append(Read(self._known + 1))
        else:
            self._is_reading = False
            self._fill()
        return granted

    # ---- sending

    def _id(self, place: int) -> str:
        """Names the record and its predicted sequence: a record that moves up is another message to the engine."""
        head = self._sent[place].head
        return f"{self.epoch}/{head.batch}/{head.part}/{self._known + 1 + place}"

    def _send(self, place: int) -> None:
        self._work.append(Send(self._id(place), self._known + 1 + place, self._sent[place].payload))

    def _send_again(self) -> None:
        self._is_reading = False
        for place, entry in enumerate(self._sent):
            if not entry.is_acknowledged:
                self._send(place)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._sent) < self._size and not self._is_reading and self.deposed is None:
            self._sent.append(self._waiting.popleft())
            self._send(len(self._sent) - 1)

    def _depose(self, reason: str) -> None:
        self.deposed = reason
        self._work.clear()
