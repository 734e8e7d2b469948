"""What a log owes: everything it was told, and when it promised what; kept beside a journal, and held against what a
recovery finds.

Time is the number of operations done on the disk. A crash after ``n`` of them happens before whatever is stamped ``n``
or later could reach the disk, and after everything that was granted by ``n``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from leveret.clock import Clock
from leveret.message import Message
from leveret.store.definitions import Change, Drop, Put, QueueRow
from leveret.store.journal import Journal
from leveret.store.log import Placement
from leveret.store.segments import Segments

Key = tuple[int, int, int]  # queue, lane, sequence
NEVER = 1 << 60


class Fate:
    """Of one message in one queue: when it was sent, granted, settled, and when that was promised to last."""

    __slots__ = ("granted", "message", "promised", "sent", "settled", "tries")

    def __init__(self, message: Message, sent: int) -> None:
        self.message = message
        self.sent = sent
        self.granted = NEVER
        self.settled = NEVER
        self.promised = NEVER
        self.tries: list[list[int]] = []  # (number, when it was told, when it was promised)


class Whole:
    """A group: what was sent and settled in it."""

    def __init__(self) -> None:
        self.sent: dict[Key, Fate] = {}
        self.settled: dict[Key, Fate] = {}
        self.is_empty = True


class Seen(NamedTuple):
    """What a recovery found: messages by key, tries by key, the next sequence by lane."""

    messages: dict[Key, Message]
    tries: dict[Key, int]
    tails: dict[tuple[int, int], int]
    queues: set[int]


class Ledger:
    def __init__(self) -> None:
        self.now: Callable[[], int] = lambda: 0  # operations done so far
        self.fates: dict[Key, Fate] = {}
        self.wholes: list[Whole] = []
        self.declared: dict[int, list[int]] = {}  # by queue: when it was granted, dropped, and that granted
        self._receipts: list[tuple[int, Callable[[int], None]]] = []  # what to do when they are granted
        self._settled: list[Fate] = []  # and not promised yet
        self._returned: list[list[int]] = []
        self._whole: Whole | None = None

    # ---- what the log is told

    def sent(self, messages: Sequence[Message], placements: Sequence[Placement], receipt: int) -> None:
        made: dict[Key, Fate] = {}
        for queue, lane, sequence, _, highest in placements:
            members = [message for message in messages if min(message[2].priority, highest) == lane]
            for place, message in enumerate(members, sequence):
                made[queue, lane, place] = Fate(message, self.now())
        self.fates.update(made)
        if self._whole is not None:
            self._whole.is_empty = False
            self._whole.sent.update(made)
        self.when(
            receipt, lambda now: _stamp([fate for fate in made.values() if fate.settled == NEVER], "granted", now)
        )

    def settled(self, keys: Iterable[Key]) -> None:
        if self._whole is not None:
            self._whole.is_empty = False
        for key in keys:
            fate = self.fates.get(key)
            if fate is not None and fate.settled == NEVER:
                fate.settled = self.now()
                if self._whole is None:
                    self._settled.append(fate)
                else:
                    self._whole.settled[key] = fate

    def returned(self, keys: Iterable[Key], tries: int) -> None:
        if self._whole is not None:
            self._whole.is_empty = False
        for key in keys:
            if key in self.fates:
                entry = [tries, self.now(), NEVER]
                self.fates[key].tries.append(entry)
                self._returned.append(entry)

    def promise(self, receipt: int) -> None:
        fates, self._settled = self._settled, []
        self._promise(receipt, fates)

    def _promise(self, receipt: int, fates: Iterable[Fate]) -> None:
        returned, self._returned = self._returned, []

        def granted(now: int) -> None:
            _stamp(fates, "promised", now)
            for entry in returned:
                entry[2] = now

        self.when(receipt, granted)

    def recorded(self, change: Change, receipt: int) -> None:
        if isinstance(change, Put) and isinstance(change.row, QueueRow):
            times = self.declared.setdefault(change.row.id, [NEVER, NEVER, NEVER])
            self.when(receipt, lambda now: times.__setitem__(0, now))
        elif isinstance(change, Drop) and change.kind is QueueRow:
            times = self.declared[int(change.key[0])]  # type: ignore[arg-type]
            times[1] = self.now()
            self.when(receipt, lambda now: times.__setitem__(2, now))

    @contextmanager
    def group(self) -> Iterator[Whole]:
        self._whole = whole = Whole()
        try:
            yield whole
        finally:
            self._whole = None
            self.wholes.append(whole)

    def close_group(self, whole: Whole, receipt: int) -> None:
        if not whole.is_empty:
            self._promise(receipt, whole.settled.values())

    # ---- what it says

    def when(self, receipt: int, call: Callable[[int], None]) -> None:
        self._receipts.append((receipt, call))

    def granted(self, receipt: int) -> None:
        due = [call for number, call in self._receipts if number <= receipt]
        self._receipts = [entry for entry in self._receipts if entry[0] > receipt]
        for call in due:
            call(self.now())

    def begin_life(self, seen: Seen) -> None:
        """What a recovery has found is on disk, and what it has not found stays away: sequences may be used again."""
        self.fates = {}
        for key, message in seen.messages.items():
            fate = self.fates[key] = Fate(message, -1)
            fate.granted = self.now()
            fate.tries = [[seen.tries.get(key, 0), -1, self.now()]]
        self.declared = {queue: [self.now(), NEVER, NEVER] for queue in seen.queues}
        self.wholes, self._receipts, self._settled, self._returned = [], [], [], []

    # ---- judging

    def check(self, seen: Seen, crash: int) -> None:
        """AssertionError if the log broke its word by a crash after so many operations."""
        for key, message in seen.messages.items():
            fate = self.fates.get(key)
            assert fate is not None, f"{key} was never sent: {message[0]!r}"
            assert fate.sent < crash, f"{key} was sent later: {message[0]!r}"
            assert is_same(message, fate.message), f"{key} was altered: {message} is not {fate.message}"
            assert fate.promised > crash, f"{key} was promised to be gone by {fate.promised} and is back"
        for key, fate in self.fates.items():
            if fate.granted <= crash <= fate.settled and key[0] in seen.queues:
                assert key in seen.messages, f"{key} was granted by {fate.granted} and is lost"
        self._check_order(seen)
        self._check_tries(seen, crash)
        self._check_queues(seen, crash)
        for whole in self.wholes:
            self._check_whole(whole, seen, crash)

    def _check_order(self, seen: Seen) -> None:
        for queue, lane, sequence in seen.messages:
            assert sequence < seen.tails[queue, lane], f"{sequence} of {queue}/{lane} could be given again"

    def _check_tries(self, seen: Seen, crash: int) -> None:
        for key, tries in seen.tries.items():
            told = [number for number, when, _ in self.fates[key].tries if when < crash]
            assert tries <= max(told, default=0), f"{key} was not tried {tries} times but {told}"
        for key in seen.messages:
            kept = max([number for number, _, promised in self.fates[key].tries if promised <= crash], default=0)
            assert seen.tries.get(key, 0) >= kept, f"{key} was tried {kept} times, not {seen.tries.get(key)}"

    def _check_queues(self, seen: Seen, crash: int) -> None:
        for queue, (made, dropped, deleted) in self.declared.items():
            if made <= crash <= dropped:
                assert queue in seen.queues, f"queue {queue} was declared by {made} and is lost"
            if deleted <= crash:
                assert queue not in seen.queues, f"queue {queue} was deleted by {deleted} and is back"

    def _check_whole(self, whole: Whole, seen: Seen, crash: int) -> None:
        """Of a group all or nothing; of what left its queue later nothing can be said."""
        happened: set[Key] = set()
        missing: set[Key] = set()
        for key, fate in whole.sent.items():
            is_there = key in seen.messages and self.fates.get(key) is fate
            if is_there:
                happened.add(key)
            elif key[0] in seen.queues and fate.settled >= crash:
                missing.add(key)
        for key, fate in whole.settled.items():
            if key in seen.messages:
                missing.add(key)
            elif key[0] in seen.queues and fate.granted <= min(fate.settled, crash):
                happened.add(key)
        assert not (happened and missing), f"half a group: {happened} happened, {missing} did not"


def _stamp(fates: Iterable[Fate], what: str, now: int) -> None:
    for fate in fates:
        setattr(fate, what, now)


def is_same(one: Message, other: Message) -> bool:
    """All that is kept of a message."""
    (content, address, traits), (wanted, place, asked) = one, other
    return (content, address.exchange, address.key, traits.priority, traits.deadline, traits.persistent) == (
        (wanted, place.exchange, place.key, asked.priority, asked.deadline, asked.persistent)
    )


class SpyJournal(Journal):
    """Tells a ledger all that it is told."""

    def __init__(self, segments: Segments, clock: Clock, ledger: Ledger) -> None:
        super().__init__(segments, clock)
        self.ledger = ledger

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        receipt = super().append(messages, placements, synced)
        self.ledger.sent(messages, placements, receipt)
        return receipt

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        super().settle(queue, lane, sequence, number)
        self.ledger.settled((queue, lane, place) for place in range(sequence, sequence + number))

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        super().returned(queue, lane, sequence, number, tries)
        self.ledger.returned([(queue, lane, place) for place in range(sequence, sequence + number)], tries)

    def record(self, change: Change) -> int:
        receipt = super().record(change)
        self.ledger.recorded(change, receipt)
        return receipt

    def promise(self) -> int:
        receipt = super().promise()
        self.ledger.promise(receipt)
        return receipt

    @contextmanager
    def group(self) -> Iterator[None]:
        with self.ledger.group() as whole, super().group():
            yield
        self.ledger.close_group(whole, self.issued)
