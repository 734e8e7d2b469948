"""A consumer: waiting messages, messages that the application holds, and the two ways to receive them.

    queue of the session -> unconsumed -> delivered -> the application

A message is added to ``delivered`` before the application receives it, and removed when it is acknowledged according to
the mode of the session. A rollback, a recover or an exception of a listener moves messages back to the front of
``unconsumed``, in their order; the RedeliveryPolicy determines the delay, and when to give up.

The application either calls ``receive`` or sets a ``listener``, which the session calls; never both.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from leveret.client.closable import Closable, Once
from leveret.client.errors import Closed
from leveret.client.jms.ack_modes import AckMode, AckType
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.listeners import Listener, ListenerCall, NotCalled
from leveret.client.jms.messages import PERSISTENT, Message, received
from leveret.client.jms.policies import RedeliveryPolicy
from leveret.client.jms.retries import Retries
from leveret.client.jms.subscription import Pull, Push
from leveret.client.jms.topics import Source
from leveret.client.jms.unsettled import Dispatch, Outcome
from leveret.client.messages import Delivery
from leveret.errors import LeveretError

if TYPE_CHECKING:
    from leveret.client.jms.session import Session

log = logging.getLogger("leveret.client.jms")


class MessageConsumer(Closable):
    def __init__(self, session: Session, source: Source, prefetch: int, policy: RedeliveryPolicy) -> None:
        self.session = session
        self.source = source
        self.prefetch = prefetch
        self.policy = policy
        self.unconsumed: deque[Dispatch] = deque()
        self.delivered: dict[Delivery, Dispatch] = {}
        self.subscription = Push(self) if prefetch else Pull(self)
        self.is_closed = False
        self.problem: Exception | None = None
        self._listener: Listener | None = None
        self._receives = False  # receive() was called
        self.is_receiving = False
        self._news: asyncio.Future[None] | None = None
        self._setback: Exception | None = None  # raised by the waiting receive(); the next one tries again
        self._listener_call = ListenerCall()
        self._closing = Once(self._close)
        self._retries = Retries(policy, session.connection.clock, self._put_first, self._go_on)

    # ---- receive()

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None after ``timeout`` seconds, or if the consumer was closed meanwhile."""
        self._begin_receive()
        try:
            message = self._next_message()
            return message if message is not None else await self._later_message(timeout)
        finally:
            self.is_receiving = False
            self.subscription.receiver_left()

    async def _later_message(self, timeout: float | None) -> Message | None:
        """Wait for the next message."""
        is_late = False

        def ring() -> None:
            nonlocal is_late
            is_late = True
            self.wake()

        timer = None if timeout is None else self.session.connection.clock.call_later(timeout, ring)
        try:
            while not self.is_closed:
                message = self._next_message()
                if message is not None:
                    return message
                if is_late:
                    return await self._last_look()
                self._refuse_ended()
                await self._wait()
            return None
        finally:
            if timer is not None:
                timer.cancel()

    async def receive_no_wait(self) -> Message | None:
        """The next message, or None if there is none now. With prefetch 0 the broker is asked; otherwise only messages
        that have arrived are considered."""
        self._begin_receive()
        try:
            message = self._next_message()
            if message is None and not self.is_closed:
                self._refuse_ended()
                message = await self._last_look(asks=True)
            return message
        finally:
            self.is_receiving = False

    def _begin_receive(self) -> None:
        self.refuse_closed()
        self._setback = None
        if self._listener is not None:
            raise IllegalState(f"{self} has a listener: receive() and a listener exclude each other")
        if self.is_receiving:
            raise IllegalState(f"{self} already has a pending receive(): use one consumer per task")
        self._receives = self.is_receiving = True

    async def _wait(self) -> None:
        """Wait for a change."""
        self._news = asyncio.get_running_loop().create_future()
        if self.may_ask:
            self.subscription.ask()
        await self._news

    async def _last_look(self, *, asks: bool = False) -> Message | None:
        """The message that has arrived when no request is pending any more."""
        if self.may_ask or not asks:
            await self.subscription.settle_request(asks=asks)
        message = self._next_message()
        if message is None:
            self._refuse_ended()
        return message

    def _next_message(self) -> Message | None:
        self.session.move()
        while (entry := self._take()) is not None:
            message = self._message_of(entry)
            if message is not None:
                self._consumed(entry)
                return message
        return None

    @property
    def may_ask(self) -> bool:
        """Whether a message that arrives now could be returned."""
        return self.session.connection.is_started and not self._retries.is_pausing and not self.unconsumed

    # ---- listener

    @property
    def listener(self) -> Listener | None:
        return self._listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        """A function or a coroutine function. The next message waits until it has returned."""
        self.refuse_closed()
        if listener is not None:
            if self._receives:
                raise IllegalState(f"{self} was used by receive(): receive() and a listener exclude each other")
            if not self.prefetch:
                raise IllegalState(f"{self} has prefetch 0, which is for receive(): a listener needs at least 1")
        self._listener = listener
        self.session.serve_listeners()

    @property
    def has_work(self) -> bool:
        return (
            self._listener is not None and bool(self.unconsumed) and not self._retries.is_pausing and not self.is_closed
        )

    async def serve(self) -> None:
        """Pass the next message to the listener."""
        entry = self._take()
        message = None if entry is None else self._message_of(entry)
        if entry is None or message is None or self._listener is None:
            return
        try:
            problem = await self._listener_call.call(self._listener, message)
            if problem is None:
                self._consumed(entry)
            elif isinstance(problem, NotCalled):
                self._not_called(entry, problem)
            else:
                self._failed(entry, problem)
        finally:
            if self.is_closed:
                self.session.forget(self)

    def _failed(self, entry: Dispatch, problem: BaseException) -> None:
        log.warning("message listener of %s failed: %r", self, problem)
        if self.session.is_closed:
            return
        if self.session.ack_mode in (AckMode.SESSION_TRANSACTED, AckMode.CLIENT):
            self.subscription.consumed()  # continue: the application settles all of them
            return
        self.session.acknowledge_lazy(self)
        self.roll_back([entry])

    def _not_called(self, entry: Dispatch, problem: NotCalled) -> None:
        """Put the message back. No further one is passed to the listener."""
        log.warning("message listener of %s cannot be called: %s", self, problem)
        self._listener = None
        self.forget([entry])
        self._put_first([entry])

    # ---- to the application

    def arrived(self, entry: Dispatch) -> None:
        """Called with messages from the queue of the session."""
        self.unconsumed.append(entry)
        self.wake()

    def wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _take(self) -> Dispatch | None:
        """The next message for the application. Settles those that it must not receive."""
        connection, line = self.session.connection, self.unconsumed
        while line and connection.is_started and not self._retries.is_pausing and not self.is_closed:
            entry = line.popleft()
            if entry.is_settled or self.session.is_void(entry):
                self.session.forget_void([entry])
                continue
            try:
                if entry.is_expired(connection.clock):
                    self._expired(entry)
                    continue
                if self.source.filters and not self.source.matches(entry.delivery):
                    self._settle_unseen(entry, Outcome.ACK, AckType.UNMATCHED)
                    continue
            except LeveretError:  # its headers cannot be decoded by any consumer
                self._settle_unseen(entry, Outcome.REJECT, AckType.POISON)
                continue
            return entry
        return None

    def _expired(self, entry: Dispatch) -> None:
        is_kept = entry.delivery.properties.delivery_mode == PERSISTENT
        self._settle_unseen(entry, Outcome.REJECT if is_kept else Outcome.ACK, AckType.EXPIRED)

    def _settle_unseen(self, entry: Dispatch, outcome: Outcome, kind: AckType) -> None:
        self.session.settle([entry], outcome)
        self.session.notify_ack(kind, self, [entry])
        if self.session.is_transacted:  # it counts towards the prefetch until the transaction ends
            self.subscription.consumed()

    def _message_of(self, entry: Dispatch) -> Message | None:
        self.delivered[entry.delivery] = entry
        try:
            return received(entry.delivery, self.session, entry.redeliveries, self.source.destination)
        except LeveretError:
            del self.delivered[entry.delivery]
            self._settle_unseen(entry, Outcome.REJECT, AckType.POISON)
            return None

    def _consumed(self, entry: Dispatch) -> None:
        """The application has received it. It may have been settled or rolled back meanwhile."""
        if entry.delivery not in self.delivered:
            return
        entry.is_consumed = True
        mode = self.session.ack_mode
        if mode is AckMode.AUTO:
            self.acknowledge([entry], AckType.STANDARD)
        elif mode is AckMode.DUPS_OK:
            if len(self.delivered) * 2 >= self.prefetch:
                self.session.acknowledge_lazy(self)
        else:
            self.subscription.consumed()

    def acknowledge(self, entries: list[Dispatch], kind: AckType) -> None:
        if entries:
            self.session.settle(entries, Outcome.ACK)
            self.forget(entries)
            self.session.notify_ack(kind, self, entries)

    def forget(self, entries: Iterable[Dispatch]) -> None:
        for entry in entries:
            self.delivered.pop(entry.delivery, None)

    # ---- redelivery

    def roll_back(self, entries: list[Dispatch]) -> None:
        """Pass them to the application once more, after the delay of the policy; or reject them, if the policy does not
        allow more redeliveries. A closed consumer requeues them."""
        self.forget(entries)
        self.session.forget_void(entries)
        entries = [entry for entry in entries if not entry.is_settled]
        if self.is_closed:
            self.session.settle(entries, Outcome.GIVE_BACK)
            return
        for entry in entries:
            entry.redeliveries += 1
            entry.is_consumed = False
        poison = [entry for entry in entries if not self.policy.allows(entry.redeliveries)]
        again = [entry for entry in entries if self.policy.allows(entry.redeliveries)]
        if poison:
            self.session.settle(poison, Outcome.REJECT)
            self.session.notify_ack(AckType.POISON, self, poison)
        if again:
            self.session.notify_ack(AckType.REDELIVERED, self, again)
            self._retries.add(again)

    def _put_first(self, entries: Sequence[Dispatch]) -> None:
        """After messages that arrived before them, which may have been put back already."""
        line, earlier, first = self.unconsumed, [], entries[0].delivery.delivery_tag
        while line and line[0].delivery.delivery_tag < first:
            earlier.append(line.popleft())
        line.extendleft(reversed([*earlier, *entries]))

    def _go_on(self) -> None:
        self.wake()
        self.session.serve_listeners()

    def interrupted(self) -> None:
        """Forget waiting messages that the broker will redeliver."""
        self.session.forget_void([*self.unconsumed, *self._retries.away])
        self._retries.forget_settled()
        self.unconsumed = deque(entry for entry in self.unconsumed if not entry.is_settled)
        self.subscription.interrupted()

    # ---- the end

    async def close(self) -> None:
        """Messages that were not consumed are requeued. Waits for a listener that is running."""
        await self._closing.do()

    async def _close(self) -> None:
        self.end(None)
        await self._listener_call.done()
        await self.session.connection.in_time(self._leave())

    async def _leave(self) -> None:
        await self.subscription.close()
        self.session.acknowledge_lazy(self)
        waiting = [*self._retries.away, *self.unconsumed, *self.session.take_waiting(self)]
        self.session.settle(waiting, Outcome.GIVE_BACK)
        self.unconsumed.clear()
        self.session.forget(self)
        await self.source.close()

    def end(self, problem: Exception | None) -> None:
        """No more messages are delivered: it is closed, or its session has failed."""
        self.is_closed = self.is_closed or problem is None
        self.cancelled(problem)
        self._retries.cancel()
        if problem is not None:  # the broker requeues them
            self.unconsumed.clear()

    def cancelled(self, problem: Exception | None) -> None:
        """No more messages will arrive. Those that have arrived can be received."""
        self.problem = self.problem or problem
        if problem is not None:
            self.source.release()
        self.wake()

    def set_back(self, problem: Exception) -> None:
        """The current request failed."""
        self._setback = problem
        self.wake()

    def refuse_closed(self) -> None:
        if self.is_closed:
            raise IllegalState(f"{self} is closed")

    def _refuse_ended(self) -> None:
        setback, self._setback = self._setback, None
        problem = self.problem or setback
        if problem is not None:
            raise problem

    def __str__(self) -> str:
        return f"consumer of queue '{self.source.queue}'"

    def __aiter__(self) -> MessageConsumer:
        return self

    async def __anext__(self) -> Message:
        try:
            message = None if self.is_closed else await self.receive()
        except Closed:
            message = None
        if message is None:
            raise StopAsyncIteration
        return message
