"""A channel that outlives its connection.

Theory of operation. The object stays, with its number, its consumers and its unconfirmed messages; only the connection
below it is replaced. Three things hide that from the application:

- A call that was pending when the connection was lost is repeated on the next one (``_call``). Calls with a lasting
  effect are recorded, and repeated before the application can use the next connection (``restore``).
- Every publish carries a message ID and is kept until the broker has confirmed it, with or without confirms of the
  application. ``go_live`` sends the rest again, in order; queues that know the ID drop duplicates.
- Delivery tags keep growing: tag 1 of a new connection becomes ``_base`` + 1 here. A tag up to ``_base`` belongs to an
  earlier connection and is unknown to the broker; the audit has the tag that replaces it.

A transaction does not survive: it is rolled back, and its commit raises.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from leveret.client.channel import Channel
from leveret.client.confirms import Confirms, Likeness, Settled
from leveret.client.correlator import Then
from leveret.client.errors import Closed, Interrupted, error_of_close
from leveret.client.messages import Delivery, Fetched
from leveret.client.pending_calls import Gate, PendingCall, PendingCalls
from leveret.client.publish_frames import MessageIds, refitted
from leveret.client.settlement import Settlement
from leveret.client.subscriptions import Subscriptions
from leveret.client.topology_record import LastQueue, exists_without_deduplication, with_deduplication
from leveret.client.transaction import OpenTransaction, rolled_back, too_late
from leveret.client.unconfirmed import Publication, Unconfirmed
from leveret.errors import PreconditionFailed
from leveret.wire import methods as m
from leveret.wire.frames import method_frame
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.client.recovering_connection import RecoveringConnection
    from leveret.client.topology_recovery import GracePeriod


class RecoveringChannel(Channel):
    connection: RecoveringConnection

    def __init__(self, connection: RecoveringConnection, number: int) -> None:
        super().__init__(connection, number)
        loop = asyncio.get_running_loop()
        self._owner = connection
        self._gate = Gate()  # open while the channel can be used
        self.generation = 0  # how many connections below it are gone
        self._is_there = False  # open at the broker, on this connection
        self._unconfirmed = Unconfirmed(loop)
        self._is_confirming = False  # the broker, on this connection
        self._is_transacted = False
        self._transaction = OpenTransaction()
        self._subscriptions = Subscriptions(connection.record)
        self._last_queue = LastQueue()
        self._grace: GracePeriod | None = None  # while the channel is restored
        self._calls = PendingCalls(self)
        self._stamps = count()  # of calls and publishes, in their order
        self._ids = MessageIds()
        self._settlement = Settlement(self, connection.audit)

    # ---- connections

    async def open(self) -> None:
        """Reconnecting opens the channels; on an open connection the channel is opened here."""
        with suppress(Interrupted):
            if self._owner.is_up:
                await self._open_there()
                if self._is_there:  # otherwise the connection was lost right after the reply
                    self.go_live()
        await self.until_live()

    def _open_there(self) -> asyncio.Future[Any]:
        opened = self._call_now(m.ChannelOpen())
        self._is_there, self._is_confirming = True, False
        return opened

    @property
    def is_live(self) -> bool:
        return self._gate.is_open

    async def until_live(self) -> None:
        self._refuse_closed()
        self._owner.refuse_in_outage()
        await self._gate.wait()

    def suspend(self, problem: Exception) -> None:
        """The connection is lost; another one will follow."""
        self._is_there = False
        if self._problem is not None:  # it was being closed
            self.end(self._problem)
            return
        self._gate.shut()
        self.generation += 1
        self._transaction.lose(problem)
        self._is_confirming = False
        self._settlement.next_connection()
        for consumer in self.consumers.values():
            self._settlement.let_go(self._subscriptions.take_back(consumer))
        self._correlator.end(Interrupted(str(problem)))

    async def restore(self, grace: GracePeriod) -> None:
        """Restore the state of the channel on the current connection."""
        self._grace = grace
        try:
            while True:
                try:
                    await self._do_again()
                    return
                except Interrupted:
                    self._owner.refuse_lost()
                    await grace.pause()
        finally:
            self._grace = None

    def heard(self, method: m.Method) -> None:
        if self._grace is not None and isinstance(method, m.ChannelClose) and not self.is_closed:
            problem = error_of_close(method.reply_code, method.reply_text, "channel")
            if self._grace.covers(problem):  # the channel is opened again
                self._write(method_frame(self.number, m.ChannelCloseOk()))
                self.suspend(problem)
                return
        super().heard(method)

    async def _do_again(self) -> None:
        await self._open_there()
        if self._is_transacted:
            await self._call_now(m.TxSelect())
        for method in self._subscriptions.again(self._owner.broker):
            if isinstance(method, m.BasicQos):
                await self._call_now(method)
            elif method.consumer_tag in self.consumers:
                name = self._owner.record.current(method.queue)
                self.consumers[method.consumer_tag].queue = name
                await self._call_now(self._owner.record.translated(method))

    def go_live(self) -> None:
        """Unconfirmed messages and pending calls are sent again, in their order, before anything new."""
        if self.is_closed:  # meanwhile
            return
        publications = self._unconfirmed.unsettled()
        if publications:
            self._confirm_on_the_wire()
        left: list[Publication | PendingCall] = [*publications, *self._calls.taken()]
        for item in sorted(left, key=attrgetter("stamp")):
            if isinstance(item, PendingCall):
                self._calls.put_now(item)
            else:
                item.frames = refitted(item.frames, self.connection.frame_max)
                self._write(item.frames)
        self._gate.open()

    def give_up_waiting(self, problem: Exception) -> None:
        """The outage lasted too long: fail the waiting calls."""
        self._unconfirmed.end(problem)
        self._calls.drop(problem)
        self._gate.turn_away(problem)

    def end(self, problem: Exception) -> None:
        self._settlement.end()
        self._unconfirmed.end(problem)
        super().end(problem)
        self._subscriptions.end()
        self._calls.drop(problem)
        self._gate.turn_away(problem)

    async def close(self) -> None:
        if self.is_closed:
            return
        problem = Closed(f"channel {self.number} is closed")
        if not self._is_there:
            self.end(problem)
            return
        with suppress(Interrupted, Closed):  # the connection is lost: that closes the channel too
            await self._send_close(problem)

    # ---- calls

    def _call_now(self, method: m.Method, then: Then = None) -> asyncio.Future[Any]:
        self._owner.refuse_lost()
        return super()._call_now(method, then)

    def _call(self, method: m.Method, then: Then = None) -> asyncio.Future[Any]:
        self._refuse_closed()
        method = self._last_queue.spelled_out(method)

        def noted(reply: Any) -> Any:
            result = reply if then is None else then(reply)
            self._note(method, reply)
            return result

        call = PendingCall(next(self._stamps), lambda: self._call_now(self._owner.record.translated(method), noted))
        if not self.is_live:
            self._owner.refuse_in_outage()
        self._calls.put(call)
        return call.result

    def repeat_until_answered(self, method: m.Method) -> asyncio.Future[Any]:
        """For a connection to several brokers: calls the method on this connection or the next one."""
        if isinstance(method, m.ConfirmSelect):
            self.confirms = self._unconfirmed
        return self._call(method)

    def _note(self, method: m.Method, reply: Any) -> None:
        match method:
            case m.BasicQos():
                self._subscriptions.note_qos(method)
            case m.BasicConsume():
                self._subscriptions.began(method, reply.consumer_tag)
                self.consumers[reply.consumer_tag].queue = method.queue
            case m.BasicCancel():
                self._subscriptions.ended(method.consumer_tag)
            case m.TxSelect():
                self._is_transacted = True
            case m.ConfirmSelect():
                self._is_confirming = True
            case _:
                self._last_queue.note(reply)
                self._owner.record.note(method, reply)

    def _cancelled(self, method: m.BasicCancel) -> None:
        self._subscriptions.ended_by_broker(method.consumer_tag)
        super()._cancelled(method)

    async def _declare_queue(self, method: m.QueueDeclare) -> m.QueueDeclareOk:
        """Queues of Leveret are declared with deduplication, unless they exist without it."""
        self._refuse_closed()
        deduplicating = with_deduplication(method) if self._owner.can_deduplicate else None
        if deduplicating is not None:
            try:
                reply: m.QueueDeclareOk = await self._owner.call_aside(deduplicating)
            except PreconditionFailed as problem:
                if not exists_without_deduplication(problem):
                    raise
            else:
                self._note(deduplicating, reply)
                return reply
        return await super()._declare_queue(method)

    # ---- publishing

    def _new_confirms(self) -> Confirms:
        return self._unconfirmed

    def _confirm_on_the_wire(self) -> None:
        if not self._is_confirming:
            self._write(method_frame(self.number, m.ConfirmSelect(nowait=True)))
            self._is_confirming = True

    def encoded(self, body: bytes, exchange: str, routing_key: str, properties: Properties, mandatory: bool) -> bytes:
        self._owner.refuse_in_outage()
        properties = self._ids.stamped(properties)
        if not exchange and self._owner.record.has_roles:
            routing_key = self._owner.record.current(routing_key)
        return super().encoded(body, exchange, routing_key, properties, mandatory)

    def send_encoded(self, frames: bytes, confirm: Settled | None, mandatory: Likeness | None) -> None:
        problem = self._problem or self._owner.outage_error
        if problem is not None:
            if confirm is not None and not confirm.done():
                confirm.set_exception(problem)
        elif self._is_transacted:
            if self._transaction.may_publish(is_live=self.is_live):
                self._write(frames)
        else:
            if self.is_live:
                self._confirm_on_the_wire()
                self._write(frames)
            self._unconfirmed.keep(next(self._stamps), frames, confirm, mandatory)

    def _settle(self, tag: int, *, multiple: bool, is_taken: bool) -> None:
        self._unconfirmed.settle(tag, multiple=multiple, is_taken=is_taken)

    # ---- transactions

    async def select_transactions(self) -> None:
        if self.confirms is None and (self._is_confirming or self._unconfirmed.open):
            raise too_late()
        await super().select_transactions()

    async def commit(self) -> None:
        transaction = self._transaction
        if not transaction.is_dirty and transaction.void is None:
            await super().commit()  # it is empty, so it may be repeated
            return
        if transaction.void is None:
            with suppress(Interrupted):
                await self._call_now(m.TxCommit())
                transaction.is_dirty = False
                return
        problem = transaction.void
        await self.rollback()  # also of what was done since the reconnect
        raise rolled_back(problem)

    async def rollback(self) -> None:
        self._transaction.begin()
        await super().rollback()

    # ---- consuming

    def deliver(self, delivery: Delivery) -> None:
        consumer = self.consumers.get(delivery.consumer_tag)
        queue = "" if consumer is None or consumer.no_ack else consumer.queue
        if self._settlement.is_new(delivery, queue, is_audited=not self._is_transacted):
            if consumer is not None and self._subscriptions.is_read(consumer, delivery, self._owner.broker):
                self._settlement.ack(delivery.delivery_tag, multiple=False)
            else:
                super().deliver(delivery)

    async def get(self, queue: str, *, no_ack: bool = False) -> Fetched | None:
        queue = queue or self._last_queue.name

        def renumbered(reply: Any) -> Any:
            if isinstance(reply, Fetched):
                name = "" if no_ack else self._owner.record.current(queue)
                if not self._settlement.is_new(reply, name, is_audited=not self._is_transacted):
                    return m.BasicGet()  # the application has it already: fetch the next one
            return reply

        while True:
            reply = await self._fetch(queue, no_ack=no_ack, then=renumbered)
            if not isinstance(reply, m.BasicGet):
                return reply if isinstance(reply, Fetched) else None

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self._refuse_closed()
        if self._may_settle(delivery_tag):
            self._settlement.ack(delivery_tag, multiple=multiple)

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._refuse_closed()
        if self._may_settle(delivery_tag):
            self._settlement.refuse(delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        self.nack(delivery_tag, requeue=requeue)

    def _may_settle(self, tag: int) -> bool:
        return not self._is_transacted or self._transaction.may_settle(is_known=self._settlement.is_current(tag))

    async def recover(self, *, requeue: bool = True) -> None:
        self._settlement.end()  # the application receives them again
        await super().recover(requeue=requeue)

    def write(self, method: m.Method) -> None:
        if self._problem is None:  # the broker ignores everything after our close
            self._write(method_frame(self.number, method))
