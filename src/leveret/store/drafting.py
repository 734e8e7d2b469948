"""From what was noted during a turn to records without a place.  Hot path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leveret.message import Message
from leveret.store.batch import Append, Draft, Group, Unit
from leveret.store.log import Placement
from leveret.store.records import MOST_PLACES, PUBLISH, SETTLE, Entry, entries_body, publish_body, returns_body

ENTRIES_PER_RECORD = 4096
FEW = 64  # messages of an append that are worth putting into one record with their neighbours
MOST_JOINED = 1 << 20  # bytes of content that neighbours share a record up to


def in_runs(pending: Iterable[Append | Unit]) -> Iterator[Append | Unit]:
    """What is to be written, in order. Small appends that follow each other in one lane become one: a record and a
    checksum for all of them."""
    run: Append | None = None
    room = 0
    for append in pending:
        if isinstance(append, Append):
            if not append.left:
                continue  # settled before it had to be written
            size = sum([len(message[0]) for message in append.messages]) if len(append.messages) <= FEW else MOST_JOINED
            if run is not None and size <= room and _goes_on(run, append):
                run = _joined(run, append)
                room -= size
                continue
            room = MOST_JOINED - size
        if run is not None:
            yield run
            run = None
        if isinstance(append, Append):
            run = append
        else:
            yield append
    if run is not None:
        yield run


def _goes_on(run: Append, append: Append) -> bool:
    """Whether the append lies behind the run in the only lane of the only queue of both."""
    if len(run.placements) != 1 or len(append.placements) != 1:
        return False
    before, after = run.placements[0], append.placements[0]
    return (
        after.queue == before.queue
        and after.sequence == before.sequence + before.number
        and after.highest == before.highest == 0
        and append.messages[0][1] is run.messages[0][1]
        and append.synced == run.synced
    )


def _joined(run: Append, append: Append) -> Append:
    before, after = run.placements[0], append.placements[0]
    place = Placement(before.queue, before.lane, before.sequence, before.number + after.number)
    joined = Append([*run.messages, *append.messages], (place,), append.receipt, run.synced)
    run.messages = append.messages = ()
    return joined


def draft_append(append: Append, time: float, wall_ahead: float) -> Group:
    """One record; more for a message that goes to tens of thousands of queues."""
    messages = append.messages
    whole = sum([len(message[0]) for message in messages])
    group: Group = []
    for first in range(0, len(append.placements), MOST_PLACES):
        placements = append.placements[first : first + MOST_PLACES]
        parts = publish_body(messages, placements, time, wall_ahead)
        sizes = [whole if place.number == len(messages) else _size_in(messages, place) for place in placements]
        group.append(Draft(PUBLISH, parts, placements=placements, sizes=sizes))
    append.messages = ()  # the bytes are in the parts now
    return group


def _size_in(messages: Sequence[Message], place: Placement) -> int:
    """Bytes of content of those messages that are in this place."""
    return sum([len(content) for content, _, traits in messages if min(traits.priority, place.highest) == place.lane])


def draft_unit(unit: Unit, settled: list[Entry], time: float, wall_ahead: float) -> Group:
    """All of a group. What it settles was in the index: never its own appends.

    It grants nothing early: what it settles may come back, with all of it, as long as it is not synced.
    """
    group = [draft for append in unit.appends for draft in draft_append(append, time, wall_ahead)]
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
