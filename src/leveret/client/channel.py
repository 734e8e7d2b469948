"""A channel: every method of AMQP 0-9-1, as a coroutine that returns when the broker has replied.

Subclasses are used with several brokers (``failover:``, ``fanout:``). They override how a method is called (``_call``),
and how a publish that is encoded is sent (``send_encoded``); the methods themselves are written once, here.

Hot path: ``send``, ``ack`` and ``deliver`` run once per message. They write into the connection's buffer, which is sent
once per loop iteration, without waiting for the network in between.

Length: the class has all methods of AMQP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.client.callbacks import BackgroundTasks, call_back
from leveret.client.closable import Closable
from leveret.client.confirms import Confirms, Likeness, Settled, likeness_of
from leveret.client.consumers import Consumer, OnDelivery, cancelled
from leveret.client.correlator import REPLIES, Correlator, Then
from leveret.client.errors import Closed, error_of_close
from leveret.client.messages import Delivery, Fetched, Returned
from leveret.client.publish_frames import ACK, ACK_IDS, BODY, HEAD_OVERHEAD, HEADER, Route, route_frame, too_large
from leveret.errors import UnexpectedFrame
from leveret.wire import methods as m
from leveret.wire.constants import BASIC_CLASS, END_BYTE, FRAME_OVERHEAD, REPLY_SUCCESS
from leveret.wire.fields import Table
from leveret.wire.frames import content_frames, method_frame
from leveret.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from leveret.client.connection import Connection

T = TypeVar("T")
NO_PROPERTIES = Properties()
NO_HEAD = encode_properties(NO_PROPERTIES)


class Channel(Closable):
    generation = 0  # how many connections below it were lost

    def __init__(self, connection: Connection, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.connection = connection
        self.number = number
        self.consumers: dict[str, Consumer] = {}
        self.confirms: Confirms | None = None
        self.on_return: Callable[[Returned], None] | None = None
        self.on_close: Callable[[Exception], None] | None = None
        self._correlator = Correlator(loop)
        self._problem: Exception | None = None
        self.run = BackgroundTasks().run
        self._write = connection.write
        self._route: tuple[Route | None, bytes] = (None, b"")  # of the last publish, with its method frame

    @property
    def is_closed(self) -> bool:
        return self._problem is not None

    @property
    def is_live(self) -> bool:
        """Whether there is a connection. Channels of ``failover:`` and ``fanout:`` may have to wait for one."""
        return True

    async def until_live(self) -> None:
        """Wait until there is a connection."""
        self._refuse_closed()

    async def open(self) -> None:
        await self._call(m.ChannelOpen())

    async def close(self) -> None:
        """Unacknowledged messages are requeued."""
        if not self.is_closed:
            await self._send_close(Closed(f"channel {self.number} is closed"))

    def _send_close(self, problem: Exception) -> asyncio.Future[Any]:
        """The channel ends with the reply, even if the caller was cancelled."""
        method = m.ChannelClose(REPLY_SUCCESS, "closed by the client", 0, 0)
        reply = self._call_now(method, then=lambda _: self.end(problem))
        self._problem = problem
        return reply

    def end(self, problem: Exception) -> None:
        """The channel is closed for this reason: fail all pending calls."""
        self._problem = self._problem or problem
        self.connection.forget(self)
        self._correlator.end(problem)
        if self.confirms is not None:
            self.confirms.end(problem)
        consumers, self.consumers = self.consumers, {}
        for consumer in consumers.values():
            consumer.end(problem)
        if self.on_close is not None:
            call_back(self.on_close, problem)

    def _call(self, method: m.Method, then: Then = None) -> asyncio.Future[Any]:
        """The reply to a method of the application."""
        return self._call_now(method, then)

    def _call_now(self, method: m.Method, then: Then = None) -> asyncio.Future[Any]:
        """The reply on the connection that is there now."""
        self._refuse_closed()
        frame, frame_max = method_frame(self.number, method), self.connection.frame_max
        if 0 < frame_max < len(frame):
            raise too_large(method.NAME, len(frame), frame_max)
        self._write(frame)
        return self._correlator.expect(*REPLIES[type(method)], then=then)

    def _refuse_closed(self) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)  # otherwise each raise would extend its traceback

    # ---- exchanges and queues

    async def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        await self._call(m.ExchangeDeclare(name, kind, passive, durable, auto_delete, internal, False, arguments))

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        await self._call(m.ExchangeDelete(name, if_unused))

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(m.ExchangeBind(destination, source, routing_key, False, arguments))

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(m.ExchangeUnbind(destination, source, routing_key, False, arguments))

    async def declare_queue(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> m.QueueDeclareOk:
        """The name of the queue, generated by the broker if it is empty, and its numbers of messages and consumers."""
        return await self._declare_queue(
            m.QueueDeclare(name, passive, durable, exclusive, auto_delete, False, arguments)
        )

    async def _declare_queue(self, method: m.QueueDeclare) -> m.QueueDeclareOk:
        reply: m.QueueDeclareOk = await self._call(method)
        return reply

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(m.QueueBind(queue, exchange, routing_key, False, arguments))

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(m.QueueUnbind(queue, exchange, routing_key, arguments))

    async def purge_queue(self, name: str) -> int:
        """Returns how many messages were deleted."""
        return int((await self._call(m.QueuePurge(name))).message_count)

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Returns how many messages were deleted with it."""
        return int((await self._call(m.QueueDelete(name, if_unused, if_empty))).message_count)

    # ---- publishing

    async def confirm_select(self) -> None:
        """From now on the broker confirms each message that is published."""
        if self.confirms is None:
            reply = self._call(m.ConfirmSelect())
            self.confirms = self._new_confirms()  # messages sent before the reply arrives are numbered too
            await reply

    def _new_confirms(self) -> Confirms:
        return Confirms(asyncio.get_running_loop())

    def send(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> asyncio.Future[None] | None:
        """Publishes without waiting. With confirms it returns a future for the confirm, else None."""
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        frames = self.encoded(body, exchange, routing_key, properties, mandatory)
        confirm = None if self.confirms is None else self.confirms.new_future()
        self.send_encoded(frames, confirm, likeness_of(frames, body) if mandatory else None)
        return confirm

    def encoded(self, body: bytes, exchange: str, routing_key: str, properties: Properties, mandatory: bool) -> bytes:
        """The frames of a publish. Any thread may call it."""
        route = (exchange, routing_key, mandatory)
        known, frame = self._route
        if route != known:
            frame = route_frame(self.number, route)
            self._route = (route, frame)
        size, number, frame_max, head = len(body), self.number, self.connection.frame_max, NO_HEAD
        if properties is not NO_PROPERTIES:
            head = encode_properties(properties)
            if 0 < frame_max < len(head) + HEAD_OVERHEAD:
                raise too_large("the properties of the message", len(head) + HEAD_OVERHEAD, frame_max)
        if not size or (frame_max and size > frame_max - FRAME_OVERHEAD):
            return frame + content_frames(number, head, body, frame_max)
        # Most messages have one body frame: joining the parts here costs half as much.
        before, between = HEADER(2, number, 12 + len(head), BASIC_CLASS, 0, size), BODY(0xCE, 3, number, size)
        return b"".join((frame, before, head, between, body, END_BYTE))

    def send_encoded(self, frames: bytes, confirm: Settled | None, mandatory: Likeness | None) -> None:
        """``confirm`` receives the outcome of the message."""
        if self._problem is not None:
            if confirm is not None:
                confirm.set_exception(self._problem)
            return
        self._write(frames)
        if self.confirms is not None:
            self.confirms.track(confirm or self.confirms.new_future(), mandatory)

    async def publish(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> None:
        """With confirms it returns when the broker has confirmed the message, else when there is room to write more."""
        if self.confirms is None and not self.is_live:
            await self.until_live()
        confirm = self.send(body, exchange, routing_key, properties, mandatory=mandatory)
        if confirm is not None:
            await confirm
        elif self.connection.is_congested:
            await self.connection.writable()

    async def select_transactions(self) -> None:
        await self._call(m.TxSelect())

    async def commit(self) -> None:
        await self._call(m.TxCommit())

    async def rollback(self) -> None:
        await self._call(m.TxRollback())

    # ---- consuming

    async def qos(self, prefetch_count: int, *, prefetch_size: int = 0, is_global: bool = False) -> None:
        await self._call(m.BasicQos(prefetch_size, prefetch_count, is_global))

    async def flow(self, active: bool) -> None:
        """Ask the broker to deliver or to stop. Leveret and RabbitMQ refuse to stop: set a prefetch instead."""
        await self._call(m.ChannelFlow(active))

    async def consume(
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
        """``callback`` is called with each message, on the loop. Without a callback, iterate over the consumer."""
        consumer = Consumer(self, queue, callback, no_ack=no_ack)

        def begin(reply: m.BasicConsumeOk) -> Consumer:
            consumer.tag = reply.consumer_tag
            self.consumers[consumer.tag] = consumer
            return consumer

        reply = self._call(m.BasicConsume(queue, tag, no_local, no_ack, exclusive, False, arguments), then=begin)
        return await self._undone_if_cancelled(reply, lambda _: self.run(consumer.cancel()))

    async def _undone_if_cancelled(self, reply: asyncio.Future[T], undo: Callable[[T], object]) -> T:
        """The result of a call. If the caller is cancelled, ``undo`` is called with it when it arrives."""

        def arrived(reply: asyncio.Future[T]) -> None:
            if reply.exception() is None and not self.is_closed:
                undo(reply.result())

        try:
            return await asyncio.shield(reply)
        except asyncio.CancelledError:
            reply.add_done_callback(arrived)
            raise

    async def cancel(self, tag: str) -> None:
        """The consumer ends with the reply, even if the caller was cancelled."""
        consumer = self.consumers.get(tag)

        def end(_: m.Method) -> None:
            if consumer is not None and self.consumers.get(tag) is consumer:
                del self.consumers[tag]
                consumer.give_back()
                consumer.end(Closed(f"consumer '{tag}' was cancelled"))

        await self._call(m.BasicCancel(tag), then=end)

    async def get(self, queue: str, *, no_ack: bool = False) -> Fetched | None:
        """The next message, or None if the queue is empty."""
        fetched = await self._fetch(queue, no_ack=no_ack)
        return fetched if isinstance(fetched, Fetched) else None

    async def _fetch(self, queue: str, *, no_ack: bool, then: Then = None) -> Any:
        def requeue(fetched: Any) -> None:
            if not no_ack and isinstance(fetched, Fetched):
                fetched.nack(requeue=True)

        return await self._undone_if_cancelled(self._call(m.BasicGet(queue, no_ack), then=then), requeue)

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        self._write(ACK(1, self.number, 13, ACK_IDS, delivery_tag, multiple, 0xCE))

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._refuse_closed()
        self._write(method_frame(self.number, m.BasicNack(delivery_tag, multiple, requeue)))

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        self._refuse_closed()
        self._write(method_frame(self.number, m.BasicReject(delivery_tag, requeue)))

    async def recover(self, *, requeue: bool = True) -> None:
        """Unacknowledged messages are redelivered."""
        await self._call(m.BasicRecover(requeue))

    # ---- received methods

    def heard(self, method: m.Method) -> None:
        if isinstance(method, m.BasicAck):
            self._settle(method.delivery_tag, multiple=method.multiple, is_taken=True)
        elif isinstance(method, m.BasicNack):
            self._settle(method.delivery_tag, multiple=method.multiple, is_taken=False)
        elif isinstance(method, m.BasicCancel):
            self._cancelled(method)
        elif isinstance(method, m.ChannelFlow):
            self._write(method_frame(self.number, m.ChannelFlowOk(method.active)))
        elif isinstance(method, m.ChannelClose):
            self._write(method_frame(self.number, m.ChannelCloseOk()))
            problem = error_of_close(method.reply_code, method.reply_text, "channel")
            if not self.is_closed:
                self.end(problem)
            else:  # both sides sent a close: only ours will get a reply
                self._correlator.end(problem, but_last=True)
        else:
            if isinstance(method, m.ChannelCloseOk):  # RabbitMQ may send it before the reply to a cancel
                self._correlator.end(self._problem or Closed(f"channel {self.number} is closed"), but_last=True)
            self._correlator.answer(method)

    def _settle(self, tag: int, *, multiple: bool, is_taken: bool) -> None:
        if self.confirms is None:
            raise UnexpectedFrame("a confirm on a channel without confirms")
        self.confirms.settle(tag, multiple=multiple, is_taken=is_taken)

    def _cancelled(self, method: m.BasicCancel) -> None:
        consumer = self.consumers.pop(method.consumer_tag, None)
        if not method.nowait:
            self._write(method_frame(self.number, m.BasicCancelOk(method.consumer_tag)))
        if consumer is not None:
            consumer.end(cancelled(consumer.tag, consumer.queue))

    def deliver(self, delivery: Delivery) -> None:
        consumer = self.consumers.get(delivery.consumer_tag)
        if consumer is not None:
            if self._problem is None or consumer.no_ack:  # otherwise our close requeues it
                consumer.take(delivery)
        elif not self.is_closed:  # the consumer was cancelled meanwhile
            delivery.nack(requeue=True)

    def heard_content(self, method: m.Method, head: bytes, body: bytes) -> None:
        if self.is_closed:
            return
        if isinstance(method, m.BasicReturn):
            message = Returned(method.reply_code, method.reply_text, method.exchange, method.routing_key, head, body)
            if self.confirms is not None:
                self.confirms.returned(message)
            if self.on_return is not None:
                call_back(self.on_return, message)
        elif isinstance(method, m.BasicGetOk):
            envelope = (method.delivery_tag, method.redelivered, method.exchange, method.routing_key)
            fetched = Fetched(self, "", *envelope, head, body)
            fetched.left = method.message_count
            self._correlator.answer(method, fetched)
