"""What a channel consumes: how it began, and where it stands, so that another connection can go on there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.client.consumer_journal import ConsumerJournal, Entry
from leveret.client.consumers import Consumer
from leveret.client.messages import Delivery
from leveret.client.stream_places import StreamPlaces
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.broker_mark import BrokerMark
    from leveret.client.topology_record import TopologyRecord


class Subscriptions:
    __slots__ = ("_journal", "_places", "_record")

    def __init__(self, record: TopologyRecord) -> None:
        self._record = record
        self._journal = ConsumerJournal()
        self._places = StreamPlaces()

    def note_qos(self, qos: m.BasicQos) -> None:
        self._journal.note_qos(qos)

    def began(self, consume: m.BasicConsume, tag: str) -> None:
        self._journal.note_consumer(consume, tag)
        self._record.consumer_began(consume.queue)

    def ended(self, tag: str) -> None:
        consume = self._forget(tag)
        if consume is not None:
            self._record.consumer_ended(consume.queue)

    def ended_by_broker(self, tag: str) -> None:
        """Since the queue is gone, or, if that was the wish, after one message."""
        consume = self._forget(tag)
        if consume is not None and "x-pull-one" in consume.arguments:
            self._record.consumer_ended(consume.queue)
        elif consume is not None:
            self._record.queue_gone(consume.queue)

    def end(self) -> None:
        for consume in self._journal.consumers():
            self.ended(consume.consumer_tag)

    def _forget(self, tag: str) -> m.BasicConsume | None:
        self._places.forget(tag)
        return self._journal.forget_consumer(tag)

    def is_read(self, consumer: Consumer, delivery: Delivery, mark: BrokerMark) -> bool:
        """Whether it is of a stream, and the consumer had it on an earlier connection."""
        offset = delivery.stream_offset
        if offset is None or self._record.kind_of(consumer.queue) not in (None, "stream"):
            return False  # what was read from a stream and put into a queue has the header, too
        return self._places.is_read(delivery, offset, mark)

    def take_back(self, consumer: Consumer) -> list[Delivery]:
        """What came and was not taken: the broker delivers it again, to whomever. Without acks it has forgotten it."""
        if consumer.no_ack or not consumer.waiting:
            return []
        deliveries = list(consumer.waiting)
        self._places.step_back(consumer.tag, deliveries[0])
        consumer.waiting.clear()
        return deliveries

    def again(self, mark: BrokerMark) -> list[Entry]:
        """What is to be asked of the broker that was reached now."""
        return [
            self._places.gone_on(each, mark) if isinstance(each, m.BasicConsume) else each
            for each in self._journal.entries()
        ]
