"""A channel for threads: the methods of the asyncio channel under the same names. Each waits for the broker's reply.

Hot path: ``send`` and ``ack`` run once per message. They encode in the thread of the caller, which may change its
arguments right after, and post the rest to the loop without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any

from leveret.client.blocking_api import BlockingObject, blocking, signature_of
from leveret.client.blocking_consumer import Consumer, OnDelivery
from leveret.client.channel import NO_PROPERTIES
from leveret.client.channel import Channel as Core
from leveret.client.confirms import likeness_of
from leveret.client.errors import Cancelled, Closed
from leveret.client.loop_thread import Answer
from leveret.client.messages import Fetched, Returned
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.client import consumers as core_consumers
    from leveret.client.blocking import Connection

MOST_POSTED = 10_000  # messages that may wait for the loop; beyond that the sender waits
MOST_OPEN = 20_000  # approximate number of unconfirmed messages: senders check after each half of it


class Channel(BlockingObject[Core]):
    def __init__(self, connection: Connection, core: Core) -> None:
        super().__init__(core, connection.loop_thread)
        self.connection = connection
        self.on_return: Callable[[Returned], None] | None = None  # called on the loop: it must not block
        self.consumers: dict[str, Consumer] = {}
        self.confirms: Confirms | None = None
        # Consumers with a message for their callback; None: stop.
        self.due: SimpleQueue[Consumer | None] = SimpleQueue()
        self._post = self.loop_thread.post
        self._posts = self.loop_thread.posts
        self._ahead = 0  # messages that were sent after the milestone
        self._milestone: Answer[None] | None = None
        self._problem: Exception | None = None
        core.on_close = self._ended
        core.on_return = self._returned

    @property
    def number(self) -> int:
        return self.core.number

    @property
    def is_closed(self) -> bool:
        return self._problem is not None

    def refuse_closed(self) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)

    def close(self) -> None:
        """Unacknowledged messages are requeued."""
        if not self.is_closed:
            self.call(self.core.close())

    def _ended(self, problem: Exception) -> None:
        self._problem = self._problem or problem

    def _returned(self, message: Returned) -> None:
        if self.on_return is not None:
            self.on_return(message)

    declare_exchange = blocking(Core.declare_exchange)
    delete_exchange = blocking(Core.delete_exchange)
    bind_exchange = blocking(Core.bind_exchange)
    unbind_exchange = blocking(Core.unbind_exchange)
    declare_queue = blocking(Core.declare_queue)
    bind_queue = blocking(Core.bind_queue)
    unbind_queue = blocking(Core.unbind_queue)
    purge_queue = blocking(Core.purge_queue)
    delete_queue = blocking(Core.delete_queue)
    select_transactions = blocking(Core.select_transactions)
    commit = blocking(Core.commit)
    rollback = blocking(Core.rollback)
    qos = blocking(Core.qos)
    flow = blocking(Core.flow)
    recover = blocking(Core.recover)

    # ---- publishing

    @signature_of(Core.confirm_select)
    def confirm_select(self) -> None:
        self.refuse_closed()
        self.call(self.core.confirm_select())
        self.confirms = self.confirms or Confirms(self)

    def send(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> Answer[None] | None:
        """Publishes without waiting for the broker. With confirms it returns a future for the confirm, else None.

        It blocks only while more was sent than the broker accepts or confirms. Without confirms it also blocks while
        there is no connection: the outcome of the message would be unknown.
        """
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        connection = self.connection.core
        if connection.is_away:
            self._wait_for_broker()
        if body.__class__ is not bytes:
            body = bytes(memoryview(body))
        confirm: Answer[None] | None = None if self.confirms is None else Answer()
        frames = self.core.encoded(body, exchange, routing_key, properties, mandatory)
        self._post(self.core.send_encoded, frames, confirm, likeness_of(frames, body) if mandatory else None)
        if len(self._posts) > MOST_POSTED or connection.is_congested:
            self._wait_for_room()
        if confirm is not None:
            self._ahead += 1
            if self._ahead >= MOST_OPEN // 2:
                self._wait_for_confirms(confirm)
        return confirm

    @signature_of(Core.publish)
    def publish(self, *args: Any, **kwargs: Any) -> None:
        self.loop_thread.refuse_own_thread()
        confirm = self.send(*args, **kwargs)
        if confirm is not None:
            confirm.result()

    def _wait_for_room(self) -> None:
        if not self.loop_thread.is_current:
            self.call(self.connection.core.writable())

    def _wait_for_broker(self) -> None:
        connection = self.connection.core
        if connection.outage_error is not None:
            raise connection.outage_error.with_traceback(None)
        if self.confirms is None and not self.loop_thread.is_current:
            self.call(connection.until_up())

    def _wait_for_confirms(self, newest: Answer[None]) -> None:
        """Until the milestone is confirmed; the newest message is the next one."""
        milestone, self._milestone, self._ahead = self._milestone, newest, 0
        if milestone is not None and not milestone.done() and not self.loop_thread.is_current:
            passed = Event()
            milestone.add_done_callback(lambda _: passed.set())  # does not retrieve its exception: the sender may
            passed.wait()

    # ---- consuming

    @signature_of(Core.consume)
    def consume(self, queue: str, callback: OnDelivery | None = None, **options: Any) -> Consumer:
        """``callback`` is called with each message by start_consuming or run_callbacks, in the thread that calls them.
        Without a callback, iterate over the consumer."""
        self.refuse_closed()
        consumer = Consumer(self, queue, callback, no_ack=options.get("no_ack", False))

        async def begin() -> core_consumers.Consumer:
            begun = await self.core.consume(queue, consumer.arrived, **options)
            consumer.tag = begun.tag
            begun.on_end = consumer.ended
            if begun.problem is not None:  # it ended before on_end was set
                consumer.ended(begun.problem)
            return begun

        self.call(begin(), undo=lambda begun: begun.cancel())
        self.consumers[consumer.tag] = consumer
        return consumer

    def cancel(self, tag: str) -> None:
        self.refuse_closed()
        consumer = self.consumers.pop(tag, None)
        self.call(self.core.cancel(tag))
        if consumer is not None:
            consumer.give_back()

    def start_consuming(self) -> None:
        """Calls the callbacks of the channel's consumers in this thread, as messages arrive, until all of them are
        cancelled or stop_consuming is called. Raises the error that ends a consumer otherwise."""
        while self._has_callbacks():
            consumer = self.due.get()
            if consumer is None:
                return
            self._call_back(consumer)

    def stop_consuming(self) -> None:
        """Makes start_consuming return after the current callback. Any thread may call it."""
        self.due.put(None)

    def run_callbacks(self, timeout: float | None = 0) -> int:
        """Calls the callbacks for messages that have arrived, and returns how many. Waits ``timeout`` seconds for the
        first message; None: no limit."""
        called = 0
        while True:
            try:
                consumer = self.due.get(True, timeout)
            except Empty:
                return called
            if consumer is None:
                return called
            self._call_back(consumer)
            called, timeout = called + 1, 0

    def _has_callbacks(self) -> bool:
        return any(consumer.callback is not None for consumer in self.consumers.values())

    def _call_back(self, consumer: Consumer) -> None:
        try:
            consumer.call_back()
        except Closed:
            if self.consumers.pop(consumer.tag, None) is not None:
                raise
        except Cancelled:
            self.consumers.pop(consumer.tag, None)
            raise

    def get(self, queue: str, *, no_ack: bool = False) -> Fetched | None:
        """The next message, or None if the queue is empty."""
        self.refuse_closed()
        fetched = self.call(self.core.get(queue, no_ack=no_ack), undo=None if no_ack else self._unget)
        if fetched is not None:
            fetched.channel = self  # type: ignore[assignment]  # whose acks any thread may call
        return fetched

    async def _unget(self, fetched: Fetched | None) -> None:
        if fetched is not None and not self.core.is_closed:
            fetched.nack(requeue=True)

    # If the channel closes before the loop runs one of these, the next call raises the error.

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        self._post(self._ack, delivery_tag, multiple)

    def _ack(self, tag: int, multiple: bool) -> None:
        if self._problem is None:
            self.core.ack(tag, multiple=multiple)

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self.refuse_closed()
        self._post(self._nack, delivery_tag, multiple, requeue)

    def _nack(self, tag: int, multiple: bool, requeue: bool) -> None:
        if self._problem is None:
            self.core.nack(tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        self.refuse_closed()
        self._post(self._reject, delivery_tag, requeue)

    def _reject(self, tag: int, requeue: bool) -> None:
        if self._problem is None:
            self.core.reject(tag, requeue=requeue)


class Confirms:
    """The messages that were sent and are not confirmed."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def open(self) -> int:
        """How many, at most: everything that was posted to the loop is counted."""
        confirms = self._channel.core.confirms
        return len(self._channel.loop_thread.posts) + (confirms.open if confirms is not None else 0)

    def all_settled(self) -> None:
        """Wait until everything is confirmed. Raises the first failure that was not retrieved."""
        confirms = self._channel.core.confirms
        assert confirms is not None
        self._channel.loop_thread.call(confirms.all_settled())
