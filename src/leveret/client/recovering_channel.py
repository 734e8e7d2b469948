"""A channel that outlives its connection.

Theory of operation. The object stays, with its number, its consumers and what is unconfirmed; only the connection below
it is made anew. Three things make that invisible:

- A question that was under way when the connection was lost is asked again on the next one (``_ask``). What was asked
  and answered is recorded, and done again before anybody else is let in (``revive``).
- Every publish carries a message id and is kept until the broker has confirmed it, whether or not the application asked
  for confirms. ``go_live`` sends what is left again, in order; queues that know the id drop it.
- Delivery tags go on growing: what the broker calls 1 on a new connection is ``_base`` + 1 here. A tag up to ``_base``
  is of an earlier connection and unknown to the broker; the audit has the tag that replaces it.

A transaction does not survive. What was done in it is dropped, and its commit raises.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from leveret.client.channel import NO_PROPERTIES, Channel, Then
from leveret.client.confirms import Confirms, Settled
from leveret.client.deduplication import exists_without_it, with_deduplication
from leveret.client.errors import Closed, Interrupted, told_by_peer
from leveret.client.gate import Gate
from leveret.client.mandatory import Likeness, likeness_of
from leveret.client.message_ids import MessageIds
from leveret.client.messages import Delivery, Fetched
from leveret.client.publish_frames import refitted
from leveret.client.question import Question, Questions
from leveret.client.queue_shorthand import LastQueue
from leveret.client.settlement import Settlement
from leveret.client.subscriptions import Subscriptions
from leveret.client.transaction import OpenTransaction, rolled_back, too_late
from leveret.client.unconfirmed import Publication, Unconfirmed
from leveret.errors import PreconditionFailed
from leveret.wire import methods as m
from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.client.grace import Grace
    from leveret.client.recovering_connection import RecoveringConnection


class RecoveringChannel(Channel):
    connection: RecoveringConnection

    def __init__(self, connection: RecoveringConnection, number: int) -> None:
        super().__init__(connection, number)
        loop = asyncio.get_running_loop()
        self._owner = connection
        self._gate = Gate()  # open while the channel can be used
        self.life = 0  # how many connections below it are gone
        self._is_there = False  # at the broker, in this life
        self._unconfirmed = Unconfirmed(loop)
        self._is_confirming = False  # the broker, in this life
        self._is_transacted = False
        self._transaction = OpenTransaction()
        self._subscriptions = Subscriptions(connection.record)
        self._last_queue = LastQueue()
        self._grace: Grace | None = None  # while it is being revived
        self._questions = Questions(self)
        self._stamps = count()  # of questions and publishes, in their order
        self._ids = MessageIds()
        self._settlement = Settlement(self, connection.audit)

    # ---- lives

    async def open(self) -> None:
        """Reconnecting opens the channels; on an open connection the channel is opened here."""
        with suppress(Interrupted):
            if self._owner.is_up:
                await self._open_there()
                if self._is_there:  # else the connection was lost between the answer and this moment
                    self.go_live()
        await self.until_live()

    def _open_there(self) -> asyncio.Future[Any]:
        opened = self._ask_now(m.ChannelOpen(), m.ChannelOpenOk)
        self._is_there, self._is_confirming = True, False
        return opened

    @property
    def is_live(self) -> bool:
        return self._gate.is_open

    async def until_live(self) -> None:
        self._refuse_closed()
        self._owner.refuse_hopeless()
        await self._gate.wait()

    def suspend(self, problem: Exception) -> None:
        """The connection is gone; another one will come."""
        self._is_there = False
        if self._problem is not None:  # and it was about to be closed
            self.end(self._problem)
            return
        self._gate.shut()
        self.life += 1
        self._transaction.lose(problem)
        self._is_confirming = False
        self._settlement.begin_life()
        for consumer in self.consumers.values():
            self._settlement.let_go(self._subscriptions.take_back(consumer))
        self._correlator.end(Interrupted(str(problem)))

    async def revive(self, grace: Grace) -> None:
        """Everything as it was, on the connection that is there now."""
        self._grace = grace
        try:
            while True:
                try:
                    await self._do_again()
                    return
                except Interrupted:
                    self._owner.refuse_fallen()
                    await grace.pause()
        finally:
            self._grace = None

    def heard(self, method: m.Method) -> None:
        if self._grace is not None and isinstance(method, m.ChannelClose) and not self.is_closed:
            problem = told_by_peer(method.reply_code, method.reply_text, "channel")
            if self._grace.covers(problem):  # what the broker ended is opened once more
                self._write(method_frame(self.number, m.ChannelCloseOk()))
                self.suspend(problem)
                return
        super().heard(method)

    async def _do_again(self) -> None:
        await self._open_there()
        if self._is_transacted:
            await self._ask_now(m.TxSelect(), m.TxSelectOk)
        for method in self._subscriptions.again(self._owner.mark):
            if isinstance(method, m.BasicQos):
                await self._ask_now(method, m.BasicQosOk)
            elif method.consumer_tag in self.consumers:
                name = self._owner.record.current(method.queue)
                self.consumers[method.consumer_tag].queue = name
                await self._ask_now(self._owner.record.translated(method), m.BasicConsumeOk)

    def go_live(self) -> None:
        """What was not confirmed and not answered goes out again, in its order, before anything new does."""
        if self.is_closed:  # while it was opened again
            return
        publications = self._unconfirmed.unsettled()
        if publications:
            self._confirm_on_the_wire()
        left: list[Publication | Question] = [*publications, *self._questions.taken()]
        for item in sorted(left, key=attrgetter("stamp")):
            if isinstance(item, Question):
                self._questions.put_now(item)
            else:
                item.frames = refitted(item.frames, self.connection.frame_max)
                self._write(item.frames)
        self._gate.open()

    def give_up_waiting(self, problem: Exception) -> None:
        """The outage lasted too long: fail the waiting calls."""
        self._unconfirmed.end(problem)
        self._questions.drop(problem)
        self._gate.turn_away(problem)

    def end(self, problem: Exception) -> None:
        self._settlement.end()
        self._unconfirmed.end(problem)
        super().end(problem)
        self._subscriptions.end()
        self._questions.drop(problem)
        self._gate.turn_away(problem)

    async def close(self) -> None:
        if self.is_closed:
            return
        problem = Closed(f"channel {self.number} is closed")
        if not self._is_there:
            self.end(problem)
            return
        with suppress(Interrupted, Closed):  # the connection is lost: then it is closed, too
            await self._say_goodbye(problem)

    # ---- questions

    def _ask_now(self, method: m.Method, *answers: type[m.Method], then: Then = None) -> asyncio.Future[Any]:
        self._owner.refuse_fallen()
        return super()._ask_now(method, *answers, then=then)

    def _ask(self, method: m.Method, *answers: type[m.Method], then: Then = None) -> asyncio.Future[Any]:
        self._refuse_closed()
        method = self._last_queue.spelled_out(method)

        def noted(answer: Any) -> Any:
            result = answer if then is None else then(answer)
            self._note(method, answer)
            return result

        def once() -> asyncio.Future[Any]:
            return self._ask_now(self._owner.record.translated(method), *answers, then=noted)

        question = Question(next(self._stamps), once)
        if not self.is_live:
            self._owner.refuse_hopeless()
        self._questions.put(question)
        return question.result

    def ask(self, method: m.Method, *answers: type[m.Method]) -> asyncio.Future[Any]:
        """As all calls do: on this connection, or on the next."""
        if isinstance(method, m.ConfirmSelect):
            self.confirms = self._unconfirmed
        return self._ask(method, *answers)

    def _note(self, method: m.Method, answer: Any) -> None:
        match method:
            case m.BasicQos():
                self._subscriptions.note_qos(method)
            case m.BasicConsume():
                self._subscriptions.began(method, answer.consumer_tag)
                self.consumers[answer.consumer_tag].queue = method.queue  # spelled out
            case m.BasicCancel():
                self._subscriptions.ended(method.consumer_tag)
            case m.TxSelect():
                self._is_transacted = True
            case m.ConfirmSelect():
                self._is_confirming = True
            case _:
                self._last_queue.note(answer)
                self._owner.record.note(method, answer)

    def _cancelled(self, method: m.BasicCancel) -> None:
        self._subscriptions.ended_by_broker(method.consumer_tag)
        super()._cancelled(method)

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
        """A queue of this broker is declared to take each message id once, unless it is there without that."""
        self._refuse_closed()
        asked = m.QueueDeclare(name, passive, durable, exclusive, auto_delete, False, arguments or {})
        method = with_deduplication(asked) if self._owner.can_deduplicate else None
        if method is not None:
            try:
                answer: m.QueueDeclareOk = await self._owner.ask_aside(method, m.QueueDeclareOk)
            except PreconditionFailed as problem:
                if not exists_without_it(problem):
                    raise
            else:
                self._note(method, answer)
                return answer
        answer = await self._ask(asked, m.QueueDeclareOk)
        return answer

    # ---- publishing

    def _new_confirms(self) -> Confirms:
        return self._unconfirmed

    def _confirm_on_the_wire(self) -> None:
        if not self._is_confirming:
            self._write(method_frame(self.number, m.ConfirmSelect(nowait=True)))
            self._is_confirming = True

    def send(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> asyncio.Future[None] | None:
        confirm = None if self.confirms is None else asyncio.get_running_loop().create_future()
        self._refuse_closed()
        self._owner.refuse_hopeless()
        frames = self.encoded(body, exchange, routing_key, properties, mandatory)
        self.send_encoded(frames, confirm, likeness_of(frames, body) if mandatory else None)
        return confirm

    def encoded(self, body: bytes, exchange: str, routing_key: str, properties: Properties, mandatory: bool) -> bytes:
        properties = self._ids.stamped(properties)
        if not exchange and self._owner.record.has_roles:
            routing_key = self._owner.record.current(routing_key)
        return super().encoded(body, exchange, routing_key, properties, mandatory)

    def send_encoded(self, frames: bytes, confirm: Settled | None, mandatory: Likeness | None) -> None:
        problem = self._problem or self._owner.hopeless
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

    async def publish(
        self,
        body: bytes,
        exchange: str = "",
        routing_key: str = "",
        properties: Properties = NO_PROPERTIES,
        *,
        mandatory: bool = False,
    ) -> None:
        if not self.is_live and self.confirms is None:
            await self.until_live()
        await super().publish(body, exchange, routing_key, properties, mandatory=mandatory)

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
            await super().commit()  # of nothing: it may as well be asked twice
            return
        if transaction.void is None:
            with suppress(Interrupted):
                await self._ask_now(m.TxCommit(), m.TxCommitOk)
                transaction.is_dirty = False
                return
        problem = transaction.void
        await self.rollback()  # also of what was done since the connection is back
        raise rolled_back(problem)

    async def rollback(self) -> None:
        self._transaction.begin()
        await super().rollback()

    # ---- consuming

    def deliver(self, delivery: Delivery) -> None:
        consumer = self.consumers.get(delivery.consumer_tag)
        queue = "" if consumer is None or consumer.no_ack else consumer.queue
        if self._settlement.is_new(delivery, queue, is_audited=not self._is_transacted):
            if consumer is not None and self._subscriptions.is_read(consumer, delivery, self._owner.mark):
                self._settlement.ack(delivery.delivery_tag, multiple=False)
            else:
                super().deliver(delivery)

    async def get(self, queue: str, *, no_ack: bool = False) -> Fetched | None:
        queue = queue or self._last_queue.name

        def renumbered(answer: Any) -> Any:
            if isinstance(answer, Fetched):
                name = "" if no_ack else self._owner.record.current(queue)
                if not self._settlement.is_new(answer, name, is_audited=not self._is_transacted):
                    return m.BasicGet()  # the application has it already: the next one
            return answer

        while True:
            answer = await self._fetch(queue, no_ack=no_ack, then=renumbered)
            if not isinstance(answer, m.BasicGet):
                return answer if isinstance(answer, Fetched) else None

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
        return not self._is_transacted or self._transaction.may_settle(is_known=self._settlement.knows(tag))

    async def recover(self, *, requeue: bool = True) -> None:
        self._settlement.end()  # the application wants to see them again
        await super().recover(requeue=requeue)

    def write(self, method: m.Method) -> None:
        if self._problem is None:  # else the broker hears nothing behind our close
            self._write(method_frame(self.number, method))
