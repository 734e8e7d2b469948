"""Turns the appends and settles of a tick into records without a place.  Hot path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leveret.message import NEVER, Message
from leveret.store.batch import Append, Draft, Group, Timed, Unit
from leveret.store.lane_log import lane_key
from leveret.store.log import Placement
from leveret.store.records import (
    MOST_ADDRESSES,
    MOST_PLACES,
    PUBLISH,
    SETTLE,
    Entry,
    are_plain,
    entries_body,
    publish_body,
    returns_body,
)

ENTRIES_PER_RECORD = 4096
FEW = 64  # messages of an append that are worth putting into one record with their neighbours
MOST_JOINED = 1 << 20  # bytes of content that neighbours share a record up to


class Run:
    """Small appends that follow each other in the only lane of one queue."""

    __slots__ = ("messages", "one_address", "place", "receipt", "space", "synced")

    def __init__(self, append: Append, size: int) -> None:
        self.messages = list(append.messages)
        self.place: Placement = append.placements[0]
        self.receipt = append.receipt
        self.synced = append.synced
        self.one_address = append.one_address
        self.space = MOST_JOINED - size

    def takes(self, append: Append, size: int) -> bool:
        """Join it, if it lies just behind; else this run is at its end."""
        place, after = self.place, append.placements[0]
        if (
            after[2] != place[2] + len(self.messages)
            or size > self.space
            or append.synced != self.synced
            or len(self.messages) + len(append.messages) > MOST_ADDRESSES
        ):
            return False
        if append.messages[0][1] is not self.messages[-1][1]:
            self.one_address = False
        self.messages += append.messages
        self.receipt = append.receipt
        self.space -= size
        append.messages = ()
        return True

    def joined(self) -> Append:
        number = len(self.messages)
        joined = Append(self.messages, (self.place._replace(number=number),), self.receipt, self.synced)
        joined.one_address = self.one_address
        return joined


def in_runs(pending: Iterable[Append | Unit]) -> Iterator[Append | Unit]:
    """The appends and groups to write. A group may settle earlier appends, so those are placed first."""
    appends: list[Append] = []
    for each in pending:
        if isinstance(each, Unit):
            yield from joined_appends(appends)
            appends = []
            yield each
        elif each.left:  # else it was settled before it had to be written
            appends.append(each)
    yield from joined_appends(appends)


def joined_appends(appends: Iterable[Append]) -> Iterator[Append]:
    """The same, what goes to one lane in its order. Small ones that follow each other in a lane become one, a record
    and a checksum for all of them, also when those of other queues lie between: all are granted together."""
    runs: dict[int, Run] = {}  # by queue
    for append in appends:
        placements = append.placements
        if len(placements) == 1 and len(append.messages) <= FEW and not placements[0][4]:
            queue = placements[0][0]
            size = sum([len(message[0]) for message in append.messages])
            run = runs.get(queue)
            if run is not None and run.takes(append, size):
                continue
            if run is not None:
                yield run.joined()
            runs[queue] = Run(append, size)
            append.messages = ()
            continue
        for place in placements:
            run = runs.pop(place[0], None)
            if run is not None:
                yield run.joined()
        yield append
    yield from [run.joined() for run in runs.values()]


def draft_append(append: Append, time: float, wall_ahead: float) -> Group:
    """One record; more for a message that goes to tens of thousands of queues."""
    messages = append.messages
    whole = sum([len(message[0]) for message in messages])
    plain = are_plain(messages)
    group: Group = []
    for first in range(0, len(append.placements), MOST_PLACES):
        placements = append.placements[first : first + MOST_PLACES]
        parts = publish_body(messages, placements, time, wall_ahead, append.one_address, plain)
        sizes = [whole if place.number == len(messages) else _size_in(messages, place) for place in placements]
        timed = () if plain else [each for place in placements for each in _deadlines(messages, place, wall_ahead)]
        group.append(Draft(PUBLISH, parts, placements=placements, sizes=sizes, deadlines=timed))
    append.messages = ()  # the bytes are in the parts now
    return group


def _size_in(messages: Sequence[Message], place: Placement) -> int:
    """Bytes of content of those messages that are in this place."""
    return sum([len(content) for content, _, traits in messages if min(traits.priority, place.highest) == place.lane])


def _deadlines(messages: Sequence[Message], place: Placement, wall_ahead: float) -> Iterator[Timed]:
    key, sequence = lane_key(place.queue, place.lane), place.sequence
    for _, _, traits in messages:
        if min(traits.priority, place.highest) == place.lane:
            if traits.deadline != NEVER:
                yield key, traits.deadline + wall_ahead, sequence
            sequence += 1


def draft_unit(unit: Unit, settled: list[Entry], time: float, wall_ahead: float) -> Group:
    """All of a group. What it settles was in the index: never its own appends.

    It grants nothing early: what it settles may come back, with all of it, as long as it is not synced.
    """
    group = [draft for append in joined_appends(unit.appends) for draft in draft_append(append, time, wall_ahead)]
    if settled:
        group.append(Draft(SETTLE, [entries_body(settled)], entries=settled))
    if unit.returns:
        group.append(draft_returns(unit.returns))
    return group


def draft_returns(returns: Sequence[Entry]) -> Draft:
    kind, body = returns_body(returns)
    return Draft(kind, [body], entries=returns)


def draft_settles(entries: list[Entry]) -> Iterator[Group]:
    for first in range(0, len(entries), ENTRIES_PER_RECORD):
        some = entries[first : first + ENTRIES_PER_RECORD]
        yield [Draft(SETTLE, [entries_body(some)], entries=some)]
