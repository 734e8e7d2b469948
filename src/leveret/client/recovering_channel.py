"""A channel that outlives its connection.

Theory of operation. The object stays, with its number, its consumers and what is unconfirmed; only the connection below
it is made anew. Three things make that invisible:

- A question that was under way when the connection was lost is asked again on the next one (``_ask``). What was asked
  and answered is recorded, and done again before anybody else is let in (``revive``).
- Every publish carries a message id and is kept until the broker has confirmed it, whether or not the application asked
  for confirms. ``go_live`` sends what is left again, in order; queues that know the id drop it.
- Delivery tags go on growing: what the broker calls 1 on a new connection is ``_base`` + 1 here. A tag up to ``_base``
  is of an earlier life and means nothing to the broker; the audit knows what stands for it now.

A transaction does not survive. What was done in it is dropped, and its commit raises.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from leveret.client.arrivals import Delivery, Fetched
from leveret.client.channel import NO_PROPERTIES, Channel, Then
from leveret.client.confirms import Confirms, Likeness, Settled
from leveret.client.consumer_journal import ConsumerJournal
from leveret.client.errors import Closed, ConnectionLost, Interrupted, TransactionRolledBack
from leveret.client.gate import Gate
from leveret.client.message_ids import MessageIds
from leveret.client.publish_frames import refitted
from leveret.client.question import Question
from leveret.client.settling import Settling
from leveret.client.unconfirmed import Publication, Unconfirmed
from leveret.errors import PreconditionFailed
from leveret.wire import methods as m
from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.client.recovering_connection import RecoveringConnection

TAKES_EACH_ONCE: Table = {"x-message-deduplication": True, "x-deduplication-header": "message-id"}


class RecoveringChannel(Channel):
    connection: RecoveringConnection

    def __init__(self, connection: RecoveringConnection, number: int) -> None:
        super().__init__(connection, number)
        loop = asyncio.get_running_loop()
        self._owner = connection
        self._gate = Gate()  # open while the channel can be used
        self._is_there = False  # at the broker, in this life
        self._unconfirmed = Unconfirmed(loop)
        self._is_confirming = False  # the broker, in this life
        self._is_transacted = False
        self._is_dirty = False  # something was done in the open transaction
        self._rolled_back: Exception | None = None  # why the open transaction is void
        self._journal = ConsumerJournal()
        self._questions: list[Question] = []  # that wait for a connection
        self._stamps = count()  # of questions and publishes, in their order
        self._ids = MessageIds()
        self._settling = Settling(self, connection.audit)

    # ---- lives

    async def open(self) -> None:
        """Whoever brings the connection up opens its channels; one that is up has to be asked."""
        with suppress(Interrupted):
            if self._owner.is_up:
                await self._open_there()
                self.go_live()
        await self.until_live()

    def _open_there(self) -> asyncio.Future[Any]:
        opened = self._ask_now(m.ChannelOpen(), m.ChannelOpenOk)
        self._is_there = True
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
        if self._is_dirty:
            self._rolled_back, self._is_dirty = problem, False
        self._is_confirming = False
        self._settling.begin_life()
        for consumer in self.consumers.values():
            self._settling.let_go(consumer.waiting)
            consumer.waiting.clear()  # the broker delivers them again, to whomever
        self._correlator.end(Interrupted(str(problem)))

    async def revive(self) -> None:
        """Everything as it was, on the connection that is there now."""
        await self._open_there()
        if self._is_transacted:
            await self._ask_now(m.TxSelect(), m.TxSelectOk)
        for method in self._journal.entries():
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
        left: list[Publication | Question] = [*publications, *self._questions]
        self._questions = []
        for item in sorted(left, key=attrgetter("stamp")):
            if isinstance(item, Question):
                self._put(item)
            else:
                item.frames = refitted(item.frames, self.connection.frame_max)
                self._write(item.frames)
        self._gate.open()

    def give_up_waiting(self, problem: Exception) -> None:
        """There has been no connection for too long: whoever waits is told so."""
        self._unconfirmed.end(problem)
        self._drop_questions(problem)
        self._gate.turn_away(problem)

    def _drop_questions(self, problem: Exception) -> None:
        questions, self._questions = self._questions, []
        for question in questions:
            question.fail(problem)

    def end(self, problem: Exception) -> None:
        self._settling.end()
        self._unconfirmed.end(problem)
        super().end(problem)
        self._drop_questions(problem)
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

        def noted(answer: Any) -> Any:
            result = answer if then is None else then(answer)
            self._note(method, answer)
            return result

        def once() -> asyncio.Future[Any]:
            return self._ask_now(self._owner.record.translated(method), *answers, then=noted)

        question = Question(next(self._stamps), once)
        if self.is_live:
            self._put(question)
        else:
            self._owner.refuse_hopeless()
            self._questions.append(question)
        return question.result

    def _put(self, question: Question) -> None:
        question.once().add_done_callback(lambda answer: self._answered(question, answer))

    def _answered(self, question: Question, answer: asyncio.Future[Any]) -> None:
        problem = answer.exception()
        if not isinstance(problem, Interrupted) or self.is_closed:
            question.settle(answer)
        elif self.is_live:
            self._put(question)
        else:
            self._questions.append(question)

    def ask(self, method: m.Method, *answers: type[m.Method]) -> asyncio.Future[Any]:
        """As all calls do: on this connection, or on the next."""
        if isinstance(method, m.ConfirmSelect):
            self.confirms = self._unconfirmed
        return self._ask(method, *answers)

    def _note(self, method: m.Method, answer: Any) -> None:
        match method:
            case m.BasicQos():
                self._journal.note_qos(method)
            case m.BasicConsume():
                self._journal.note_consumer(method, answer.consumer_tag)
            case m.BasicCancel():
                self._journal.forget_consumer(method.consumer_tag)
            case m.TxSelect():
                self._is_transacted = True
            case m.ConfirmSelect():
                self._is_confirming = True
            case _:
                self._owner.record.note(method, answer)

    def _cancelled(self, method: m.BasicCancel) -> None:
        self._journal.forget_consumer(method.consumer_tag)
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
        bits = (passive, durable, exclusive, auto_delete, False)
        if not passive and not exclusive and self._owner.can_deduplicate and _is_plain(arguments or {}):
            method = m.QueueDeclare(name, *bits, (arguments or {}) | TAKES_EACH_ONCE)
            try:
                answer: m.QueueDeclareOk = await self._owner.ask_aside(method, m.QueueDeclareOk)
            except PreconditionFailed as problem:
                if "x-message-deduplication" not in problem.text:
                    raise
            else:
                self._owner.record.note(method, answer)
                return answer
        return await super().declare_queue(
            name, passive=passive, durable=durable, exclusive=exclusive, auto_delete=auto_delete, arguments=arguments
        )

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
        self.send_encoded(frames, confirm, (exchange, routing_key, body) if mandatory else None)
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
            if self.is_live and self._rolled_back is None:
                self._is_dirty = True
                self._write(frames)
            else:
                self._rolled_back = self._rolled_back or ConnectionLost("there was none as it published")
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

    async def commit(self) -> None:
        if not self._is_dirty and self._rolled_back is None:
            await super().commit()  # of nothing: it may as well be asked twice
            return
        if self._rolled_back is None:
            with suppress(Interrupted):
                await self._ask_now(m.TxCommit(), m.TxCommitOk)
                self._is_dirty = False
                return
        problem = self._rolled_back
        await self.rollback()  # also of what was done since the connection is back
        raise TransactionRolledBack(
            f"the connection was lost before the broker answered the commit ({problem}): the transaction counts as "
            "rolled back; do its work again"
        )

    async def rollback(self) -> None:
        self._is_dirty, self._rolled_back = False, None
        await super().rollback()

    # ---- consuming

    def deliver(self, delivery: Delivery) -> None:
        consumer = self.consumers.get(delivery.consumer_tag)
        queue = "" if consumer is None or consumer.no_ack else consumer.queue
        if self._settling.is_new(delivery, queue, is_audited=not self._is_transacted):
            super().deliver(delivery)

    async def get(self, queue: str, *, no_ack: bool = False) -> Fetched | None:
        def renumbered(answer: Any) -> Any:
            if isinstance(answer, Fetched):
                name = "" if no_ack else self._owner.record.current(queue)
                if not self._settling.is_new(answer, name, is_audited=not self._is_transacted):
                    return m.BasicGet()  # the application has it already: the next one
            return answer

        while True:
            answer = await self._fetch(queue, no_ack=no_ack, then=renumbered)
            if not isinstance(answer, m.BasicGet):
                return answer if isinstance(answer, Fetched) else None

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self._refuse_closed()
        if self._may_settle(delivery_tag):
            self._settling.ack(delivery_tag, multiple=multiple)

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._refuse_closed()
        if self._may_settle(delivery_tag):
            self._settling.refuse(delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        self.nack(delivery_tag, requeue=requeue)

    def _may_settle(self, tag: int) -> bool:
        """A transaction that settles what another connection was given cannot be committed as a whole."""
        if not self._is_transacted:
            return True
        if self._rolled_back is None and not self._settling.knows(tag):
            self._rolled_back = ConnectionLost("it settles what was delivered before")
        self._is_dirty = self._rolled_back is None
        return self._is_dirty

    async def recover(self, *, requeue: bool = True) -> None:
        self._settling.end()  # the application wants to see them again
        await super().recover(requeue=requeue)

    def write(self, method: m.Method) -> None:
        self._write(method_frame(self.number, method))


def _is_plain(arguments: Table) -> bool:
    """A classic queue about whose duplicates nothing was said."""
    return arguments.get("x-queue-type", "classic") == "classic" and "x-message-deduplication" not in arguments
