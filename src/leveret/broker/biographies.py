"""Message traces: the events of single messages, from receipt to removal.

A trace is a list of events, each with a time, a kind and details. A message in three queues has one trace, which goes
on when it is dead-lettered. A message is identified by its *place* (queue, lane, sequence), which is unique.

Traces are bounded in number and in bytes, and the oldest is discarded first. Bodies are never kept, long headers are
truncated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

MOST_STORIES = 10_000  # of a virtual host: enough to look for a fault, not an archive
MOST_BYTES = 16 << 20  # approximate size: tracing must not raise the memory alarm
FIRST_EVENTS, LAST_EVENTS = 50, 150  # of one trace: the first and the latest of a message that is requeued for ever
EVENT_BYTES = 400  # a tuple, a dict and some strings
STORY_BYTES = 600

Facts = dict[str, Any]
Where = tuple[int, int, int]  # queue id, lane, sequence


class Event(NamedTuple):
    time: float  # wall time
    what: str
    facts: Facts


class Story:
    __slots__ = ("_size", "events", "facts", "left_out", "number", "past", "places", "queues")

    def __init__(self, number: int, facts: Facts, size: int) -> None:
        self.number = number
        self.facts = facts  # message_id, exchange, routing_key, properties, size
        self.events: list[Event] = []
        self.left_out = 0  # events in the middle that were dropped
        self.places: dict[Where, str] = {}  # current places, with the name of the queue
        self.past: list[Where] = []  # former places
        self.queues: dict[str, None] = {}  # all queues it has been in
        self._size = STORY_BYTES + size

    @property
    def id(self) -> str:
        return f"m{self.number}"

    @property
    def size(self) -> int:
        return self._size + EVENT_BYTES * len(self.events)

    def add(self, event: Event) -> None:
        if len(self.events) == FIRST_EVENTS + LAST_EVENTS:
            del self.events[FIRST_EVENTS]
            self.left_out += 1
        self.events.append(event)


class Biographies:
    """The traces of one virtual host, oldest first."""

    def __init__(self, *, most: int = MOST_STORIES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._numbers = count(1)
        self._stories: OrderedDict[int, Story] = OrderedDict()
        self._by_place: dict[Where, Story] = {}
        self._by_message_id: dict[str, Story] = {}  # the latest with that id
        self.forgotten = 0  # discarded because of the limits
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._stories)

    def newest_first(self) -> Iterator[Story]:
        return reversed(self._stories.values())

    # ---- writing

    def begin(self, facts: Facts, size: int) -> Story:
        story = Story(next(self._numbers), facts, size)
        self._stories[story.number] = story
        self.bytes += story.size
        message_id = facts.get("message_id")
        if message_id:
            self._by_message_id[message_id] = story
        while self._stories and (len(self._stories) > self._most or self.bytes > self._most_bytes):
            self.forgotten += 1
            self._remove(next(iter(self._stories.values())))
        return story

    def tell(self, story: Story, time: float, what: str, facts: Mapping[str, Any]) -> None:
        before = story.size
        story.add(Event(time, what, dict(facts)))
        if story.number in self._stories:
            self.bytes += story.size - before

    def put(self, story: Story, where: Where, queue: str) -> None:
        """The message is at this place now."""
        story.queues[queue] = None
        if story.number in self._stories:
            story.places[where] = queue
            self._by_place[where] = story

    def leave(self, where: Where) -> None:
        """The message left this place; its trace can still be found by it."""
        story = self._by_place.get(where)
        if story is not None and where in story.places:
            del story.places[where]
            story.past.append(where)
            if len(story.past) > LAST_EVENTS:  # a message that is requeued for ever keeps its latest places
                self._drop_places(story, [story.past.pop(0)])

    # ---- finding

    def at(self, where: Where) -> Story | None:
        return self._by_place.get(where)

    def in_queue(self, queue: int) -> list[Where]:
        """Places of this queue that hold a traced message now."""
        return [where for where, story in self._by_place.items() if where[0] == queue and where in story.places]

    def find(self, name: str) -> Story | None:
        """By its own id (m12), by a place as shown when browsing a queue (7-0-12), or by its message-id."""
        if name[:1] == "m" and is_number(name[1:]) and int(name[1:]) in self._stories:
            return self._stories[int(name[1:])]
        where = place_of(name)
        if where is not None and where in self._by_place:
            return self._by_place[where]
        return self._by_message_id.get(name)

    # ---- forgetting

    def forget(self, story: Story) -> None:
        if story.number in self._stories:
            self._remove(story)

    def forget_all(self) -> int:
        number = len(self._stories)
        self._stories.clear()
        self._by_place.clear()
        self._by_message_id.clear()
        self.bytes = 0
        return number

    def _remove(self, story: Story) -> None:
        del self._stories[story.number]
        self.bytes -= story.size
        self._drop_places(story, [*story.places, *story.past])
        message_id = story.facts.get("message_id")
        if message_id and self._by_message_id.get(message_id) is story:
            del self._by_message_id[message_id]

    def _drop_places(self, story: Story, places: Iterable[Where]) -> None:
        for where in places:
            if self._by_place.get(where) is story:
                del self._by_place[where]


def place_of(text: str) -> Where | None:
    parts = text.split("-")
    if len(parts) != 3 or not all(is_number(part) for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
