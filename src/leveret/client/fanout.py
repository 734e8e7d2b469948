"""A connection to several brokers at once: each publish goes to all of them.

Each broker has a recovering connection of its own. ``minAckCount`` of them must be connected for any call, and that
many must have confirmed a message before the publish is confirmed. A disconnected broker misses what is published
meanwhile, unless too few others are connected: then the message waits for it.

Consuming is not supported: the copies of a message on independent brokers cannot be recognised. To consume, connect to
one broker or use ``failover:``. Transactions are not supported either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NoReturn, Self

from leveret.client.callbacks import call_back
from leveret.client.channel import Channel
from leveret.client.confirms import Confirms, Likeness, Settled
from leveret.client.connection import Connection, Happening, Listener
from leveret.client.correlator import Then
from leveret.client.errors import ClientError, Closed, ConnectionLost
from leveret.client.failover_uri import Plan
from leveret.client.publish_frames import MessageIds
from leveret.client.recovering_channel import RecoveringChannel
from leveret.client.recovering_connection import RecoveringConnection
from leveret.errors import AmqpError, LeveretError
from leveret.wire import methods as m
from leveret.wire.frames import ENVELOPE
from leveret.wire.properties import Properties

OF_ONE_BROKER = (m.BasicConsume, m.BasicGet, m.BasicRecover, m.TxSelect, m.TxCommit, m.TxRollback)


class FanoutConnection(Connection):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.addresses[0])
        self.plan = plan
        self.needed = plan.confirmations
        self.members = [RecoveringConnection.begin_later(replace(plan, addresses=(each,))) for each in plan.addresses]
        self._change: asyncio.Future[None] = self._loop.create_future()
        self._fanned: set[Channel] = set()
        for member in self.members:
            member.listeners.append(self._member_event)

    @classmethod
    async def begin(cls, plan: Plan, listeners: Iterable[Listener] = ()) -> Self:
        """Returns when enough brokers are connected."""
        self = cls(plan)
        self.listeners.extend(listeners)
        try:
            await self.until_enough()
        except BaseException:
            await self.close()
            raise
        return self

    def _member_event(self, happening: Happening) -> None:
        self.frame_max = min(member.frame_max for member in self.members)
        self.is_blocked = any(member.is_blocked for member in self.members)
        self.announce_change()
        self.notify(happening)

    # A condition of one member applies to all: a message waits for the slowest.

    @property
    def is_congested(self) -> bool:
        return any(member.is_congested for member in self.members)

    @is_congested.setter
    def is_congested(self, is_so: bool) -> None:
        """Computed from the members."""

    async def writable(self) -> None:
        for member in self.members:
            await member.writable()

    def announce_change(self) -> None:
        """Wake all waiting calls."""
        self._change.set_result(None)
        self._change = self._loop.create_future()

    async def change(self) -> None:
        await asyncio.shield(self._change)

    @property
    def has_enough(self) -> bool:
        return sum(member.is_up for member in self.members) >= self.needed

    async def until_enough(self) -> None:
        """Wait until enough brokers are connected."""
        while not self.has_enough:
            self.refuse_closed()
            if sum(not member.is_closed for member in self.members) < self.needed:
                raise ConnectionLost(f"fewer than {self.needed} of {self.plan.shown} can be reached: {self._reasons()}")
            await self.change()

    def _reasons(self) -> str:
        reasons = []
        for member in self.members:
            try:
                member.refuse_closed()
            except LeveretError as problem:
                reasons.append(str(problem))
        return "; ".join(reasons)

    def new_channel(self) -> FanoutChannel:
        channel = FanoutChannel(self, [member.new_channel() for member in self.members if not member.is_closed])
        self._fanned.add(channel)
        return channel

    def forget(self, channel: Channel) -> None:
        self._fanned.discard(channel)

    async def update_secret(self, secret: str, reason: str = "") -> None:
        await asyncio.gather(*(member.update_secret(secret, reason) for member in self.members if member.is_up))

    async def close(self) -> None:
        if self.is_closed:
            return
        self._problem = Closed(f"the connections to {self.plan.shown} are closed")
        for channel in list(self._fanned):
            channel.end(self._problem)
        for member in self.members:
            member.listeners.remove(self._member_event)
        await asyncio.gather(*(member.close() for member in self.members))
        self.announce_change()
        self.notify(Happening("closed"))


class Ballot:
    """Counts the confirms of the brokers for one message. It takes the place of a future."""

    __slots__ = ("_is_over", "_left", "_needed", "_over")

    is_asked = True  # the failure of one broker is not reported by the channel of that broker

    def __init__(self, over: Callable[[Exception | None], None], *, needed: int, asked: int) -> None:
        """``over`` is called once, with an error if too few brokers confirmed the message."""
        self._over = over
        self._is_over = False
        self._needed = needed
        self._left = asked  # brokers that have not failed

    def done(self) -> bool:
        return self._is_over

    def set_result(self, result: None, /) -> None:
        self._needed -= 1
        self._left -= 1
        if not self._needed and not self._is_over:
            self._end(None)

    def set_exception(self, problem: Exception, /) -> None:
        self._left -= 1
        if self._left < self._needed and not self._is_over:
            self._end(problem)

    def _end(self, problem: Exception | None) -> None:
        self._is_over = True
        self._over(problem)

    def exception(self) -> BaseException | None:
        return None


class FanoutChannel(Channel):
    def __init__(self, connection: FanoutConnection, members: list[RecoveringChannel]) -> None:
        super().__init__(connection, 0)
        self._owner = connection
        self._members = members
        self._sent = 0  # with confirms
        self._ids = MessageIds()
        for member in members:
            member.on_close = self._member_ended
            member.on_return = self._returned

    async def open(self) -> None:
        await self._by_enough({asyncio.ensure_future(each.open()): each for each in self._members}, "channel.open")

    async def close(self) -> None:
        if self.is_closed:
            return
        self._problem = Closed("the channels are closed")
        await asyncio.gather(*(member.close() for member in self._members))
        self.end(self._problem)

    def _member_ended(self, problem: Exception) -> None:
        open_ones = sum(not member.is_closed for member in self._members)
        if open_ones < self._owner.needed and not self.is_closed:
            self.end(problem)
        self._owner.announce_change()

    def _returned(self, message: Any) -> None:
        if self.on_return is not None:
            call_back(self.on_return, message)

    @property
    def is_live(self) -> bool:
        return self._owner.has_enough

    async def until_live(self) -> None:
        await self._owner.until_enough()

    # ---- calls: to all

    def _call(self, method: m.Method, then: Then = None) -> asyncio.Future[Any]:
        self._refuse_closed()
        if isinstance(method, OF_ONE_BROKER):
            self._refuse_one_broker(method.NAME)
        if isinstance(method, m.QueueDeclare) and not method.queue:
            raise ClientError("a queue on several brokers needs a name: each broker would generate a different one")
        calls = {each.repeat_until_answered(method): each for each in self._members if not each.is_closed}
        return asyncio.ensure_future(self._by_enough(calls, method.NAME, then))

    async def _by_enough(
        self, calls: dict[asyncio.Future[Any], RecoveringChannel], name: str, then: Then = None
    ) -> Any:
        """The reply, once all connected brokers have sent it. Disconnected ones are called when they are back."""
        for each in calls:
            each.add_done_callback(_ignore_late_result)
        while True:
            good, refusals, waiting = _sorted(calls)
            if refusals:
                raise refusals[0]
            if len(good) >= self._owner.needed and not any(calls[each].connection.is_up for each in waiting):
                result = good[0].result()
                return result if then is None else then(result)
            self._refuse_closed()
            if len(good) + len(waiting) < self._owner.needed:
                raise ConnectionLost(f"{name} reached fewer than {self._owner.needed} brokers")
            change = asyncio.ensure_future(self._owner.change())
            try:
                await asyncio.wait([*waiting, change], return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()

    # ---- publishing

    def encoded(self, body: bytes, exchange: str, routing_key: str, properties: Properties, mandatory: bool) -> bytes:
        """With the same message ID for all brokers."""
        return super().encoded(body, exchange, routing_key, self._ids.stamped(properties), mandatory)

    def send_encoded(self, frames: bytes, confirm: Settled | None, mandatory: Likeness | None) -> None:
        if self._problem is not None:
            if confirm is not None:
                confirm.set_exception(self._problem)
            return
        targets = self._targets()
        ballot = (
            None if confirm is None or self.confirms is None else self._ballot(confirm, self.confirms, len(targets))
        )
        for member in targets:
            member.send_encoded(_for_channel(member.number, frames), ballot, mandatory)

    def _targets(self) -> list[RecoveringChannel]:
        """The connected brokers; if they are too few, also those that are reconnecting."""
        usable = [member for member in self._members if not member.is_closed]
        live = [member for member in usable if member.is_live]
        return live if len(live) >= self._owner.needed else usable

    def _ballot(self, confirm: Settled, confirms: Confirms, asked: int) -> Ballot:
        confirms.track(confirm)
        self._sent += 1
        tag = self._sent

        def over(problem: Exception | None) -> None:
            if problem is not None:
                confirms.fail(confirm, problem)
            confirms.settle(tag, multiple=False, is_taken=True)  # the outcome is reported once

        return Ballot(over, needed=self._owner.needed, asked=asked)

    # ---- not supported

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self._refuse_one_broker("basic.ack")

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._refuse_one_broker("basic.nack")

    def reject(self, delivery_tag: int, *, requeue: bool = False) -> None:
        self._refuse_one_broker("basic.reject")

    def _refuse_one_broker(self, name: str) -> NoReturn:
        raise ClientError(f"{name} is not supported with fanout: connect to a single broker, or use failover:")


def _sorted(
    calls: Iterable[asyncio.Future[Any]],
) -> tuple[list[asyncio.Future[Any]], list[AmqpError], list[asyncio.Future[Any]]]:
    """Successful calls, the errors of refused ones, and pending ones."""
    done = [each for each in calls if each.done()]
    refusals = [problem for problem in (each.exception() for each in done) if isinstance(problem, AmqpError)]
    good = [each for each in done if each.exception() is None]
    return good, refusals, [each for each in calls if not each.done()]


def _ignore_late_result(reply: asyncio.Future[Any]) -> None:
    if not reply.cancelled():
        reply.exception()


def _for_channel(number: int, frames: bytes) -> bytes:
    """The same frames on another channel."""
    changed, start = bytearray(frames), 0
    while start < len(frames):
        kind, _, size = ENVELOPE.unpack_from(frames, start)
        ENVELOPE.pack_into(changed, start, kind, number, size)
        start += ENVELOPE.size + size + 1
    return bytes(changed)
