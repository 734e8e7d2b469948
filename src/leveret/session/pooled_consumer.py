"""One consumer over several queues of a pool, which may change while it consumes.

Each queue has a member with the same consumer tag. The members share one credit, so prefetch counts over all queues. A
member that leaves its queue keeps its unacked deliveries, as after a basic.cancel.

The consumer is accepted by all of its queues or by none. Home cells of remote queues answer later: until all have,
there is neither a consume-ok nor a credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from leveret.broker.vhost import Pool
from leveret.delivery.consumer import UNLIMITED
from leveret.errors import AmqpError
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue, HomeRequests
from leveret.session.connection_moves import can_move, consider
from leveret.session.consumers import ChannelConsumer, choose_tag, consumer_flag, consumer_priority, join
from leveret.session.home_requests import ask_home
from leveret.wire.frames import method_frame
from leveret.wire.methods import BasicConsume, BasicConsumeOk

if TYPE_CHECKING:
    from leveret.session.channel import Channel

SHARD_ALL = "x-shard-all"


class Member(ChannelConsumer):
    """Limited by the credit of the whole consumer, not by its own. Combined with the consumer class of a protocol."""

    # No __slots__: the classes that it is combined with have different ones.

    def __init__(self, whole: PooledConsumer, queue: DeclaredQueue, priority: int) -> None:
        super().__init__(whole.channel, queue, whole.method, priority)
        self.credit = UNLIMITED
        self.whole = whole

    @property
    def is_at_limit(self) -> bool:
        return super().is_at_limit or self.whole.credit <= 0

    def room(self) -> int:
        return min(super().room(), self.whole.credit)

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        number, size = super().take(ready, lane, sequence, limit)
        if not self.no_ack:
            self.whole.credit -= number
        return number, size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        super().take_again(message, lane, sequence, count)
        if not self.no_ack:
            self.whole.credit -= 1

    def restore(self, number: int) -> None:
        self.whole.credit += number
        super().restore(number)
        self.whole.touch()

    def cancelled_by_queue(self) -> None:
        self.whole.lost(self)


class PooledConsumer:
    """The consumer that the channel finds by its tag; it acts as its own queue."""

    def __init__(self, channel: Channel, method: BasicConsume, pool: Pool) -> None:
        self.channel = channel
        self.method = method
        self.credit = 0
        self._limit = UNLIMITED if method.no_ack or not channel.prefetch else channel.prefetch
        self.queue = self
        self._pool = pool
        self._priority = consumer_priority(method)
        self._members: dict[DeclaredQueue, Member] = {}
        self._is_in = False
        try:
            pool.enter(self, consumer_flag(method, SHARD_ALL))
        except AmqpError:  # it may not consume from one of the queues: then it consumes from none
            self.follow(())
            raise
        self._is_in = True

    def remote_members(self) -> list[tuple[HomeRequests, Member]]:
        return [(queue.home, member) for queue, member in self._members.items() if queue.home is not None]

    def joined(self, answered: Callable[[AmqpError | None], None]) -> None:
        """``answered`` gets None once all home cells have accepted their members, or the error of the first refusal."""
        waiting = self.remote_members()
        left = len(waiting)

        def answer(refusal: AmqpError | None) -> None:
            nonlocal left
            left = left - 1 if refusal is None else 0
            if not left:
                answered(refusal)

        for home, member in waiting:
            home.joined(member, answer)

    def begin(self) -> None:
        """Accept deliveries."""
        self.credit = self._limit
        self.touch()

    def follow(self, queues: Sequence[DeclaredQueue]) -> None:
        for queue in [each for each in self._members if each not in queues]:
            queue.remove_consumer(self._members.pop(queue))
        for queue in queues:
            if queue not in self._members:
                self._join(queue)

    def _join(self, queue: DeclaredQueue) -> None:
        connection = self.channel.connection
        try:
            self.channel.caller.access.check("consume", queue.name, arguments=self.method.arguments)
            member = self.channel.member_class(self, queue, self._priority)
            self.channel.vhost.footprint.refuse(f"consumer '{member.tag}' of queue '{queue.name}'", member.memory)
            queue.add_consumer(member)
        except AmqpError as refusal:
            if not self._is_in:
                raise
            connection.log.warning("consumer cannot be added to a new shard", queue=queue.name, reason=refusal.text)
        else:
            self._members[queue] = member

    def moved(self, old: object, new: DeclaredQueue) -> None:
        """Another object stands for a queue, which is in another cell now."""
        self._members = {new if queue is old else queue: member for queue, member in self._members.items()}

    def touch(self) -> None:
        for queue in self._members:
            queue.touch()

    def catch_up(self) -> None:
        for member in list(self._members.values()):
            member.catch_up()

    def leave(self) -> None:
        self._pool.leave(self)
        self.follow(())

    def lost(self, member: Member) -> None:
        """A queue has removed a member: it was deleted, or has another exclusive consumer since its cell was away, or a
        one-shot consumer has its message."""
        is_incomplete = member.exclusive and member.queue in self.channel.vhost.queues.values()
        self._members = {queue: each for queue, each in self._members.items() if each is not member}
        if self._members and not member.one_shot and not is_incomplete:
            return
        self.leave()
        self.channel.notify_cancel(self.method.consumer_tag)


def consume(channel: Channel, method: BasicConsume) -> None:
    choose_tag(channel, method)
    pool = channel.caller.access.pool(method.queue)
    if pool is None:
        _consume_from_queue(channel, method)
    elif consumer_flag(method, SHARD_ALL) or not can_move(channel.connection):
        _consume_from_pool(channel, method, pool)
    else:
        _move_to_idle(channel, method, pool)


def _move_to_idle(channel: Channel, method: BasicConsume, pool: Pool) -> None:
    """Move to a cell with a queue that nothing consumes from, if there is none here."""
    frame = method_frame(channel.number, method)

    def answered(cell: str) -> None:
        connection = channel.connection
        if not cell or not connection.move(cell, frame + connection.unhandled_input()):
            _consume_from_pool(channel, method, pool)

    ask_home(channel, method, pool.idle_cell, answered)


def _consume_from_pool(channel: Channel, method: BasicConsume, pool: Pool) -> None:
    queue = None if consumer_flag(method, SHARD_ALL) else pool.fixed_share()
    if queue is None:
        _consume_from_several(channel, method, pool)
    else:
        method.queue = queue.name
        _consume_from_queue(channel, method)


def _consume_from_queue(channel: Channel, method: BasicConsume) -> None:
    if channel.connection.may_move:
        queue = channel.vhost.queues.get(channel.named_queue(method.queue))
        consider(channel.connection, () if queue is None else (queue,))
    consumer = channel.consumers[method.consumer_tag] = join(channel, method)
    home = channel.vhost.queues[channel.named_queue(method.queue)].home
    if home is None:
        channel.reply_to(method, BasicConsumeOk(method.consumer_tag))
        return

    def joined(_: None) -> None:
        channel.reply_to(method, BasicConsumeOk(method.consumer_tag))

    ask_home(channel, method, partial(home.joined, consumer), joined)


def _consume_from_several(channel: Channel, method: BasicConsume, pool: Pool) -> None:
    whole = channel.consumers[method.consumer_tag] = PooledConsumer(channel, method, pool)

    def joined(_: None) -> None:
        channel.reply_to(method, BasicConsumeOk(method.consumer_tag))
        whole.begin()

    if whole.remote_members():
        ask_home(channel, method, whole.joined, joined)
    else:
        joined(None)


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {BasicConsume.id: consume}
