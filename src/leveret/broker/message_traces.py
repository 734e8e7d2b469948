"""Message traces: the events of single messages, from receipt to removal.

A trace is a list of events, each with a time, a kind and details. A message in three queues has one trace, which
continues when the message is dead-lettered. A message is identified by its unique *place* (queue, lane, sequence).

Traces are bounded in number and in bytes, and the oldest is discarded first. Bodies are never kept, long headers are
truncated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from leveret.broker.firehose import property_table
from leveret.broker.vhost import Vhost
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.traced_queues import ACKED, DELIVERY_LIMIT, PURGED, QUEUE_DELETED, REJECTED
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.wire.content import body_at, body_size
from leveret.wire.properties import Properties

MOST_TRACES = 10_000  # of a virtual host: enough to find a fault, not an archive
MOST_BYTES = 16 << 20  # approximate size: tracing must not raise the memory alarm
FIRST_EVENTS, LAST_EVENTS = 50, 150  # of one trace: the first and latest of a message that is requeued endlessly
EVENT_BYTES = 400  # a tuple, a dict and some strings
TRACE_BYTES = 600

Facts = dict[str, Any]
Where = tuple[int, int, int]  # queue id, lane, sequence

MOST_HEADER_BYTES = 4096  # of one message: ten thousand traces must stay small
LONGEST_VALUE = 200  # characters of a header value that is kept when headers are truncated
DEPARTURES: dict[str, tuple[str, Facts]] = {
    ACKED: ("acked", {}),
    REJECTED: ("rejected", {}),
    DELIVERY_LIMIT: ("dropped", {"reason": "delivery_limit"}),
    PURGED: ("purged", {}),
    QUEUE_DELETED: ("dropped", {"reason": "the queue was deleted"}),
}

MOST_TRIED = 500  # bindings of one exchange: the work is done for each traced message
STAND_IN = Destination("exchange", "\x00")  # no queue or exchange has this name
Step = dict[str, Any]


class Event(NamedTuple):
    time: float  # wall time
    what: str
    facts: Facts


class MessageTrace:
    __slots__ = ("_size", "events", "facts", "left_out", "number", "past", "places", "queues")

    def __init__(self, number: int, facts: Facts, size: int) -> None:
        self.number = number
        self.facts = facts  # message_id, exchange, routing_key, properties, size
        self.events: list[Event] = []
        self.left_out = 0  # events in the middle that were dropped
        self.places: dict[Where, str] = {}  # current places, with the name of the queue
        self.past: list[Where] = []  # former places
        self.queues: dict[str, None] = {}  # all queues it has been in
        self._size = TRACE_BYTES + size

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


class MessageTraces:
    """The traces of one virtual host, oldest first."""

    def __init__(self, *, most: int = MOST_TRACES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._numbers = count(1)
        self._traces: OrderedDict[int, MessageTrace] = OrderedDict()
        self._by_place: dict[Where, MessageTrace] = {}
        self._by_message_id: dict[str, MessageTrace] = {}  # the latest trace with that ID
        self.discarded = 0  # traces discarded because of the limits
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._traces)

    def newest_first(self) -> Iterator[MessageTrace]:
        return reversed(self._traces.values())

    # ---- writing

    def begin(self, facts: Facts, size: int) -> MessageTrace:
        trace = MessageTrace(next(self._numbers), facts, size)
        self._traces[trace.number] = trace
        self.bytes += trace.size
        message_id = facts.get("message_id")
        if message_id:
            self._by_message_id[message_id] = trace
        while self._traces and (len(self._traces) > self._most or self.bytes > self._most_bytes):
            self.discarded += 1
            self._remove(next(iter(self._traces.values())))
        return trace

    def tell(self, trace: MessageTrace, time: float, what: str, facts: Mapping[str, Any]) -> None:
        before = trace.size
        trace.add(Event(time, what, dict(facts)))
        if trace.number in self._traces:
            self.bytes += trace.size - before

    def put(self, trace: MessageTrace, where: Where, queue: str) -> None:
        """Record that the message is at this place now."""
        trace.queues[queue] = None
        if trace.number in self._traces:
            trace.places[where] = queue
            self._by_place[where] = trace

    def leave(self, where: Where) -> None:
        """Record that the message left this place; its trace can still be found by the place."""
        trace = self._by_place.get(where)
        if trace is not None and where in trace.places:
            del trace.places[where]
            trace.past.append(where)
            if len(trace.past) > LAST_EVENTS:  # a message that is requeued endlessly keeps its latest places
                self._drop_places(trace, [trace.past.pop(0)])

    # ---- finding

    def at(self, where: Where) -> MessageTrace | None:
        return self._by_place.get(where)

    def in_queue(self, queue: int) -> list[Where]:
        """Places of this queue that hold a traced message now."""
        return [where for where, trace in self._by_place.items() if where[0] == queue and where in trace.places]

    def find(self, name: str) -> MessageTrace | None:
        """Find a trace by its ID (m12), by a place as shown when browsing a queue (7-0-12), or by the message-id."""
        if name[:1] == "m" and is_number(name[1:]) and int(name[1:]) in self._traces:
            return self._traces[int(name[1:])]
        where = place_of(name)
        if where is not None and where in self._by_place:
            return self._by_place[where]
        return self._by_message_id.get(name)

    # ---- forgetting

    def forget(self, trace: MessageTrace) -> None:
        if trace.number in self._traces:
            self._remove(trace)

    def forget_all(self) -> int:
        number = len(self._traces)
        self._traces.clear()
        self._by_place.clear()
        self._by_message_id.clear()
        self.bytes = 0
        return number

    def _remove(self, trace: MessageTrace) -> None:
        del self._traces[trace.number]
        self.bytes -= trace.size
        self._drop_places(trace, [*trace.places, *trace.past])
        message_id = trace.facts.get("message_id")
        if message_id and self._by_message_id.get(message_id) is trace:
            del self._by_message_id[message_id]

    def _drop_places(self, trace: MessageTrace, places: Iterable[Where]) -> None:
        for where in places:
            if self._by_place.get(where) is trace:
                del self._by_place[where]


def place_of(text: str) -> Where | None:
    parts = text.split("-")
    if len(parts) != 3 or not all(is_number(part) for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def message_facts(message: Message, properties: Properties) -> tuple[Facts, int]:
    """The details of a message and their approximate size in memory."""
    content, address, _ = message
    said, size = property_table(properties), body_at(content)
    facts: Facts = {
        "message_id": properties.message_id,
        "exchange": address.exchange,
        "routing_key": address.key,
        "size": body_size(content),
        "properties": said,
        "headers_cut": False,
    }
    if size > MOST_HEADER_BYTES and properties.headers:
        said["headers"] = _short_ones(properties.headers)
        facts["headers_cut"], size = True, MOST_HEADER_BYTES
    return facts, size * 4  # text and tables use more memory than on the wire


def _short_ones(headers: dict[str, Any]) -> Facts:
    kept: Facts = {}
    left = MOST_HEADER_BYTES
    for name, value in headers.items():
        size = len(name) + len(repr(value))
        if size <= LONGEST_VALUE and size <= left:
            kept[name] = value
            left -= size
    return kept


def departure(queue: DeclaredQueue, cause: str | None) -> tuple[str, Facts]:
    """The reason why a message left the queue, except expiry. An unknown cause is inferred from the options."""
    if cause is not None:
        return DEPARTURES[cause]
    if queue.limits is not None:
        return "dropped", {"reason": "maxlen"}
    backlog = queue.backlog
    if backlog is not None and backlog.pager is not None and backlog.pager.leases is not None:
        return "acked", {"lease": True}
    return "dropped", {}


def binding_steps(
    vhost: Vhost, exchange: Exchange, keys: Sequence[str], fields: Mapping[str, object], queues: Collection[str]
) -> tuple[list[Step], bool]:
    """The bindings that led a message from ``exchange`` to ``queues``, and whether routing depended on the routing keys
    alone.

    Routing (routing/router.py) has been done already and its outcome is passed in, so exchanges that choose at random
    or round-robin do not choose again. To find out whether a binding of an exchange matches a message, the message is
    routed by an exchange of the same type that has only that binding.
    """
    steps: list[Step] = []
    seen, to_visit = {exchange.name}, [exchange]
    for current in to_visit:  # grows while we walk
        taken = [binding for binding in _leading(vhost, current, queues) if _takes(current, binding, keys, fields)]
        found = [_step(binding.source, binding.destination, binding.key, "binding") for binding in taken]
        named = _named(current, keys, queues)
        found += [_step(current.name, Destination("queue", name), name, "name") for name in named]
        if not found and current.alternate is not None and queues:
            stop = Destination("exchange", current.alternate)
            found = [_step(current.name, stop, keys[0], "alternate-exchange")]
        steps += found
        for name in [step["destination"] for step in found if step["destination_type"] == "exchange"]:
            target = vhost.exchanges.get(name)
            if target is not None and name not in seen:
                seen.add(name)
                to_visit.append(target)
    return steps, not any(each.looks_at_headers for each in to_visit)


def _leading(vhost: Vhost, exchange: Exchange, queues: Collection[str]) -> list[Binding]:
    bindings = dict.fromkeys(vhost.bindings.of_source(exchange.name))
    leading = [each for each in bindings if each.destination.kind == "exchange" or each.destination.name in queues]
    return leading[:MOST_TRIED]


def _takes(exchange: Exchange, binding: Binding, keys: Sequence[str], fields: Mapping[str, object]) -> bool:
    alone = exchange.selector_view()
    alone.bind(Binding(binding.source, STAND_IN, binding.key, binding.arguments))
    asked = keys if exchange.looks_at_all_keys else keys[:1]
    return any(STAND_IN in alone.destinations(key, fields) for key in asked)


def _named(exchange: Exchange, keys: Sequence[str], queues: Collection[str]) -> list[str]:
    """Queues that the exchange reaches by name, without a binding."""
    if exchange.name and not exchange.arguments.get("x-implicit-bindings"):
        return []
    return [key for key in dict.fromkeys(keys) if key in queues]


def _step(source: str, stop: Destination, key: str, by: str) -> Step:
    return {
        "source": source,
        "destination": stop.name,
        "destination_type": stop.kind,
        "routing_key": key,
        "by": by,
    }
