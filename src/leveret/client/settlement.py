"""How a recovering channel settles messages, over several connections, and how the application sees each of them once.

Delivery tags grow over all connections of the channel; the broker's are those above ``_base``, from 1.

Theory of operation of the audit. A message with an ID is first *held*: the application has it and has not settled it.
After a loss of the connection, the broker delivers the message again, with another tag. This delivery is not passed on,
and the holding gets the new tag: when the application settles the message, the new delivery is settled. If the
application was faster, its outcome is remembered and applied to the second delivery when it arrives. The same is done
with a message that the broker requeued because the application is slow: it is marked redelivered, although its first
tag belongs to this connection.

A settled message may arrive again too: the ack was lost with the connection, or the publisher sent it twice. So IDs of
settled messages are remembered, the last ones of each queue. The outcome "reject" is applied only to a delivery that is
marked redelivered: an unmarked one with this ID may be a dead letter that returns to its queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from leveret.client.messages import Delivery
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.recovering_channel import RecoveringChannel

Outcome = Literal["ack", "reject"]
MOST_QUEUES = 1_000  # whose IDs are remembered: an application may use many temporary ones


@dataclass(slots=True, eq=False)
class Holding:
    """A message that the application holds, and its delivery at the broker: ``tag`` of ``place``."""

    place: Settlement
    tag: int
    queue: str
    message_id: str


class Audit:
    """Shared by all channels of a recovering connection."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._held: dict[tuple[str, str], Holding] = {}
        # By queue and ID, the oldest first. Deleting from the front of a plain dict walks over all deleted entries.
        self._settled: dict[str, OrderedDict[str, Outcome]] = {}

    def outcome(self, queue: str, message_id: str, *, redelivered: bool) -> Outcome | None:
        """How the application settled the message before."""
        settled = self._settled.get(queue)
        outcome = None if settled is None else settled.get(message_id)
        return outcome if redelivered or outcome == "ack" else None

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
        """Forget the message: its next delivery is passed to the application."""
        self._held.pop((holding.queue, holding.message_id), None)


