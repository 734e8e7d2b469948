"""Producers of a session, and the sending that they share.

Without transactions, a session sends on a separate channel with confirms: ``send`` returns when the broker has
confirmed the message, and a message that the broker refuses does not close the channel of unacknowledged messages.
Failures of asynchronous sends (``Sending.is_async``) go to the connection's exception listener. With transactions,
everything uses the session's channel: sends and acks take effect together at the commit.

Messages for queues are mandatory. If a queue was deleted after its first use, it is declared again and the message is
sent once more, in a transaction right after its commit. A message that still cannot be routed is an error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import uuid4

from leveret.client.channel import Channel
from leveret.client.closable import Closable
from leveret.client.connection import CLOSE_SECONDS
from leveret.client.errors import TransactionRolledBack, Unroutable
from leveret.client.jms.destinations import Destination, Queue
from leveret.client.jms.errors import IllegalState, InvalidDestination, MessageFormatError, Unsupported
from leveret.client.jms.messages import DEFAULT_PRIORITY, NON_PERSISTENT, ORIGIN_HEADER, PERSISTENT, Message
from leveret.client.messages import Returned
from leveret.client.option_reader import given
from leveret.errors import FrameError
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.client.jms.connection import Connection

T = TypeVar("T")
MOST_PRIORITY = 9
REPLY_QUEUES = "amq.rabbitmq.reply-to."  # RabbitMQ returns mandatory messages for them, although they arrive


@dataclass(slots=True, frozen=True)
class Terms:
    """How a message is sent. Times are in seconds; 0: no expiration, no delay."""

    delivery_mode: int = PERSISTENT
    priority: int = DEFAULT_PRIORITY
    time_to_live: float = 0
    delivery_delay: float = 0

    def __post_init__(self) -> None:
        if self.delivery_mode not in (NON_PERSISTENT, PERSISTENT):
            raise MessageFormatError(
                f"delivery mode {self.delivery_mode} is neither {NON_PERSISTENT} (not persistent) nor {PERSISTENT}"
            )
        if not 0 <= self.priority <= MOST_PRIORITY:
            raise MessageFormatError(f"priority {self.priority} is not within 0 and {MOST_PRIORITY}")
        if self.time_to_live < 0 or self.delivery_delay < 0:
            raise MessageFormatError("time_to_live and delivery_delay must not be negative")
        if self.time_to_live and self.time_to_live <= self.delivery_delay:
            raise MessageFormatError(
                f"a message that expires after {self.time_to_live:g} s cannot be delayed by {self.delivery_delay:g} s"
            )


class Outgoing:
    """Sends the messages of one session. ``transacted_channel`` is the channel of a session with transactions."""

    def __init__(self, connection: Connection, transacted_channel: Channel | None) -> None:
        self.registrar = connection.registrar
        self.sending = connection.factory.sending
        self._trouble = connection.trouble
        self._ahead: set[asyncio.Future[None]] = set()  # asynchronous sends without an outcome yet
        self._connection = connection.client
        self._transacted = transacted_channel
        self._confirmed: Channel | None = None
        self._opening = asyncio.Lock()
        self._returned: list[Returned] = []
        self._sent_to: dict[str, Destination] = {}  # queues of the open transaction, by name
        self._is_closed = False
        if transacted_channel is not None:
            transacted_channel.on_return = self._returned.append

    async def send(self, message: Message, destination: Destination, properties: Properties) -> None:
        """Waits for the confirm; in a transaction, and for asynchronous sends, until it is written."""
        if self._is_closed:
            raise IllegalState("the session is closed: nothing can be sent on it")
        body = message.encoded_body()
        if self._transacted is None and self.sending.is_async:
            await self._send_ahead(body, destination, properties)
        elif self._transacted is None and self.sending.timeout is not None:
            await self._send_in_time(body, destination, properties, self.sending.timeout)
        else:
            await self._send(body, destination, properties)

    async def _send(self, body: bytes, destination: Destination, properties: Properties) -> None:
        try:
            await self._publish(body, destination, properties)
        except Unroutable:
            await self._send_again(body, destination, properties)

    async def _send_again(self, body: bytes, destination: Destination, properties: Properties) -> None:
        """To a queue that was deleted after its first use."""
        self.registrar.forget(destination)
        try:
            await self._publish(body, destination, properties)
        except Unroutable as problem:
            raise InvalidDestination(f"queue '{destination.name}' does not exist: {problem}") from problem

    async def _send_in_time(
        self, body: bytes, destination: Destination, properties: Properties, seconds: float
    ) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._send(body, destination, properties)
        except TimeoutError:
            raise TimeoutError(
                f"the broker has not confirmed a message for '{destination.name}' within {seconds:g} s: it may or "
                "may not be stored; check the broker for a memory or disk alarm"
            ) from None

    async def _send_ahead(self, body: bytes, destination: Destination, properties: Properties) -> None:
        """The confirm is awaited in the background. Waits while the network is congested."""
        exchange, key, is_mandatory = self._route(destination)
        await self.registrar.prepare(destination)
        channel = await self._channel()
        try:
            confirm = channel.send(body, exchange, key, properties, mandatory=is_mandatory)
        except FrameError as problem:
            raise _format_error(problem, channel) from None
        assert confirm is not None, "the channel has confirms"
        self._follow(confirm, partial(self._send_again, body, destination, properties))
        if channel.connection.is_congested:
            await channel.connection.writable()

    def _follow(self, outcome: asyncio.Future[None], again: Callable[[], Awaitable[None]] | None) -> None:
        self._ahead.add(outcome)
        outcome.add_done_callback(partial(self._known_late, again))

    def _known_late(self, again: Callable[[], Awaitable[None]] | None, outcome: asyncio.Future[None]) -> None:
        self._ahead.discard(outcome)
        problem = None if outcome.cancelled() else outcome.exception()
        if again is not None and isinstance(problem, Unroutable):
            self._follow(asyncio.ensure_future(again()), None)
        elif isinstance(problem, Exception):
            self._trouble(problem)

    async def _publish(self, body: bytes, destination: Destination, properties: Properties) -> None:
        exchange, key, is_mandatory = self._route(destination)
        await self.registrar.prepare(destination)
        channel = await self._channel()
        if is_mandatory and self._transacted is not None:
            self._sent_to[key] = destination
        try:
            await channel.publish(body, exchange, key, properties, mandatory=is_mandatory)
        except FrameError as problem:
            raise _format_error(problem, channel) from None

    def _route(self, destination: Destination) -> tuple[str, str, bool]:
        exchange, key = destination.route(self.registrar.layout)
        return exchange, key, isinstance(destination, Queue) and not key.startswith(REPLY_QUEUES)

    async def _channel(self) -> Channel:
        if self._transacted is not None:
            return self._transacted
        if self._confirmed is not None and not self._confirmed.is_closed:
            return self._confirmed
        async with self._opening:
            if self._confirmed is None or self._confirmed.is_closed:
                channel = await self._connection.channel()
                try:
                    await channel.confirm_select()
                except BaseException:
                    channel.run(channel.close())  # the application never got it
                    raise
                self._confirmed = channel
            return self._confirmed

    async def send_returned_again(self) -> None:
        """After a commit: the queues of returned messages were deleted after their first use. A message that is
        returned twice cannot be routed."""
        again: list[Returned] = []
        lost: list[Returned] = []
        for message in self._returned:
            place = self._sent_to.get(message.routing_key)
            (again if place is not None and self.registrar.can_declare(place) else lost).append(message)
        self.forget_returned()
        while again:
            try:
                await self._commit_once_more(again)
                break
            except TransactionRolledBack:  # the transaction itself is committed: only repeat this
                continue
        lost += self._returned
        self.forget_returned()
        self._sent_to.clear()
        if lost:
            raise InvalidDestination(
                f"{len(lost)} of the committed messages could not be routed, the first for "
                f"'{lost[0].routing_key}': the queue was deleted; everything else is committed"
            ) from Unroutable(lost[0])

    async def _commit_once_more(self, messages: list[Returned]) -> None:
        assert self._transacted is not None
        for message in messages:
            await self._publish(message.body, self._sent_to[message.routing_key], message.properties)
        await self._transacted.commit()

    def forget_returned(self) -> None:
        for message in self._returned:
            self.registrar.forget(Queue.exactly(message.routing_key))
        self._returned.clear()

    def rolled_back(self) -> None:
        """Nothing of the transaction was sent."""
        self.forget_returned()
        self._sent_to.clear()

    async def finish(self) -> None:
        """Stop sending, and wait for asynchronous sends as long as confirms keep arriving."""
        self._is_closed = True
        while self._ahead:
            done, late = await asyncio.wait(self._ahead, timeout=CLOSE_SECONDS)
            if not done:
                text = (
                    f"the broker has not confirmed {len(late)} messages that were sent without waiting: their session "
                    f"was closed after waiting for {CLOSE_SECONDS:g} s; they may or may not be stored"
                )
                self._trouble(TimeoutError(text))
                break

    async def close(self) -> None:
        self._is_closed = True
        if self._confirmed is not None:
            await self._confirmed.close()


def _format_error(problem: FrameError, channel: Channel) -> Exception:
    """A message that cannot be encoded is wrong, unless the channel has ended."""
    if channel.is_closed:
        return problem
    return MessageFormatError(f"a header or property of the message cannot be sent: {problem}")


class Term(Generic[T]):
    """A default of a producer. It is stored in the terms of the producer, which check it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, producer: Producer, owner: type) -> T:
        value: T = getattr(producer.terms, self._name)
        return value

    def __set__(self, producer: Producer, value: T) -> None:
        producer.terms = replace(producer.terms, **{self._name: value})  # type: ignore[arg-type]


