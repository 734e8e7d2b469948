"""Messages between the broker and the application's word on them.

A session holds all that its channel was given in one line, in the order of arrival (``Outstanding``). Where those that
are done stand at the front of it, one ack with ``multiple`` stands for all of them; one that is done out of turn is
acked alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from leveret.client.arrivals import Delivery

if TYPE_CHECKING:
    from leveret.client.jms.consumer import MessageConsumer


class Verdict(Enum):
    ACK = "done with"
    REJECT = "given up: to the dead letters, if the broker has some for its queue"
    GIVE_BACK = "for somebody else"


class Dispatched:
    """A message on its way to a consumer, or with the application. ``window`` is the subscription that brought it."""

    __slots__ = ("arrived", "consumer", "delivery", "is_consumed", "is_settled", "life", "redeliveries", "window")

    def __init__(self, consumer: MessageConsumer, delivery: Delivery, arrived: float, window: int) -> None:
        self.consumer = consumer
        self.delivery = delivery
        self.arrived = arrived
        self.window = window
        self.life = 0  # of the connection that brought it
        self.redeliveries = 0  # as this client counts
        self.is_consumed = False  # the application is done with it
        self.is_settled = False  # the broker was told

    def is_expired(self, now: float) -> bool:
        """For sure. The broker gave it out alive, so it cannot have had more time left than its whole life; clocks of
        other machines are not asked."""
        life = self.delivery.properties.expiration
        return life is not None and life.isdecimal() and now - self.arrived > int(life) / 1000


class Outstanding:
    """What a channel was given and has not settled."""

    __slots__ = ("_line",)

    def __init__(self) -> None:
        self._line: deque[Dispatched] = deque()

    def __len__(self) -> int:
        return sum(not entry.is_settled for entry in self._line)

    def add(self, entry: Dispatched) -> None:
        self._line.append(entry)

    def take_back(self, entries: Iterable[Dispatched]) -> None:
        """It was not to be: they are as open as before."""
        for entry in entries:
            entry.is_settled = False
        self._line = deque(sorted({*self._line, *entries}, key=lambda entry: entry.delivery.delivery_tag))

    def settle(self, entries: Iterable[Dispatched], verdict: Verdict) -> None:
        """Says so to the broker. Each is settled once, however often it is asked for."""
        fresh = [entry for entry in entries if not entry.is_settled]
        for entry in fresh:
            entry.is_settled = True
        if verdict is Verdict.ACK and fresh:
            self._ack(fresh)
        else:
            for entry in fresh:
                entry.delivery.reject(requeue=verdict is Verdict.GIVE_BACK)
            self._forget_settled()

    def _ack(self, fresh: list[Dispatched]) -> None:
        asked = set(fresh)
        front = [entry for entry in self._forget_settled() if entry in asked]
        if front:
            front[-1].delivery.ack(multiple=len(front) > 1)
        for entry in asked.difference(front):
            entry.delivery.ack()

    def _forget_settled(self) -> list[Dispatched]:
        """Those at the front of the line, which it gives up."""
        line, gone = self._line, []
        while line and line[0].is_settled:
            gone.append(line.popleft())
        return gone
