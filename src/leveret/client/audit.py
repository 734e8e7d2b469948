"""So that the application sees each message once, though the broker delivers some of them again.

Theory of operation. A message with an id is first *held*: the application has it and has not settled it. When the
connection is lost, the broker delivers the message again, under another tag. That one is kept back, and the holding
learns the new tag: when the application settles what it has, the new delivery is settled. If the application was
quicker, its outcome is remembered and the second delivery gets it as it comes. The same is done with a message that the
broker took back because the application is slow: it comes marked redelivered, though the first tag is of this life.

A settled message may come again too: the ack was lost with the connection, or the publisher sent it twice. So ids that
were settled are remembered, the last ones of each queue. A outcome to reject is meant for a delivery that was marked
redelivered: an unmarked one with the id may be a dead letter on its way round.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from leveret.client.settlement import Settlement

Outcome = Literal["ack", "reject"]
MOST_QUEUES = 1_000  # of which ids are remembered: temporary ones come and go


class Holding:
    """A message in the hands of the application, and where the broker believes it to be: ``tag`` at ``place``."""

    __slots__ = ("message_id", "place", "queue", "tag")

    def __init__(self, place: Settlement, tag: int, queue: str, message_id: str) -> None:
        self.place = place
        self.tag = tag
        self.queue = queue
        self.message_id = message_id


class Audit:
    """Of one recovering connection; all of its channels share it."""

    __slots__ = ("_depth", "_held", "_settled")

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._held: dict[tuple[str, str], Holding] = {}
        # By queue and id, the oldest first. From the front of a plain dict one would walk over all that has gone.
        self._settled: dict[str, OrderedDict[str, Outcome]] = {}

    def outcome(self, queue: str, message_id: str, *, redelivered: bool) -> Outcome | None:
        """What the application said of the message before."""
        settled = self._settled.get(queue)
        said = None if settled is None else settled.get(message_id)
        return said if redelivered or said == "ack" else None

    def held(self, queue: str, message_id: str) -> Holding | None:
        return self._held.get((queue, message_id))

    def hold(self, holding: Holding) -> None:
        self._held[holding.queue, holding.message_id] = holding

    def settle(self, holding: Holding, outcome: Outcome) -> None:
        self.release(holding)
        settled = self._settled.get(holding.queue)
        if settled is None:
            settled = self._settled[holding.queue] = OrderedDict()
            if len(self._settled) > MOST_QUEUES:
                del self._settled[next(iter(self._settled))]
        settled.pop(holding.message_id, None)
        settled[holding.message_id] = outcome
        if len(settled) > self._depth:
            settled.popitem(last=False)

    def release(self, holding: Holding) -> None:
        """As if it had never been there: the next delivery is for the application."""
        self._held.pop((holding.queue, holding.message_id), None)
