"""Browses the messages of a queue without consuming them, filtered by a query.

    ?selector=colour = 'red'      the SQL of JMS over headers and properties
    &headers.colour=red           a header with this value
    &contains=text                a text in the body
    &json=customer.id=42          a value at this path of a JSON body
    &death.reason=rejected        the first dead-lettering: reason, queue, exchange, routing_key, error, task

All filters must match. ``after`` continues behind the ``position`` of an earlier response. Browsing is limited by the
messages returned, the messages read, their bytes, and time. It reads fewer messages per step if they are large or slow
to filter, since other clients wait meanwhile. A body that is too large to be searched does not match; ``too_large``
counts such messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple, Protocol

from leveret.api.dead_letter_filter import QUERY as DEATH
from leveret.api.dead_letter_filter import WantedDeath, headers_of, wanted_death
from leveret.api.job_completion import JobCompletion
from leveret.api.views.message import LARGEST_JSON, plain
from leveret.backlog.walk import START, STEP, Position
from leveret.broker.background import BackgroundTasks
from leveret.broker.queue_jobs import Browse, Filter, Scope, matching
from leveret.http.errors import BadRequest
from leveret.http.values import text_of
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.wire.content import body_of

TEXTS = ("selector", "contains", "json")
HEADER = "headers."
MOST_EXAMINED = 200_000  # messages
MOST_BYTES = 16 << 20  # bytes of messages returned
STEP_BYTES = 128 << 10  # bytes of messages read per step
STEP_SECONDS = 0.002  # time of a step: an arriving message waits that long
LARGEST_SEARCHED = 4 << 20  # bytes of a message that is searched for a text
FIRST_STEP = 20  # messages
SECONDS = 30.0
NOTHING = object()


class JsonPath(NamedTuple):
    """A path of object names and list positions, and the value that must be there."""

    path: tuple[str, ...]
    text: str
    value: object

    def holds(self, body: bytes) -> bool:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            return False
        for part in self.path:
            found = _inside(found, part)
        return found == self.text if isinstance(found, str) else _is_same(found, self.value)


class Sieve(NamedTuple):
    selector: Filter | None = None
    headers: tuple[tuple[str, str], ...] = ()
    contains: bytes = b""
    json: JsonPath | None = None
    death: WantedDeath | None = None

    @property
    def reads_bodies(self) -> bool:
        return bool(self.contains) or self.json is not None

    def is_too_large(self, message: Message) -> bool:
        """Whether the body cannot be read for the filter."""
        if not self.reads_bodies:
            return False
        return len(message[0]) > (LARGEST_SEARCHED if self.json is None else LARGEST_JSON)

    def takes_head(self, message: Message) -> bool:
        """The filters that do not need the body."""
        if self.selector is not None and not self.selector(message):
            return False
        if self.headers and not self._has_headers(message):
            return False
        return self.death is None or self.death.is_of(message)

    def takes_body(self, message: Message) -> bool:
        if not self.reads_bodies:
            return True
        body = body_of(message[0])
        return self.contains in body and (self.json is None or self.json.holds(body))

    def _has_headers(self, message: Message) -> bool:
        headers = headers_of(message)
        return all(name in headers and _shown(headers[name]) == text for name, text in self.headers)


class Takes(Protocol):
    """A filter. A message matches if its head and its body do; the body is checked last."""

    @property
    def reads_bodies(self) -> bool: ...

    def takes_head(self, message: Message) -> bool: ...

    def is_too_large(self, message: Message) -> bool: ...

    def takes_body(self, message: Message) -> bool: ...


class TimedSieve:
    """A filter that measures its time, since many headers or JSON bodies are slow to filter."""

    def __init__(self, sieve: Takes) -> None:
        self._sieve = sieve
        self._seconds = 0.0
        self.too_large = 0  # messages that are too large to be searched

    def takes(self, message: Message) -> bool:
        began = perf_counter()
        is_wanted = self._sieve.takes_head(message)
        if is_wanted and self._sieve.is_too_large(message):
            self.too_large += 1
            is_wanted = False
        is_wanted = is_wanted and self._sieve.takes_body(message)
        self._seconds += perf_counter() - began
        return is_wanted

    @property
    def reads_bodies(self) -> bool:
        return self._sieve.reads_bodies

    def is_tired(self) -> bool:
        """Whether the time of a step is used up; resets the time."""
        if self._seconds < STEP_SECONDS:
            return False
        self._seconds = 0.0
        return True


def sieve_of(query: Mapping[str, str]) -> Sieve | None:
    """None if the query has no filter."""
    selector, contains = text_of(query, "selector", ""), text_of(query, "contains", "")
    headers = tuple((name.removeprefix(HEADER), text) for name, text in query.items() if name.startswith(HEADER))
    path, death = text_of(query, "json", ""), wanted_death(query)
    if not (selector.strip() or contains or headers or path or death):
        return None
    return Sieve(
        matching(selector) if selector.strip() else None,
        headers,
        contains.encode(),
        _json_path(path) if path else None,
        death,
    )


def sieve_texts(given: Mapping[str, object]) -> dict[str, str]:
    """The filters in a JSON object, by their names in a query."""
    names = [name for name in given if name in TEXTS or name.startswith((HEADER, DEATH))]
    return {name: text_of(given, name) for name in names}


def _json_path(text: str) -> JsonPath:
    path, equals, value = text.partition("=")
    if not path or not equals:
        raise BadRequest(f"'json' must be a path and a value, as in customer.id=42, not '{text[:80]}'")
    return JsonPath(tuple(path.split(".")), value, _value(value))


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOTHING


def _inside(value: object, part: str) -> object:
    if isinstance(value, dict):
        return value.get(part, NOTHING)
    if isinstance(value, list) and part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < len(value):
        return value[int(part)]
    return NOTHING


def _is_same(found: object, value: object) -> bool:
    """True does not equal 1, and a missing value does not equal anything."""
    if found is NOTHING or value is NOTHING or isinstance(found, bool) != isinstance(value, bool):
        return False
    return found == value


def _shown(value: object) -> str:
    simple = plain(value)
    return simple if isinstance(simple, str) else json.dumps(simple)


class Look(Browse):
    """``await look.until_over()``, then read ``found``. ``is_complete``: the whole queue was browsed."""

    def __init__(
        self,
        queue: DeclaredQueue,
        background: BackgroundTasks,
        sieve: Sieve | None,
        limit: int,
        after: Position = START,
    ) -> None:
        self._sieve = None if sieve is None else TimedSieve(sieve)
        self._shown_bytes = self._seen_bytes = 0
        self._completion = JobCompletion()
        is_tired = None if self._sieve is None else self._sieve.is_tired
        scope = Scope(self._passes, limit, self._completion.notify, is_tired=is_tired, after=after)
        super().__init__(queue, background, scope)

    @property
    def is_complete(self) -> bool:
        return self._walk.is_over

    @property
    def too_large(self) -> int:
        """Messages that were too large for the filter."""
        return 0 if self._sieve is None else self._sieve.too_large

    async def until_over(self) -> None:
        await self._completion.run(self, SECONDS)

    def pace(self) -> int:
        if self._sieve is None:
            return STEP
        if not self._seen_bytes:
            return FIRST_STEP
        return max(1, min(STEP, STEP_BYTES * self.examined // self._seen_bytes))

    def _passes(self, message: Message) -> bool:
        if self.examined > MOST_EXAMINED or self._shown_bytes > MOST_BYTES:
            self.examined -= 1
            self.cancel()
            return False
        size = len(message[0])
        self._seen_bytes += size
        if self._sieve is not None and not self._sieve.takes(message):
            return False
        self._shown_bytes += size
        return True
