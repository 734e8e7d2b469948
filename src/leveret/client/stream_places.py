"""Where the consumers of streams stand, so that they go on there on another connection.

A stream keeps no place for a reader without a name (``x-stream-consumer``). Asked again as it was asked at first, it
would skip what was published meanwhile (``next``), or give everything once more (``first``).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from leveret.client.messages import Delivery
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.broker_mark import BrokerMark

OFFSET = "x-stream-offset"


class Place:
    __slots__ = ("begins", "mark", "next")

    def __init__(self, mark: BrokerMark) -> None:
        self.mark = mark  # whose offsets they are
        self.begins = 0  # the offset that was asked for last
        self.next = 0


class StreamPlaces:
    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}  # by the tag of the consumer

    def is_read(self, delivery: Delivery, offset: int, mark: BrokerMark) -> bool:
        """Whether the application had it before. One that it gave back comes marked, and is for it."""
        place = self._places.get(delivery.consumer_tag)
        if place is None:
            place = self._places[delivery.consumer_tag] = Place(mark)
        if offset < place.begins and not delivery.redelivered:
            return True
        place.next = max(place.next, offset + 1)
        return False

    def step_back(self, tag: str, delivery: Delivery) -> None:
        """To the first one that the application has not taken."""
        place, offset = self._places.get(tag), delivery.stream_offset
        if place is not None and offset is not None:
            place.next = offset

    def forget(self, tag: str) -> None:
        self._places.pop(tag, None)

    def gone_on(self, method: m.BasicConsume, mark: BrokerMark) -> m.BasicConsume:
        """The same consume, from the next message on. Another broker has other offsets: there it begins anew."""
        place = self._places.get(method.consumer_tag)
        if place is None or "x-stream-consumer" in method.arguments:  # of such a one the broker keeps the place
            return method
        if not place.mark.is_surely(mark):
            self.forget(method.consumer_tag)
            return method
        place.begins = place.next
        again = copy(method)
        again.arguments = {**method.arguments, OFFSET: place.next}
        return again
