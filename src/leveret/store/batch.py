"""Drafts of records and the batches in which they go from the event loop to the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from leveret.message import Message
from leveret.store.definitions import Change
from leveret.store.log import Placement
from leveret.store.records import HEAD_SIZE, Entry

Settled = list[int]  # queue, lane, sequence, number
Timed = tuple[int, float, int]  # lane_key(), wall time of the deadline, sequence


class Append:
    """Messages on their way to the disk. ``left`` of their places are not settled yet. Those of one publish have one
    address; what is joined from several may have more."""

    __slots__ = ("left", "messages", "one_address", "placements", "receipt", "synced")

    def __init__(
        self, messages: Sequence[Message], placements: Sequence[Placement], receipt: int, synced: bool
    ) -> None:
        self.messages = messages
        self.placements = placements
        self.receipt = receipt
        self.synced = synced
        self.one_address = True
        self.left = sum([placement[3] for placement in placements])


class Unit:
    """The appends, settles and returns inside ``group()``."""

    def __init__(self) -> None:
        self.appends: list[Append] = []
        self.settles: list[Settled] = []
        self.returns: list[Entry] = []

    @property
    def size(self) -> int:
        """About how many bytes it will take."""
        contents = sum(len(message[0]) for append in self.appends for message in append.messages)
        return contents + 64 * (len(self.appends) + len(self.settles) + len(self.returns))


class Draft:
    """A record without its place. ``origin`` is where its messages lie so far, if anywhere: they move.

    A copy has a ``home``: the record it was made of, and the first sequence of each placement there.
    """

    __slots__ = ("deadlines", "entries", "home", "kind", "origin", "parts", "placements", "size", "sizes")

    def __init__(
        self,
        kind: int,
        parts: list[bytes],
        *,
        placements: Sequence[Placement] = (),
        sizes: Sequence[int] = (),
        entries: Sequence[Entry] = (),
        deadlines: Sequence[Timed] = (),
        home: tuple[int, int, tuple[int, ...]] | None = None,
    ) -> None:
        self.kind = kind
        self.parts = parts
        self.placements = placements
        self.sizes = sizes  # bytes of content in each placement
        self.entries = entries
        self.deadlines = deadlines  # of those messages that have one of their own
        self.home = home
        self.origin: tuple[int, int] | None = None if home is None else home[:2]
        self.size = HEAD_SIZE + sum([len(part) for part in parts])


Group = list[Draft]


class Noted(NamedTuple):
    """A return that was placed: its message and segment, and the (delivery count, segment) that it replaces."""

    lane: int  # by lane_key()
    sequence: int
    segment: int
    before: tuple[int, int] | None


class Batch:
    """One hand-over to the writer. The writer handles batches in order.

    First the changes are committed, then the writes are appended and synced, then the removals are done: so a queue is
    on disk before its messages, and nothing is removed before what replaces it is safe. Last comes ``after``, in the
    writer: it gets the segment that is open then, finds all of this batch on disk and nothing of later ones.
    """

    __slots__ = (
        "after",
        "changes",
        "emptied",
        "end",
        "era",
        "groups",
        "kept",
        "noted",
        "receipt",
        "removals",
        "reserves",
        "sync",
        "unpins",
        "writes",
    )

    def __init__(self, era: int) -> None:
        self.receipt = 0  # granted when this is done
        self.era = era  # positions of an era are void once a write in it has failed
        self.sync = False
        self.reserves = False  # reserve some space first
        self.unpins = False  # all that was held is in this
        self.changes: list[Change] = []
        self.writes: list[tuple[int, list[bytes]]] = []  # (segment, buffers)
        self.removals: list[int] = []
        self.emptied: list[int] = []  # segments of which all that counts is written elsewhere, with this
        self.noted: list[Noted] = []  # returns in this
        self.kept: list[int] = []  # segments that the writer could not remove
        self.end = (0, 0)  # segment and offset up to which everything is written when this is done
        self.after: Callable[[int], None] | None = None  # raises nothing
        self.groups: list[Group] = []  # what the writes were made of, to make them again elsewhere

    @property
    def is_needed(self) -> bool:
        return bool(self.writes or self.changes or self.removals or self.emptied or self.sync)

    def write(self, segment: int, buffers: list[bytes]) -> None:
        if self.writes and self.writes[-1][0] == segment:
            self.writes[-1][1].extend(buffers)
        else:
            self.writes.append((segment, buffers))