class Producer(Closable):
    """Sends to its destination, or if it has none, to the one that is passed with each message. Its fields are the
    defaults of ``send``."""

    delivery_mode = Term[int]()
    priority = Term[int]()
    time_to_live = Term[float]()
    delivery_delay = Term[float]()

    def __init__(self, outgoing: Outgoing, destination: Destination | None = None) -> None:
        self.destination = destination
        self.terms = Terms()
        self.disable_message_id = False
        self.disable_message_timestamp = not outgoing.sending.has_timestamps
        self.outgoing = outgoing
        self._prefix = f"ID:{uuid4().hex}:"
        self._sent = 0
        self.is_closed = False

    async def send(
        self,
        message: Message,
        destination: Destination | None = None,
        *,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
    ) -> None:
        """Returns when the broker has confirmed the message; in a transaction at once. Times are in seconds."""
        terms = self.terms
        if (delivery_mode, priority, time_to_live, delivery_delay) != (None, None, None, None):
            terms = Terms(
                given(delivery_mode, terms.delivery_mode),
                given(priority, terms.priority),
                given(time_to_live, terms.time_to_live),
                given(delivery_delay, terms.delivery_delay),
            )
        target = self._target(destination)
        self._stamp(message, target, terms)
        left = terms.time_to_live - terms.delivery_delay if terms.time_to_live else 0
        properties = message.amqp_properties(left)
        if not isinstance(target, Queue):
            properties.headers = {**(properties.headers or {}), ORIGIN_HEADER: self.outgoing.registrar.origin}
        await self.outgoing.send(message, target, properties)

    def _target(self, destination: Destination | None) -> Destination:
        if self.is_closed:
            raise IllegalState("the producer is closed")
        if destination is None and self.destination is None:
            raise InvalidDestination("the producer has no destination: give one with each message")
        if destination is not None and self.destination not in (None, destination):
            raise InvalidDestination(
                f"the producer is for {self.destination!r}, not for {destination!r}: make one without a destination"
            )
        target = destination or self.destination
        assert target is not None
        return target

    def _stamp(self, message: Message, destination: Destination, terms: Terms) -> None:
        """Set the fields that are set by the client."""
        now = time.time()
        if terms.delivery_delay and not self.outgoing.registrar.is_leveret:
            raise Unsupported("this broker cannot delay messages: delivery_delay needs Leveret (x-deliver-at)")
        self._sent += 1
        message.message_id = "" if self.disable_message_id else f"{self._prefix}{self._sent}"
        message.timestamp = 0.0 if self.disable_message_timestamp else now
        message.destination = destination
        message.delivery_mode = terms.delivery_mode
        message.priority = terms.priority
        message.expiration = now + terms.time_to_live if terms.time_to_live else 0.0
        message.delivery_time = now + terms.delivery_delay if terms.delivery_delay else 0.0

    async def close(self) -> None:
        self.is_closed = True
