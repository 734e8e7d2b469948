"""Messages that were delivered and are not settled.

A session keeps the deliveries of its channel in the order of arrival. If the first ones are settled, one ack with
``multiple`` covers all of them; a message that is settled out of order is acked alone. Settled messages behind an
unsettled one are removed when they are the majority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from leveret.client.jms.clock import Clock
from leveret.client.messages import Delivery

if TYPE_CHECKING:
    from leveret.client.jms.consumer import MessageConsumer


MOST_DONE = 100  # settled messages that may always be kept


class Outcome(Enum):
    ACK = "processed"
    REJECT = "dead-letter, or drop if the queue has no dead-letter exchange"
    GIVE_BACK = "requeue"


@dataclass(slots=True, eq=False)
class Window:
    """The prefetch window of one AMQP consumer. ``held``: number of its unsettled messages."""

    held: int = 0


@dataclass(slots=True, eq=False)
class Dispatch:
    """A message for a consumer, or held by the application. ``window``: the prefetch window that it counts towards."""

    consumer: MessageConsumer
    delivery: Delivery
    arrived: float
    window: Window | None
    generation: int = 0  # of the connection that delivered it
    redeliveries: int = 0  # counted by this client
    is_consumed: bool = False  # the application has processed it
    is_settled: bool = False  # the broker has been sent its outcome

    def is_expired(self, clock: Clock) -> bool:
        """Whether it has certainly expired. When it was delivered, it had at most its whole time to live left; clocks
        of other machines are not compared."""
        time_to_live = self.delivery.properties.expiration
        if time_to_live is None or not time_to_live.isdecimal():
            return False
        return clock.now() - self.arrived > int(time_to_live) / 1000


class UnsettledMessages:
    """Unsettled deliveries of a channel."""

    def __init__(self) -> None:
        self._line: deque[Dispatch] = deque()
        self._done = 0  # settled ones in _line

    def __len__(self) -> int:
        return sum(not entry.is_settled for entry in self._line)

    def add(self, entry: Dispatch) -> None:
        self._line.append(entry)

    def of(self, consumer: MessageConsumer) -> list[Dispatch]:
        """Those of a consumer, in the order of arrival."""
        return [entry for entry in self._line if entry.consumer is consumer and not entry.is_settled]

    def take_back(self, entries: Iterable[Dispatch]) -> list[Dispatch]:
        """The settlement was rolled back. Returns those that are unsettled again."""
        reopened = [entry for entry in entries if entry.is_settled]
        for entry in reopened:
            entry.is_settled = False
        self._line = deque(sorted({*self._line, *reopened}, key=lambda entry: entry.delivery.delivery_tag))
        self._done = sum(entry.is_settled for entry in self._line)
        return reopened

    def forget(self, entries: list[Dispatch]) -> None:
        """The connection is lost: they cannot be settled."""
        self._mark(entries)
        self._forget_settled()

    def settle(self, entries: Iterable[Dispatch], outcome: Outcome) -> None:
        """Each message is settled once, however often this is called."""
        fresh = [entry for entry in entries if not entry.is_settled]
        self._mark(fresh)
        if outcome is Outcome.ACK and fresh:
            self._ack(fresh)
        else:
            for entry in fresh:
                entry.delivery.reject(requeue=outcome is Outcome.GIVE_BACK)
            self._forget_settled()

    def _mark(self, fresh: list[Dispatch]) -> None:
        for entry in fresh:
            entry.is_settled = True
        self._done += len(fresh)

    def _ack(self, fresh: list[Dispatch]) -> None:
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

    def _forget_settled(self) -> list[Dispatch]:
        """Removes and returns the settled ones at the front."""
        line, gone = self._line, []
        while line and line[0].is_settled:
            gone.append(line.popleft())
        self._done -= len(gone)
        if self._done > MOST_DONE and self._done * 2 > len(line):
            self._line = deque(entry for entry in line if not entry.is_settled)
            self._done = 0
        return gone
