"""Messages between the broker and the application's word on them.

A session holds all that its channel was given in one line, in the order of arrival (``Outstanding``). Where those that
are done stand at the front of it, one ack with ``multiple`` stands for all of them; one that is done out of turn is
acked alone. Those that are done behind one that is not are taken out when they are the most of the line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from leveret.client.jms.clock import Clock
from leveret.client.messages import Delivery

if TYPE_CHECKING:
    from leveret.client.jms.consumer import MessageConsumer


MOST_DONE = 100  # that stay in a line, whatever its length


class Outcome(Enum):
    ACK = "done with"
    REJECT = "given up: to the dead letters, if the broker has some for its queue"
    GIVE_BACK = "requeue"


class Window:
    """The prefetch of one AMQP consumer, of which so many messages are ``held``: not settled."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = 0


class Dispatched:
    """A message on its way to a consumer, or with the application. ``window`` is the one that it uses up, if any."""

    __slots__ = ("arrived", "consumer", "delivery", "is_consumed", "is_settled", "life", "redeliveries", "window")

    def __init__(self, consumer: MessageConsumer, delivery: Delivery, arrived: float, window: Window | None) -> None:
        self.consumer = consumer
        self.delivery = delivery
        self.arrived = arrived
        self.window = window
        self.life = 0  # of the connection that brought it
        self.redeliveries = 0  # as this client counts
        self.is_consumed = False  # the application is done with it
        self.is_settled = False  # the broker was told

    def is_expired(self, clock: Clock) -> bool:
        """For sure. The broker gave it out alive, so it cannot have had more time left than its whole life; clocks of
        other machines are not asked."""
        life = self.delivery.properties.expiration
        return life is not None and life.isdecimal() and clock.now() - self.arrived > int(life) / 1000


class Outstanding:
    """What a channel was given and has not settled."""

    __slots__ = ("_done", "_line")

    def __init__(self) -> None:
        self._line: deque[Dispatched] = deque()
        self._done = 0  # of those in the line

    def __len__(self) -> int:
        return sum(not entry.is_settled for entry in self._line)

    def add(self, entry: Dispatched) -> None:
        self._line.append(entry)

    def of(self, consumer: MessageConsumer) -> list[Dispatched]:
        """What it has, in the order of arrival."""
        return [entry for entry in self._line if entry.consumer is consumer and not entry.is_settled]

    def take_back(self, entries: Iterable[Dispatched]) -> list[Dispatched]:
        """It was not to be: they are as open as before. Those that were settled."""
        reopened = [entry for entry in entries if entry.is_settled]
        for entry in reopened:
            entry.is_settled = False
        self._line = deque(sorted({*self._line, *reopened}, key=lambda entry: entry.delivery.delivery_tag))
        self._done = sum(entry.is_settled for entry in self._line)
        return reopened

    def forget(self, entries: list[Dispatched]) -> None:
        """The connection is gone: the broker cannot be told."""
        self._mark(entries)
        self._forget_settled()

    def settle(self, entries: Iterable[Dispatched], outcome: Outcome) -> None:
        """Says so to the broker. Each is settled once, however often it is asked for."""
        fresh = [entry for entry in entries if not entry.is_settled]
        self._mark(fresh)
        if outcome is Outcome.ACK and fresh:
            self._ack(fresh)
        else:
            for entry in fresh:
                entry.delivery.reject(requeue=outcome is Outcome.GIVE_BACK)
            self._forget_settled()

    def _mark(self, fresh: list[Dispatched]) -> None:
        for entry in fresh:
            entry.is_settled = True
        self._done += len(fresh)

    def _ack(self, fresh: list[Dispatched]) -> None:
        if len(fresh) == 1:
            fresh[0].delivery.ack()
            self._forget_settled()
            return
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
        self._done -= len(gone)
        if self._done > MOST_DONE and self._done * 2 > len(line):
            self._line = deque(entry for entry in line if not entry.is_settled)
            self._done = 0
        return gone
