"""From what was noted during a turn to records without a place.  Hot path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leveret.message import Message
from leveret.store.batch import Append, Draft, Group, Unit
from leveret.store.log import Placement
from leveret.store.records import MOST_PLACES, PUBLISH, RETURN, SETTLE, Entry, entries_body, publish_body

ENTRIES_PER_RECORD = 4096


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
        group.append(Draft(RETURN, [entries_body(unit.returns)], entries=unit.returns))
    return group


def draft_settles(entries: list[Entry]) -> Iterator[Group]:
    for first in range(0, len(entries), ENTRIES_PER_RECORD):
        some = entries[first : first + ENTRIES_PER_RECORD]
        yield [Draft(SETTLE, [entries_body(some)], entries=some)]
