"""What a recovering channel was given and how it is settled, over several connections.

Tags grow over all lives of the channel; the broker's are those above ``_base``, from 1. See audit.py for what becomes
of a message that is delivered twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

from leveret.client.audit import Audit, Holding, Outcome
from leveret.client.messages import Delivery
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.recovering_channel import RecoveringChannel


class Settlement:
    __slots__ = ("_audit", "_base", "_channel", "_held", "_newest", "_open", "_stand_ins")

    def __init__(self, channel: RecoveringChannel, audit: Audit | None) -> None:
        self._channel = channel
        self._audit = audit
        self._base = 0
        self._newest = 0
        self._held: dict[int, Holding] = {}  # by the tag that the application knows, in order
        self._stand_ins: dict[int, Holding] = {}  # by the tag of a second delivery, which only the broker knows
        self._open: dict[int, None] = {}  # tags of this life that the broker waits for, in order; only for an audit

    def begin_life(self) -> None:
        """From now on the broker counts from 1 again, and has forgotten what it delivered."""
        self._base = self._newest
        self._stand_ins.clear()
        self._open.clear()

    def let_go(self, deliveries: Iterable[Delivery]) -> None:
        """The application has not seen them."""
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

    # ---- what comes

    def is_new(self, delivery: Delivery, queue: str, *, is_audited: bool) -> bool:
        """Whether it is for the application. Its tag becomes ours. ``queue`` is empty if the delivery needs no ack."""
        self._newest = tag = delivery.delivery_tag = delivery.delivery_tag + self._base
        audit = self._audit
        if audit is None or not queue:
            return True
        self._open[tag] = None
        message_id = delivery.properties.message_id if is_audited else None
        if message_id is None or delivery.stream_offset is not None:
            return True  # a stream delivers each message to every consumer, and again to one that goes back
        outcome = audit.outcome(queue, message_id, redelivered=delivery.redelivered)
        if outcome is not None:
            self._say(tag, outcome)
            return False
        holding = audit.held(queue, message_id)
        if holding is None:
            holding = self._held[tag] = Holding(self, tag, queue, message_id)
            audit.hold(holding)
            return True
        if holding.place.knows(holding.tag) and not delivery.redelivered:
            self._say(tag, "ack")  # sent twice, and the first is in hand
        else:
            self._stand_in(tag, holding)
        return False

    def _stand_in(self, tag: int, holding: Holding) -> None:
        """It is the message that the application has, which the broker lost with the connection, or took back since
        the application is slow (x-consumer-timeout). What the application says of the first delivery counts for it."""
        holding.place.replace_stand_in(holding)
        holding.place, holding.tag = self, tag
        self._stand_ins[tag] = holding

    def replace_stand_in(self, holding: Holding) -> None:
        """By one that was delivered later. The broker took it back, and does not mind; or it is one of several that
        are alike, and one is enough."""
        if self._stand_ins.get(holding.tag) is holding:
            self.settle_stand_in(holding.tag, "ack")

    # ---- what the application says

    def ack(self, tag: int, *, multiple: bool) -> None:
        self._settle(tag, multiple, "ack", m.BasicAck(self._numbered(tag), multiple))

    def refuse(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        method = m.BasicNack(self._numbered(tag), multiple, requeue)
        self._settle(tag, multiple, None if requeue else "reject", method)

    def _settle(self, tag: int, multiple: bool, outcome: Outcome | None, method: m.Method) -> None:
        last = self._newest if multiple and tag == 0 else tag
        is_said = self.knows(last)
        taken = self._taken(last, multiple=multiple)
        if is_said:
            self._tell(last, multiple, outcome, method, self._of_others(taken, last))
        for holding in taken:
            is_covered = (
                is_said and holding.place is self and (holding.tag == last or (multiple and holding.tag <= last))
            )
            if not is_covered and holding.place.knows(holding.tag):
                holding.place.settle_stand_in(holding.tag, outcome)
            self._remember(holding, outcome)

    def _tell(self, last: int, multiple: bool, outcome: Outcome | None, method: m.Method, others: set[int]) -> None:
        """The broker. ``others`` are not to be settled, though all up to a tag are: then each of these by itself."""
        if not multiple:
            self._open.pop(last, None)
            self._channel.write(method)
            return
        meant = [tag for tag in takewhile(last.__ge__, self._open) if tag not in others]
        if others:
            for tag in meant:
                self._say(tag, outcome)
        else:
            self._channel.write(method)
            for tag in meant:
                del self._open[tag]
        self._lose_stand_ins({tag for tag in self._stand_ins if tag <= last} - others)

    def _of_others(self, taken: list[Holding], last: int) -> set[int]:
        """Second deliveries up to this tag of what the application still has in its hands, from another channel."""
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
        self._say(tag, outcome)

    def _lose_stand_ins(self, tags: set[int]) -> None:
        """They were settled together with others, or are no more: for their holders there is nothing left to say."""
        for tag in tags:
            self._stand_ins.pop(tag).tag = 0

    def knows(self, tag: int) -> bool:
        """Whether the broker has the tag open, as far as we know."""
        return tag > self._base

    def _numbered(self, tag: int) -> int:
        return max(tag - self._base, 0)

    def _say(self, tag: int, outcome: Outcome | None) -> None:
        self._open.pop(tag, None)
        number = self._numbered(tag)
        self._channel.write(
            m.BasicAck(number, False) if outcome == "ack" else m.BasicNack(number, False, outcome is None)
        )