class Settlement:
    def __init__(self, channel: RecoveringChannel, audit: Audit | None) -> None:
        self._channel = channel
        self._audit = audit
        self._base = 0
        self._newest = 0
        self._held: dict[int, Holding] = {}  # by the tag of the application, in order
        self._stand_ins: dict[int, Holding] = {}  # by the tag of a second delivery, unknown to the application
        self._open: dict[int, None] = {}  # unsettled tags of this connection, in order; only with an audit

    def next_connection(self) -> None:
        """The broker starts from tag 1 again, and requeues what it delivered before."""
        self._base = self._newest
        self._stand_ins.clear()
        self._open.clear()

    def let_go(self, deliveries: Iterable[Delivery]) -> None:
        """The application has not received them."""
        for delivery in deliveries:
            holding = self._held.pop(delivery.delivery_tag, None)
            if holding is not None and self._audit is not None:
                self._audit.release(holding)

    def end(self) -> None:
        """Forget all of them: the broker redelivers them under other tags."""
        for holding in self._held.values():
            if self._audit is not None:
                self._audit.release(holding)
        self._held.clear()
        self._lose_stand_ins(set(self._stand_ins))
        self._open.clear()

    # ---- deliveries

    def is_new(self, delivery: Delivery, queue: str, *, is_audited: bool) -> bool:
        """Whether to pass it to the application. Translates its tag. ``queue`` is empty for deliveries without acks."""
        self._newest = tag = delivery.delivery_tag = delivery.delivery_tag + self._base
        audit = self._audit
        if audit is None or not queue:
            return True
        self._open[tag] = None
        message_id = delivery.properties.message_id if is_audited else None
        if message_id is None or delivery.stream_offset is not None:
            return True  # streams deliver a message to each consumer, and again to one that steps back
        outcome = audit.outcome(queue, message_id, redelivered=delivery.redelivered)
        if outcome is not None:
            self._send(tag, outcome)
            return False
        holding = audit.held(queue, message_id)
        if holding is None:
            holding = self._held[tag] = Holding(self, tag, queue, message_id)
            audit.hold(holding)
            return True
        if holding.place.is_current(holding.tag) and not delivery.redelivered:
            self._send(tag, "ack")  # published twice; the application holds the first
        else:
            self._stand_in(tag, holding)
        return False

    def _stand_in(self, tag: int, holding: Holding) -> None:
        """It is the message that the application holds. The connection was lost, or the broker requeued the message
        because the application is slow (x-consumer-timeout). The outcome of the first delivery is applied to it."""
        holding.place.replace_stand_in(holding)
        holding.place, holding.tag = self, tag
        self._stand_ins[tag] = holding

    def replace_stand_in(self, holding: Holding) -> None:
        """By a later delivery. The broker requeued this one and ignores the ack, or it is one of several copies."""
        if self._stand_ins.get(holding.tag) is holding:
            self.settle_stand_in(holding.tag, "ack")

    # ---- outcomes

    def ack(self, tag: int, *, multiple: bool) -> None:
        self._settle(tag, multiple, "ack", m.BasicAck(self._numbered(tag), multiple))

    def refuse(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        method = m.BasicNack(self._numbered(tag), multiple, requeue)
        self._settle(tag, multiple, None if requeue else "reject", method)

    def _settle(self, tag: int, multiple: bool, outcome: Outcome | None, method: m.Method) -> None:
        last = self._newest if multiple and tag == 0 else tag
        is_known = self.is_current(last)
        taken = self._taken(last, multiple=multiple)
        if is_known:
            self._send_all(last, multiple, outcome, method, self._of_others(taken, last))
        for holding in taken:
            is_covered = (
                is_known and holding.place is self and (holding.tag == last or (multiple and holding.tag <= last))
            )
            if not is_covered and holding.place.is_current(holding.tag):
                holding.place.settle_stand_in(holding.tag, outcome)
            self._remember(holding, outcome)

    def _send_all(self, last: int, multiple: bool, outcome: Outcome | None, method: m.Method, others: set[int]) -> None:
        """``others`` must stay unsettled, although all up to ``last`` are settled: then each is settled by itself."""
        if not multiple:
            self._open.pop(last, None)
            self._channel.write(method)
            return
        meant = [tag for tag in takewhile(last.__ge__, self._open) if tag not in others]
        if others:
            for tag in meant:
                self._send(tag, outcome)
        else:
            self._channel.write(method)
            for tag in meant:
                del self._open[tag]
        self._lose_stand_ins({tag for tag in self._stand_ins if tag <= last} - others)

    def _of_others(self, taken: list[Holding], last: int) -> set[int]:
        """Second deliveries up to this tag, of messages that the application still holds from another channel."""
        return {tag for tag, holding in self._stand_ins.items() if tag <= last and holding not in taken}

    def _taken(self, last: int, *, multiple: bool) -> list[Holding]:
        if not multiple:
            holding = self._held.pop(last, None)
            return [] if holding is None else [holding]
        return [self._held.pop(tag) for tag in list(takewhile(last.__ge__, self._held))]

    def _remember(self, holding: Holding, outcome: Outcome | None) -> None:
        if self._audit is None:
            return
        if outcome is None:
            self._audit.release(holding)
        else:
            self._audit.settle(holding, outcome)

    def settle_stand_in(self, tag: int, outcome: Outcome | None) -> None:
        self._stand_ins.pop(tag, None)
        self._send(tag, outcome)

    def _lose_stand_ins(self, tags: set[int]) -> None:
        """They were settled with others, or requeued: nothing is left to be sent for them."""
        for tag in tags:
            self._stand_ins.pop(tag).tag = 0

    def is_current(self, tag: int) -> bool:
        """Whether the tag belongs to this connection."""
        return tag > self._base

    def _numbered(self, tag: int) -> int:
        return max(tag - self._base, 0)

    def _send(self, tag: int, outcome: Outcome | None) -> None:
        self._open.pop(tag, None)
        number = self._numbered(tag)
        self._channel.write(
            m.BasicAck(number, False) if outcome == "ack" else m.BasicNack(number, False, outcome is None)
        )
