"""The consumers of a recovering channel: how they were started, and how far they are, for the next connection.

They are kept as the methods that started them, in order: a basic.qos applies to the consumers after it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leveret.client.consumers import Consumer
from leveret.client.messages import Delivery
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.recovering_connection import BrokerIdentity
    from leveret.client.topology_record import TopologyRecord

Entry = m.BasicQos | m.BasicConsume
OFFSET = "x-stream-offset"


class Subscriptions:
    def __init__(self, record: TopologyRecord) -> None:
        self._record = record
        self._entries: list[Entry] = []
        self._offsets = StreamOffsets()

    def note_qos(self, qos: m.BasicQos) -> None:
        """An earlier entry has no effect if no consumer was started between the two."""
        begun = max((at for at, each in enumerate(self._entries, 1) if isinstance(each, m.BasicConsume)), default=0)
        others = [
            each for each in self._entries[begun:] if isinstance(each, m.BasicQos) and each.global_ != qos.global_
        ]
        self._entries = [*self._entries[:begun], *others, qos]

    def began(self, consume: m.BasicConsume, tag: str) -> None:
        known = copy(consume)
        known.consumer_tag = tag  # the broker may have generated it
        self._entries.append(known)
        self._record.consumer_began(consume.queue)

    def ended(self, tag: str) -> None:
        consume = self._forget(tag)
        if consume is not None:
            self._record.consumer_ended(consume.queue)

    def ended_by_broker(self, tag: str) -> None:
        """Because the queue was deleted, or with ``x-pull-one`` after one message."""
        consume = self._forget(tag)
        if consume is not None and "x-pull-one" in consume.arguments:
            self._record.consumer_ended(consume.queue)
        elif consume is not None:
            self._record.queue_gone(consume.queue)

    def end(self) -> None:
        for consume in [each for each in self._entries if isinstance(each, m.BasicConsume)]:
            self.ended(consume.consumer_tag)

    def _forget(self, tag: str) -> m.BasicConsume | None:
        """A basic.qos for this consumer alone is dropped by the next ``note_qos``."""
        self._offsets.forget(tag)
        for at, each in enumerate(self._entries):
            if isinstance(each, m.BasicConsume) and each.consumer_tag == tag:
                del self._entries[at]
                return each
        return None

    def is_read(self, consumer: Consumer, delivery: Delivery, broker: BrokerIdentity) -> bool:
        """Whether the consumer of a stream received it on an earlier connection."""
        offset = delivery.stream_offset
        if offset is None or self._record.kind_of(consumer.queue) not in (None, "stream"):
            return False  # messages moved from a stream to a queue have the header too
        return self._offsets.is_read(delivery, offset, broker)

    def take_back(self, consumer: Consumer) -> list[Delivery]:
        """Removes and returns the messages that the application has not taken: the broker delivers them again. Without
        acks it does not, and they stay."""
        if consumer.no_ack or not consumer.waiting:
            return []
        deliveries = list(consumer.waiting)
        self._offsets.step_back(consumer.tag, deliveries[0])
        consumer.waiting.clear()
        return deliveries

    def again(self, broker: BrokerIdentity) -> list[Entry]:
        """The methods that restore all of it at this broker."""
        return [
            self._offsets.continued(each, broker) if isinstance(each, m.BasicConsume) else each
            for each in self._entries
        ]


@dataclass(slots=True)
class StreamOffset:
    broker: BrokerIdentity  # to which the offsets belong
    begins: int = 0  # the offset of the last basic.consume
    next: int = 0


class StreamOffsets:
    """The next offset of each consumer of a stream. The broker stores one for named consumers (``x-stream-consumer``)
    only. Repeating the first basic.consume of an unnamed one would skip messages that were published meanwhile
    (``next``), or deliver all of them again (``first``)."""

    def __init__(self) -> None:
        self._by_tag: dict[str, StreamOffset] = {}

    def is_read(self, delivery: Delivery, offset: int, broker: BrokerIdentity) -> bool:
        """Whether the application received it before. A message that it requeued comes back as redelivered."""
        place = self._by_tag.get(delivery.consumer_tag)
        if place is None:
            place = self._by_tag[delivery.consumer_tag] = StreamOffset(broker)
        if offset < place.begins and not delivery.redelivered:
            return True
        place.next = max(place.next, offset + 1)
        return False

    def step_back(self, tag: str, delivery: Delivery) -> None:
        """To the first message that the application has not taken."""
        place, offset = self._by_tag.get(tag), delivery.stream_offset
        if place is not None and offset is not None:
            place.next = offset

    def forget(self, tag: str) -> None:
        self._by_tag.pop(tag, None)

    def continued(self, method: m.BasicConsume, broker: BrokerIdentity) -> m.BasicConsume:
        """The same consumer from the next message on. Another broker has other offsets: there it starts again."""
        place = self._by_tag.get(method.consumer_tag)
        if place is None or "x-stream-consumer" in method.arguments:
            return method
        if not place.broker.is_surely(broker):
            self.forget(method.consumer_tag)
            return method
        place.begins = place.next
        again = copy(method)
        again.arguments = {**method.arguments, OFFSET: place.next}
        return again
