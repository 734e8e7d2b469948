"""A channel: every call of AMQP 0-9-1, as a coroutine that returns when the broker has answered.

Hot path: ``send``, ``ack`` and ``deliver`` run once per message. They write into the connection's outbox, which leaves
once per loop iteration, without waiting for the network in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.client.callbacks import Beside, call_back
from leveret.client.closable import Closable
from leveret.client.confirms import Confirms, Settled
from leveret.client.consumers import Consumer, OnDelivery, cancelled
from leveret.client.correlator import Correlator
from leveret.client.errors import Closed, told_by_peer
from leveret.client.mandatory import Likeness, likeness_of
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

Then = Callable[[Any], Any] | None  # sees an answer as soon as it is there
NO_PROPERTIES = Properties()
NO_HEAD = encode_properties(NO_PROPERTIES)


class Channel(Closable):
    life = 0  # how many connections below it were lost

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
        self.run = Beside().run
        self._write = connection.write
        self._route: tuple[Route | None, bytes] = (None, b"")  # of the last publish, with its frame

    # ---- life

    @property
    def is_closed(self) -> bool:
        return self._problem is not None

    @property
    def is_live(self) -> bool:
        """Whether there is a connection. Channels of ``failover:`` and ``fanout:`` may have to wait for one."""
        return True

    async def open(self) -> None:
        await self._ask(m.ChannelOpen(), m.ChannelOpenOk)

    async def close(self) -> None:
        """What is not acked goes back to its queues."""
        if not self.is_closed:
            await self._say_goodbye(Closed(f"channel {self.number} is closed"))

    def _say_goodbye(self, problem: Exception) -> asyncio.Future[Any]:
        """It ends with the reply, even if the caller was cancelled."""
        method = m.ChannelClose(REPLY_SUCCESS, "closed by the client", 0, 0)
        answer = self._ask_now(method, m.ChannelCloseOk, then=lambda _: self.end(problem))
        self._problem = problem
        return answer

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

    def _ask(self, method: m.Method, *answers: type[m.Method], then: Then = None) -> asyncio.Future[Any]:
        return self._ask_now(method, *answers, then=then)

    def _ask_now(self, method: m.Method, *answers: type[m.Method], then: Then = None) -> asyncio.Future[Any]:
        self._refuse_closed()
        frame, frame_max = method_frame(self.number, method), self.connection.frame_max
        if 0 < frame_max < len(frame):
            raise too_large(method.NAME, len(frame), frame_max)
        self._write(frame)
        return self._correlator.expect(*answers, then=then)

    def _refuse_closed(self) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)  # it is raised often: without, each raise would add to it

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
        bits = (passive, durable, auto_delete, internal, False)
        await self._ask(m.ExchangeDeclare(name, kind, *bits, arguments or {}), m.ExchangeDeclareOk)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        await self._ask(m.ExchangeDelete(name, if_unused, False), m.ExchangeDeleteOk)

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        method = m.ExchangeBind(destination, source, routing_key, False, arguments or {})
        await self._ask(method, m.ExchangeBindOk)

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        method = m.ExchangeUnbind(destination, source, routing_key, False, arguments or {})
        await self._ask(method, m.ExchangeUnbindOk)

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
        """Its name, which the broker makes up if there is none, and how many messages and consumers it has."""
        bits = (passive, durable, exclusive, auto_delete, False)
        answer: m.QueueDeclareOk = await self._ask(m.QueueDeclare(name, *bits, arguments or {}), m.QueueDeclareOk)
        return answer

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._ask(m.QueueBind(queue, exchange, routing_key, False, arguments or {}), m.QueueBindOk)

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._ask(m.QueueUnbind(queue, exchange, routing_key, arguments or {}), m.QueueUnbindOk)

    async def purge_queue(self, name: str) -> int:
        """How many messages there were."""
        answer = await self._ask(m.QueuePurge(name, False), m.QueuePurgeOk)
        return int(answer.message_count)

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        answer = await self._ask(m.QueueDelete(name, if_unused, if_empty, False), m.QueueDeleteOk)
        return int(answer.message_count)

    # ---- publishing

    async def confirm_select(self) -> None:
        """From now on the broker says of each message that it is safe."""
        if self.confirms is None:
            answer = self._ask(m.ConfirmSelect(False), m.ConfirmSelectOk)
            self.confirms = self._new_confirms()  # what is sent from now on is numbered, before the answer too
            await answer

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
        """Publishes, and returns at once: with confirms what can be awaited until the message is safe, else None."""
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        frames = self.encoded(body, exchange, routing_key, properties, mandatory)
        self._write(frames)
        if self.confirms is None:
            return None
        return self.confirms.add(likeness_of(frames, body) if mandatory else None)

    def encoded(self, body: bytes, exchange: str, routing_key: str, properties: Properties, mandatory: bool) -> bytes:
        """The frames of a publish. Any thread may ask."""
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
        # Most messages have one body frame: they are put together here in one go, at half the cost.
        before, between = HEADER(2, number, 12 + len(head), BASIC_CLASS, 0, size), BODY(0xCE, 3, number, size)
        return b"".join((frame, before, head, between, body, END_BYTE))

    def send_encoded(self, frames: bytes, confirm: Settled | None, mandatory: Likeness | None) -> None:
        """For callers that encode the frames themselves: ``confirm`` receives the outcome of the message."""
        if self._problem is not None:
            if confirm is not None:
                confirm.set_exception(self._problem)
            return
        self._write(frames)
        if self.confirms is not None:
            self.confirms.tell(confirm or self.confirms.new_future(), mandatory)

    async def publish(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> None:
        """With confirms it returns when the message is safe, else when there is room to write more."""
        confirm = self.send(body, exchange, routing_key, properties, mandatory=mandatory)
        if confirm is not None:
            await confirm
        elif self.connection.is_congested:
            await self.connection.writable()

    async def select_transactions(self) -> None:
        await self._ask(m.TxSelect(), m.TxSelectOk)

    async def commit(self) -> None:
        await self._ask(m.TxCommit(), m.TxCommitOk)

    async def rollback(self) -> None:
        await self._ask(m.TxRollback(), m.TxRollbackOk)

    # ---- consuming

    async def qos(self, prefetch_count: int, *, prefetch_size: int = 0, is_global: bool = False) -> None:
        await self._ask(m.BasicQos(prefetch_size, prefetch_count, is_global), m.BasicQosOk)

    async def flow(self, active: bool) -> None:
        """Whether the broker shall deliver. Leveret and RabbitMQ refuse to stop: there a prefetch holds them back."""
        await self._ask(m.ChannelFlow(active), m.ChannelFlowOk)

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
        """``callback`` is called with each message, on the loop; without one the consumer is iterated."""
        consumer = Consumer(self, queue, callback, no_ack=no_ack)

        def begin(answer: m.BasicConsumeOk) -> Consumer:
            consumer.tag = answer.consumer_tag
            self.consumers[consumer.tag] = consumer
            return consumer

        method = m.BasicConsume(queue, tag, no_local, no_ack, exclusive, False, arguments or {})
        answer = self._ask(method, m.BasicConsumeOk, then=begin)
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(lambda done: self._unwanted_consumer(done, consumer))
            raise
        return consumer

    def _unwanted_consumer(self, answer: asyncio.Future[Any], consumer: Consumer) -> None:
        """The caller was cancelled."""
        if answer.exception() is None and not self.is_closed:
            self.run(consumer.cancel())

    async def cancel(self, tag: str) -> None:
        """It ends with the reply, even if the caller was cancelled."""
        consumer = self.consumers.get(tag)

        def end(_: m.Method) -> None:
            if consumer is not None and self.consumers.get(tag) is consumer:
                del self.consumers[tag]
                consumer.give_back()
                consumer.end(Closed(f"consumer '{tag}' was cancelled"))

        await self._ask(m.BasicCancel(tag, False), m.BasicCancelOk, then=end)

    async def get(self, queue: str, *, no_ack: bool = False) -> Fetched | None:
        """The next message, if there is one."""
        fetched = await self._fetch(queue, no_ack=no_ack)
        return fetched if isinstance(fetched, Fetched) else None

    async def _fetch(self, queue: str, *, no_ack: bool, then: Then = None) -> Any:
        answer = self._ask(m.BasicGet(queue, no_ack), m.BasicGetOk, m.BasicGetEmpty, then=then)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not no_ack:
                answer.add_done_callback(self._unwanted_message)
            raise

    def _unwanted_message(self, answer: asyncio.Future[Any]) -> None:
        """The caller was cancelled."""
        if answer.exception() is None and isinstance(answer.result(), Fetched) and not self.is_closed:
            answer.result().nack(requeue=True)

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
        """Everything that is not acked is delivered again."""
        await self._ask(m.BasicRecover(requeue), m.BasicRecoverOk)

    # ---- what the broker says

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
            problem = told_by_peer(method.reply_code, method.reply_text, "channel")
            if not self.is_closed:
                self.end(problem)
            else:  # it crosses ours, which alone will be answered
                self._correlator.end(problem, but_last=True)
        else:
            if isinstance(method, m.ChannelCloseOk):  # at RabbitMQ it overtakes what answers a cancel
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
            if self._problem is None or consumer.no_ack:  # else it crosses our close, by which it goes back
                consumer.take(delivery)
        elif not self.is_closed:  # it was cancelled in the meantime
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
