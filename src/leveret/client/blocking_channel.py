"""A channel for threads: the calls of the asyncio channel under the same names, each waiting for its answer.

Hot path: ``send`` and ``ack`` run once per message. They encode in the thread of the caller, which may change what it
gave right after, and post the rest to the loop without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from leveret.client import channel as core_channel
from leveret.client.arrivals import Fetched, Returned
from leveret.client.blocking_consumer import Consumer, OnDelivery
from leveret.client.channel import NO_PROPERTIES
from leveret.client.errors import Cancelled, Closed
from leveret.client.loop_thread import Answer
from leveret.client.mandatory import likeness_of
from leveret.wire.fields import Table
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.client import consumers as core_consumers
    from leveret.client.blocking import Connection

P = ParamSpec("P")
R = TypeVar("R")
Core = core_channel.Channel
MOST_POSTED = 10_000  # messages that may wait for the loop; beyond that the sender waits
MOST_OPEN = 20_000  # approximate number of unconfirmed messages: senders check after each half of it


def waiting(call: Callable[Concatenate[Core, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Channel, P], R]:
    """The same call for a thread."""
    name = call.__name__

    def wait(self: Channel, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.refuse_closed()
        work: Coroutine[Any, Any, R] = getattr(self.core, name)(*args, **kwargs)
        return self.loop_thread.call(work)

    update_wrapper(wait, call)
    return wait


class Channel:
    def __init__(self, connection: Connection, core: Core) -> None:
        self.connection = connection
        self.core = core
        self.loop_thread = connection.loop_thread
        self.on_return: Callable[[Returned], None] | None = None  # called on the loop: it must not wait
        self.consumers: dict[str, Consumer] = {}
        self.confirms: Confirms | None = None
        self.due: SimpleQueue[Consumer | None] = (
            SimpleQueue()
        )  # consumers with a message for their callback; None: stop
        self._post = self.loop_thread.post
        self._posts = self.loop_thread.posts
        self._ahead = 0  # messages that were sent after the milestone
        self._milestone: Answer[None] | None = None
        self._problem: Exception | None = None
        core.on_close = self._ended
        core.on_return = self._returned

    # ---- life

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
        """What is not acked goes back to its queues."""
        if not self.is_closed:
            self.loop_thread.call(self.core.close())

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ended(self, problem: Exception) -> None:
        self._problem = self._problem or problem

    def _returned(self, message: Returned) -> None:
        if self.on_return is not None:
            self.on_return(message)

    # ---- exchanges and queues

    declare_exchange = waiting(Core.declare_exchange)
    delete_exchange = waiting(Core.delete_exchange)
    bind_exchange = waiting(Core.bind_exchange)
    unbind_exchange = waiting(Core.unbind_exchange)
    declare_queue = waiting(Core.declare_queue)
    bind_queue = waiting(Core.bind_queue)
    unbind_queue = waiting(Core.unbind_queue)
    purge_queue = waiting(Core.purge_queue)
    delete_queue = waiting(Core.delete_queue)

    # ---- publishing

    def confirm_select(self) -> None:
        """From now on the broker says of each message that it is safe."""
        self.refuse_closed()
        self.loop_thread.call(self.core.confirm_select())
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
        """Publishes, and returns at once: with confirms a future that is done when the message is safe, else None.

        It waits only while more has been sent than the broker takes or confirms, and without confirms while there is
        none: the outcome of the message would be unknown.
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

    def publish(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> None:
        """With confirms it returns when the message is safe, else when there is room to write more."""
        self.loop_thread.refuse_own_thread()
        confirm = self.send(body, exchange, routing_key, properties, mandatory=mandatory)
        if confirm is not None:
            confirm.result()

    def _wait_for_room(self) -> None:
        if not self.loop_thread.is_current:
            self.loop_thread.call(self.connection.core.writable())

    def _wait_for_broker(self) -> None:
        connection = self.connection.core
        if connection.hopeless is not None:
            raise connection.hopeless.with_traceback(None)
        if self.confirms is None and not self.loop_thread.is_current:
            self.loop_thread.call(connection.until_up())

    def _wait_for_confirms(self, newest: Answer[None]) -> None:
        """Until the milestone is confirmed; the newest message is the next one."""
        milestone, self._milestone, self._ahead = self._milestone, newest, 0
        if milestone is not None and not milestone.done() and not self.loop_thread.is_current:
            passed = Event()
            milestone.add_done_callback(lambda _: passed.set())  # what became of it is for its owner to ask
            passed.wait()

    select_transactions = waiting(Core.select_transactions)
    commit = waiting(Core.commit)
    rollback = waiting(Core.rollback)

    # ---- consuming

    qos = waiting(Core.qos)
    flow = waiting(Core.flow)
    recover = waiting(Core.recover)

    def consume(
        self,
        queue: str,
        callback: OnDelivery | None = None,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        tag: str = "",
        arguments: Table | None = None,
    ) -> Consumer:
        """``callback`` is called with each message by start_consuming or run_callbacks, in the thread that calls them;
        without one the consumer is iterated."""
        self.refuse_closed()
        consumer = Consumer(self, queue, callback, no_ack=no_ack)

        async def begin() -> core_consumers.Consumer:
            begun = await self.core.consume(
                queue,
                consumer.arrived,
                no_ack=no_ack,
                exclusive=exclusive,
                no_local=no_local,
                tag=tag,
                arguments=arguments,
            )
            consumer.tag = begun.tag
            begun.on_end = consumer.ended
            if begun.problem is not None:  # it ended before anybody could say so
                consumer.ended(begun.problem)
            return begun

        self.loop_thread.call(begin(), undo=lambda begun: begun.cancel())
        self.consumers[consumer.tag] = consumer
        return consumer

    def cancel(self, tag: str) -> None:
        self.refuse_closed()
        consumer = self.consumers.pop(tag, None)
        self.loop_thread.call(self.core.cancel(tag))
        if consumer is not None:
            consumer.give_back()

    def start_consuming(self) -> None:
        """Calls the callbacks of the channel's consumers, here, as messages come: until all of them are cancelled, or
        stop_consuming is called. Raises what ends a consumer otherwise."""
        while self._has_callbacks():
            consumer = self.due.get()
            if consumer is None:
                return
            self._call_back(consumer)

    def stop_consuming(self) -> None:
        """start_consuming returns, once the callback that it is in has returned. From any thread."""
        self.due.put(None)

    def run_callbacks(self, timeout: float | None = 0) -> int:
        """Calls the callbacks for what has come, and tells how many. Waits so long for the first (None: for ever)."""
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
        """The next message, if there is one."""
        self.refuse_closed()
        fetched = self.loop_thread.call(self.core.get(queue, no_ack=no_ack), undo=None if no_ack else self._unget)
        if fetched is not None:
            fetched.channel = self  # type: ignore[assignment]  # whose acks any thread may call
        return fetched

    async def _unget(self, fetched: Fetched | None) -> None:
        if fetched is not None and not self.core.is_closed:
            fetched.nack(requeue=True)

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        self._post(self._ack, delivery_tag, multiple)

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self.refuse_closed()
        self._post(self._nack, delivery_tag, multiple, requeue)

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        self.refuse_closed()
        self._post(self._reject, delivery_tag, requeue)

    # An ack on a channel that closes at the same moment raises in the next call.

    def _ack(self, tag: int, multiple: bool) -> None:
        if self._problem is None:
            self.core.ack(tag, multiple=multiple)

    def _nack(self, tag: int, multiple: bool, requeue: bool) -> None:
        if self._problem is None:
            self.core.nack(tag, multiple=multiple, requeue=requeue)

    def _reject(self, tag: int, requeue: bool) -> None:
        if self._problem is None:
            self.core.reject(tag, requeue=requeue)


class Confirms:
    """What was sent and is not confirmed."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def open(self) -> int:
        """How many, at most: what still waits for the loop counts, whatever it is."""
        confirms = self._channel.core.confirms
        return len(self._channel.loop_thread.posts) + (confirms.open if confirms is not None else 0)

    def all_settled(self) -> None:
        """Wait until everything is confirmed. Raises the first failure that was not retrieved."""
        confirms = self._channel.core.confirms
        assert confirms is not None
        self._channel.loop_thread.call(confirms.all_settled())
