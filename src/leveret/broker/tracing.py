"""Tracing of a virtual host: recording the events of its messages, and switching that on and off.

A tracer records message traces (broker/message_traces.py) and publishes to the firehose (broker/firehose.py). It is
called at three points, none of which costs anything while there is no tracer:

- routes of channels and in-process publishes: ``publishing``, before a message is routed to its queues
- queues: they change their class (queues/traced_queues.py) and report enqueue, delivery, requeue and removal
- dead letters and scheduled messages: the target to which a queue sends them is replaced by ``TracedDeadLetters``

A message is identified by its bytes until it is in its queues (``_arriving``), and by its place from then on. When a
message leaves a queue and enters another as a new one (a dead letter, a move), its trace continues: it is *carried*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.firehose import Firehose, Peer
from leveret.broker.internal_queues import SCHEDULE
from leveret.broker.message_traces import (
    MessageTrace,
    MessageTraces,
    Step,
    Where,
    binding_steps,
    departure,
    message_facts,
)
from leveret.broker.publish_rules import carbon_copies, readable_properties
from leveret.broker.vhost import Vhost
from leveret.delivery.selector import selectable
from leveret.errors import LeveretError
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.context import DeadLetterTarget, QueueContext
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.options import EXPIRED, NOWHERE, DeadMessage
from leveret.queues.queue import Queue
from leveret.queues.traced_queues import (
    ALL_LANES,
    TOLD,
    DeliveredMessages,
    Place,
    because,
    is_traced_queue,
    start_tracing,
    stop_tracing,
)
from leveret.routing.types import TRACE_EXCHANGE
from leveret.wire.properties import Properties

COMPONENT = NAME = "tracing"  # of the parameter that stores the switch
MOST_STEPS = 1_024  # routes whose bindings are cached


class TracedDeadLetters:
    def __init__(self, tracer: Tracer, target: DeadLetterTarget) -> None:
        self._tracer = tracer
        self._target = target

    def send(self, queue: ClassicQueue, reason: str, messages: Sequence[DeadMessage]) -> None:
        self._tracer.send_on(self._target, queue, reason, messages)


class Tracer:
    """The tracer of one virtual host; the QueueTracer of its queues."""

    def __init__(self, broker: Broker, vhost: Vhost) -> None:
        self.book = MessageTraces()
        self.cause: str | None = None
        self._vhost = vhost
        self._clock = broker.clock
        self._when_granted = broker.when_granted
        self._keeps = broker.pages is not None  # with a data directory
        self._firehose = Firehose(vhost, broker.node_name)
        self._arriving: dict[int, MessageTrace] = {}  # by the identity of the content
        self._carried: MessageTrace | None = None
        self._has_entered = False  # whether the carried message has entered a queue
        self._unstored: dict[Where, MessageTrace] = {}  # traces to be written with the next batch
        self._unsynced: dict[Where, MessageTrace] = {}  # traces that are being written
        self._expired: dict[int, int] = {}  # by queue: the number of expiries that were recorded
        self._replaced: list[tuple[QueueContext, DeadLetterTarget | None]] = []  # with the original targets
        self._steps: dict[tuple[object, ...], list[Step]] = {}

    # ---- start and stop

    def start(self) -> None:
        self._replace_target(self._vhost.queue_context)
        for queue in self._vhost.queues.values():
            self.attend(queue)
        schedule = self._vhost.internal.queues.get(SCHEDULE)
        if schedule is not None:
            self.attend(schedule)
        self._vhost.tracer = self
        self._vhost.epoch += 1  # cached routes are discarded; new ones find the tracer

    def stop(self) -> None:
        self._vhost.tracer = None
        for queue in self._vhost.every_queue():
            stop_tracing(queue)
        for context, target in self._replaced:
            context.dead_letters, context.tracer = target, None
        self._vhost.epoch += 1

    def attend(self, queue: DeclaredQueue) -> None:
        self._expired[queue.id] = queue.counters.expired
        if queue.context is not self._vhost.queue_context:
            self._replace_target(queue.context)
        start_tracing(queue, self)

    def _replace_target(self, context: QueueContext) -> None:
        target = context.dead_letters
        self._replaced.append((context, target))
        if target is not None:
            context.dead_letters = TracedDeadLetters(self, target)

    # ---- publishes

    @contextmanager
    def publishing(
        self, publisher: object, run: Sequence[Message], queues: Sequence[Queue], mandatory: bool
    ) -> Iterator[None]:
        """A context in which the run is passed to these queues. ``publisher``: a channel, or None in this process."""
        peer = peer_of(publisher)
        properties = [readable_properties(message) for message in run]
        traces = [self._received(peer, *each) for each in zip(run, properties, strict=True)]
        names = [queue.name for queue in queues]
        for message, said, trace in zip(run, properties, traces, strict=True):
            self._tell_route(trace, message, said, names, mandatory)
            self._arriving[id(message[0])] = trace
        self._attend_schedule(queues)
        try:
            yield
        finally:
            for message, said, trace in zip(run, properties, traces, strict=True):
                del self._arriving[id(message[0])]
                self._tell_untaken(trace, message, queues)
                if self._firehose.is_wanted:
                    self._firehose.published(peer, message, said, names)

    def _attend_schedule(self, queues: Sequence[Queue]) -> None:
        """Trace the schedule queue too, which is created when first needed."""
        schedule = self._vhost.internal.queues.get(SCHEDULE)
        if schedule is not None and schedule in queues and not is_traced_queue(schedule):
            self.attend(schedule)

    def _received(self, peer: Peer, message: Message, properties: Properties) -> MessageTrace:
        trace = self._begin(message, properties)
        address = message[1]
        self._tell(trace, "received", exchange=address.exchange, routing_key=address.key, **peer_facts(peer))
        return trace

    def _tell_route(
        self, trace: MessageTrace, message: Message, properties: Properties, names: Sequence[str], mandatory: bool
    ) -> None:
        if not names:
            self._tell(trace, "returned" if mandatory else "unroutable")
        elif names != [SCHEDULE]:
            self._tell(trace, "routed", queues=list(names), bindings=self._steps_of(message, properties, names))

    def _steps_of(self, message: Message, properties: Properties, names: Sequence[str]) -> list[Step]:
        vhost, address = self._vhost, message[1]
        exchange = vhost.exchanges.get(address.exchange)
        if exchange is None:
            return []
        keys = (address.key, *carbon_copies(properties.headers or {}))
        of = (vhost.epoch, vhost.deletions, exchange.name, keys, tuple(names))
        found = self._steps.get(of)
        if found is None:
            try:
                found, by_key_only = binding_steps(vhost, exchange, keys, selectable(properties), names)
            except LeveretError:  # the exchange cannot be evaluated, but the message must not be refused for that
                return []
            if len(self._steps) >= MOST_STEPS:
                self._steps.clear()
            if by_key_only:
                self._steps[of] = found
        return found

    def _tell_untaken(self, trace: MessageTrace, message: Message, queues: Sequence[Queue]) -> None:
        for queue in queues:
            if queue.can_reject and queue.name not in trace.queues and queue.alive:
                is_seen = queue.duplicates is not None and queue.duplicates.has_seen(message)
                self._tell(trace, "not taken", queue=queue.name, reason="duplicate" if is_seen else "queue is full")

    # ---- calls from queues

    def entered(self, queue: DeclaredQueue, places: Sequence[Place]) -> None:
        for lane, sequence, message in places:
            content, address, traits = message
            if address.exchange == TRACE_EXCHANGE:
                continue
            trace = self._arriving.get(id(content)) or self._carried
            if trace is None:  # published without a tracer context, by a pipeline for example
                trace = self._received(Peer(), message, readable_properties(message))
            self._has_entered = self._has_entered or trace is self._carried
            where = (queue.id, lane, sequence)
            self.book.put(trace, where, queue.name)
            if queue.name == SCHEDULE:
                self._tell(trace, "scheduled", until=traits.deadline + queue.context.wall_ahead())
            else:
                facts = {"exchange": address.exchange, "routing_key": address.key}
                self._tell(trace, "queued", queue=queue.name, id=place_name(where), **facts)
            if self._keeps and queue.stored and (traits.persistent or queue.keeps_all):
                self._unstored[where] = trace

    def drained(self, queue: DeclaredQueue) -> None:
        if self._unstored:
            written, self._unstored = self._unstored, {}
            self._unsynced |= written
            self._when_granted(lambda: self._stored(list(written)))

    def _stored(self, places: Sequence[Where]) -> None:
        for where in places:
            trace = self._unsynced.pop(where, None)  # None: it left the queue before it was written
            if trace is not None:
                self._tell(trace, "stored", queue=trace.places.get(where, ""))

    def handed(self, queue: DeclaredQueue, delivery: DeliveredMessages) -> None:
        peer = peer_of(delivery.taker)
        tag = getattr(delivery.taker, "tag", None)
        facts = {} if tag is None else {"consumer_tag": tag}
        for place in delivery.places:
            trace = self._trace_of(queue, place)
            if trace is None:
                continue
            how = {"redelivered": delivery.redelivered, **facts, **peer_facts(peer)}
            self._tell(trace, "delivered", queue=queue.name, **how)
            if delivery.no_ack:
                self._gone(queue, (queue.id, place.lane, place.sequence))
                self._tell(trace, "acked", queue=queue.name, automatic=True)
            if self._firehose.is_wanted:
                said = readable_properties(place.message)
                self._firehose.delivered(peer, place.message, said, queue.name, delivery.redelivered)

    def came_back(self, queue: DeclaredQueue, places: Sequence[Place], tries: int, tried: bool) -> None:
        plan = queue.options.retry
        waits = plan is not None and (plan.failed if tried else plan.left) and not plan.is_over(tries)
        reason = "nacked" if tried else "its consumer is gone"
        for place in places:
            trace = self._trace_of(queue, place)
            if trace is not None:
                self._tell(trace, "waiting" if waits else "requeued", queue=queue.name, tries=tries, reason=reason)

    def left(self, queue: DeclaredQueue, lane: int, sequence: int, number: int) -> None:
        if self.cause == TOLD:
            return
        for where in self._places(queue, lane, sequence, number):
            trace = self.book.at(where)
            if trace is None or where not in trace.places:
                continue
            what, facts = self._departure(queue, trace)
            if not queue.has_offsets or lane == ALL_LANES:
                self._gone(queue, where)
            self._tell(trace, what, queue=queue.name, **facts)

    def _places(self, queue: DeclaredQueue, lane: int, sequence: int, number: int) -> list[Where]:
        if lane == ALL_LANES or number > len(self.book):
            known = self.book.in_queue(queue.id)
            stop = sequence + number
            return known if lane == ALL_LANES else [at for at in known if at[1] == lane and sequence <= at[2] < stop]
        return [(queue.id, lane, place) for place in range(sequence, sequence + number)]

    def _departure(self, queue: DeclaredQueue, trace: MessageTrace) -> tuple[str, dict[str, Any]]:
        if self.cause is None:
            if trace is self._carried:
                return ("moved" if self._has_entered else "deleted"), {}
            if self._expired.get(queue.id, 0) < queue.counters.expired:
                self._count_expired(queue)
                return "expired", {}
        return departure(queue, self.cause)

    def _count_expired(self, queue: DeclaredQueue) -> None:
        self._expired[queue.id] = self._expired.get(queue.id, 0) + 1

    # ---- from one queue to another

    @contextmanager
    def carrying(self, queue: DeclaredQueue, place: Place) -> Iterator[None]:
        with self._carrying(self._trace_of(queue, place)):
            yield

    @contextmanager
    def _carrying(self, trace: MessageTrace | None) -> Iterator[None]:
        before, self._carried, self._has_entered = self._carried, trace, False
        try:
            yield
        finally:
            self._carried = before

    def send_on(
        self, target: DeadLetterTarget, queue: ClassicQueue, reason: str, messages: Sequence[DeadMessage]
    ) -> None:
        """Forward the messages of a queue one by one, so that each keeps its trace in the next queue."""
        with queue.context.log.group():
            for dead in messages:
                if reason == EXPIRED:
                    self._count_expired(queue)
                trace = self._trace_of_dead(queue, dead)
                if trace is not None and queue.name == SCHEDULE:
                    self._tell(trace, "due")
                elif trace is not None:
                    self._tell(trace, "dead-lettered", queue=queue.name, reason=reason)
                with self._carrying(trace), because(self, TOLD):
                    target.send(queue, reason, [dead])
                    is_taken = self._has_entered
                if trace is not None:
                    self._gone(queue, (queue.id, dead.lane, dead.sequence))
                    if not is_taken:
                        self._tell(trace, "dropped", queue=queue.name, reason="no route")

    def _trace_of_dead(self, queue: DeclaredQueue, dead: DeadMessage) -> MessageTrace | None:
        if dead.sequence == NOWHERE:  # rejected before it had a place
            return self._arriving.get(id(dead.message[0]))
        return self._trace_of(queue, Place(*dead))

    # ---- traces

    def _trace_of(self, queue: DeclaredQueue, place: Place) -> MessageTrace | None:
        """The trace of a message in a queue; it starts now if the message arrived before tracing was enabled."""
        lane, sequence, message = place
        where = (queue.id, lane, sequence)
        trace = self.book.at(where)
        if trace is None and message[1].exchange != TRACE_EXCHANGE:
            trace = self._begin(message, readable_properties(message))
            self.book.put(trace, where, queue.name)
            self._tell(trace, "found", queue=queue.name, id=place_name(where))
        return trace

    def _begin(self, message: Message, properties: Properties) -> MessageTrace:
        facts, size = message_facts(message, properties)
        return self.book.begin(facts, size)

    def _gone(self, queue: DeclaredQueue, where: Where) -> None:
        self._unstored.pop(where, None)
        self._unsynced.pop(where, None)
        self.book.leave(where)

    def _tell(self, trace: MessageTrace, what: str, **facts: Any) -> None:
        self.book.tell(trace, self._clock.wall(), what, facts)


def peer_of(taker: object) -> Peer:
    """The peer of a consumer or channel of a connection; in-process callers have none."""
    channel = getattr(taker, "channel", taker)
    connection = getattr(channel, "connection", None)
    if connection is None:
        return Peer()
    return Peer(connection.name, channel.number, connection.user.name)  # type: ignore[attr-defined]


def peer_facts(peer: Peer) -> dict[str, Any]:
    return peer._asdict() if peer.connection else {}


def place_name(where: Where) -> str:
    return "-".join(map(str, where))


def is_traced(vhost: Vhost) -> bool:
    return vhost.tracer is not None


def set_tracing(broker: Broker, vhost: Vhost, on: bool) -> None:
    """Switch tracing on or off, durably; traces are discarded when tracing stops."""
    if on:
        vhost.parameters.put(COMPONENT, NAME, b"true")
    else:
        vhost.parameters.drop(COMPONENT, NAME)
    tracer = vhost.tracer
    if on and tracer is None:
        Tracer(broker, vhost).start()
    elif not on and tracer is not None:
        tracer.stop()


def resume_tracing(broker: Broker) -> None:
    """At startup, trace the virtual hosts again that were traced before."""
    for vhost in broker.vhosts.values():
        if vhost.parameters.get(COMPONENT, NAME) is not None:
            set_tracing(broker, vhost, True)
