"""How a session settles messages: at once, or in a transaction.

In a transacted session, the broker applies sends and acks at ``commit`` (AMQP's tx methods), and acks are sent only
then. Other messages to be settled, such as poison or expired ones, wait *aside*: they are settled with the next commit,
or in a transaction of their own after a rollback.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from leveret.client.channel import Channel
from leveret.client.closable import Closable
from leveret.client.errors import TransactionRolledBack
from leveret.client.jms.ack_modes import AckEvent, AckListener, AckMode, AckType
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.messages import Message
from leveret.client.jms.producer import Outgoing
from leveret.client.jms.unsettled import Dispatch, Outcome, UnsettledMessages

if TYPE_CHECKING:
    from leveret.client.jms.connection import Connection
    from leveret.client.jms.consumer import MessageConsumer

log = logging.getLogger("leveret.client.jms")
Aside = list[tuple[list[Dispatch], Outcome]]


class SessionAcks(Closable):
    def __init__(self, connection: Connection, channel: Channel, ack_mode: AckMode) -> None:
        self.connection = connection
        self.channel = channel
        self.ack_mode = ack_mode
        self.ack_listeners: list[AckListener] = []
        self._consumers: list[MessageConsumer] = []
        self._outstanding = UnsettledMessages()
        self._aside: Aside = []  # to be settled when the transaction ends
        self._seen_generation = 0  # the last one whose loss was handled
        self.outgoing = Outgoing(connection, channel if self.is_transacted else None)

    @property
    def is_transacted(self) -> bool:
        return self.ack_mode is AckMode.SESSION_TRANSACTED

    def refuse_closed(self) -> None:
        raise NotImplementedError

    @property
    def generation(self) -> int:
        """How often the connection below was lost."""
        return self.channel.generation

    @property
    def holds(self) -> bool:
        """Whether messages stay unacknowledged after the application received them."""
        return self.ack_mode not in (AckMode.AUTO, AckMode.DUPS_OK)

    # ---- acknowledging

    def acknowledge(self, message: Message | None = None) -> None:
        """CLIENT: all messages delivered so far. INDIVIDUAL: this one. Other modes acknowledge automatically."""
        self.refuse_closed()
        if self.ack_mode is AckMode.CLIENT:
            for consumer in list(self._consumers):
                consumer.acknowledge(list(consumer.delivered.values()), AckType.STANDARD)
        elif self.ack_mode is AckMode.INDIVIDUAL and message is not None and message.delivery is not None:
            for consumer in list(self._consumers):
                entry = consumer.delivered.get(message.delivery)
                if entry is not None:
                    consumer.acknowledge([entry], AckType.INDIVIDUAL)
        self._drop_closed()

    def acknowledge_lazy(self, consumer: MessageConsumer) -> None:
        """Send the acks that a DUPS_OK session has not sent yet."""
        if self.ack_mode is AckMode.DUPS_OK and not self.channel.is_closed:
            consumer.acknowledge([each for each in consumer.delivered.values() if each.is_consumed], AckType.STANDARD)

    def settle(self, entries: list[Dispatch], outcome: Outcome) -> None:
        """In a transaction, when that ends. Until then the messages count towards their prefetch."""
        if not entries or self.channel.is_closed:
            return
        if self.is_transacted:
            self._aside.append((entries, outcome))
        else:
            self._send(entries, outcome)

    def _send(self, entries: list[Dispatch], outcome: Outcome) -> None:
        for entry in entries:
            if not entry.is_settled:
                entry.consumer.subscription.settled(entry)
        self._outstanding.settle(entries, outcome)

    def held_by(self, consumer: MessageConsumer) -> list[Dispatch]:
        """Unsettled messages of a consumer, in the order of arrival."""
        return self._outstanding.of(consumer)

    def is_void(self, entry: Dispatch) -> bool:
        """Whether a lost connection delivered it, so that the broker will redeliver it. A message that the audit of the
        client knows by its ID is not passed on again: an ack for it is still valid."""
        if entry.generation == self.generation:
            return False
        is_known = self.connection.is_audited and entry.delivery.properties.message_id is not None
        return self.is_transacted or not is_known

    def forget_void(self, entries: Iterable[Dispatch]) -> None:
        """The broker redelivers them: these deliveries cannot be settled any more."""
        void = [entry for entry in entries if not entry.is_settled and self.is_void(entry)]
        for entry in void:
            entry.consumer.subscription.settled(entry)
        self._outstanding.forget(void)

    def notify_ack(self, kind: AckType, consumer: MessageConsumer, entries: Iterable[Dispatch]) -> None:
        if self.ack_listeners:
            event = AckEvent(kind, consumer, tuple(entry.delivery for entry in entries))
            for listener in list(self.ack_listeners):
                try:
                    listener(event)
                except Exception:
                    log.exception("acknowledgement listener of a session failed")

    # ---- transactions and redelivery

    async def commit(self) -> None:
        """Sent messages are published and received ones are acknowledged: both, or neither."""
        self._refuse_without_transactions()
        done = [(consumer, list(consumer.delivered.values())) for consumer in self._consumers]
        if any(self.is_void(entry) for _, entries in done for entry in entries):
            await self._undo(done, [])
            raise TransactionRolledBack(
                "the connection was lost after messages of the transaction had been received: it is rolled back, and "
                "they will be redelivered; repeat it"
            )
        aside, self._aside = self._aside, []
        self._send_aside(aside)
        for consumer, entries in done:
            self._send(entries, Outcome.ACK)
            consumer.forget(entries)
        try:
            await self.channel.commit()
        except TransactionRolledBack:
            await self._undo(done, aside)
            raise
        for consumer, entries in done:
            if entries:
                self.notify_ack(AckType.STANDARD, consumer, entries)
        self._drop_closed()
        await self.outgoing.send_returned_again()

    async def _undo(self, done: list[tuple[MessageConsumer, list[Dispatch]]], sent: Aside) -> None:
        """The connection was lost before the commit, and is restored. The broker redelivers messages of the lost one.
        Later ones are still held here; their acks in ``sent`` were rolled back with the transaction."""
        await self.channel.rollback()
        self.outgoing.rolled_back()
        for consumer, entries in done:
            self._reopen(entries)
            consumer.roll_back(entries)
        self._aside = [*((self._reopen(entries), outcome) for entries, outcome in sent), *self._aside]
        await self._settle_aside()

    def _reopen(self, entries: list[Dispatch]) -> list[Dispatch]:
        """Those that the broker still counts as delivered to this session."""
        alive = [entry for entry in entries if not self.is_void(entry)]
        for entry in self._outstanding.take_back(alive):
            entry.consumer.subscription.taken_back(entry)
        return alive

    async def rollback(self) -> None:
        """Sent messages are discarded, received ones are redelivered in their order."""
        self._refuse_without_transactions()
        await self.channel.rollback()
        self.outgoing.rolled_back()
        self._deliver_again()
        await self._settle_aside()

    async def recover(self) -> None:
        """Unacknowledged messages are redelivered in their order."""
        self.refuse_closed()
        if self.is_transacted:
            raise IllegalState("recover() is for sessions without transactions: use rollback()")
        self._deliver_again()

    def _deliver_again(self) -> None:
        for consumer in list(self._consumers):
            self.acknowledge_lazy(consumer)
            consumer.roll_back(list(consumer.delivered.values()))
        self._drop_closed()

    async def _settle_aside(self) -> None:
        """In a transaction of its own."""
        aside, self._aside = self._aside, []
        if any(entries for entries, _ in aside):
            self._send_aside(aside)
            with suppress(TransactionRolledBack):  # lost with its connection: the broker redelivers them
                await self.channel.commit()

    def _send_aside(self, aside: Aside) -> None:
        for entries, outcome in aside:
            self._send(entries, outcome)

    def _forget_void_aside(self) -> None:
        """The connection is lost: its deliveries cannot be settled on a later one."""
        for entries, _ in self._aside:
            self.forget_void(entries)
        left = [([each for each in entries if not each.is_settled], outcome) for entries, outcome in self._aside]
        self._aside = [(entries, outcome) for entries, outcome in left if entries]

    def _drop_closed(self) -> None:
        self._consumers = [each for each in self._consumers if not each.is_closed or each.delivered]

    def _refuse_without_transactions(self) -> None:
        self.refuse_closed()
        if not self.is_transacted:
            raise IllegalState("the session has no transactions: create it with AckMode.SESSION_TRANSACTED")
