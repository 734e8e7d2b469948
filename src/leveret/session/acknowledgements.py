"""basic.ack, nack, reject and recover.  Hot path.

Consumers usually ack in order. A run of ack frames, each for the next tag or a multiple beyond it, becomes one number
and is settled at once; all other acks are handled one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from leveret.delivery.unacked import Portion, acknowledge, drop, give_back_unseen, requeue, requeue_unseen
from leveret.errors import Unsupported
from leveret.session.settlement import FEW, Settle, Settlement
from leveret.wire.constants import FRAME_END
from leveret.wire.methods import BasicAck, BasicNack, BasicRecover, BasicRecoverAsync, BasicRecoverOk, BasicReject

if TYPE_CHECKING:
    from leveret.session.amqp_channel import AmqpChannel
    from leveret.session.channel import Channel

unpack_ack = Struct(">QB").unpack_from
ACK_FRAME = 21  # bytes
RETURNS = (requeue, requeue_unseen, give_back_unseen)


def ack_run(channel: AmqpChannel, data: bytes, pos: int) -> int:
    """Settle the run of basic.ack frames at ``pos``; returns where the rest begins.

    The first frame is whole. If it does not ack the next tag in order, only that frame is handled.
    """
    unacked = channel.unacked
    start, end = pos, len(data)
    is_usual = channel.tx is None and not unacked.holes and not unacked.timed_out
    if is_usual and not channel.connection.broker.interceptors.concerns(BasicAck.id):
        startswith, prefix = data.startswith, channel.ack_start
        first, last = unacked.base, unacked.next_tag - 1
        upto = first - 1
        while end - pos >= ACK_FRAME and startswith(prefix, pos):
            tag, multiple = unpack_ack(data, pos + 11)
            if not (tag == upto + 1 or (multiple & 1 and tag > upto)) or tag > last or data[pos + 20] != FRAME_END:
                break
            if multiple & 1 and unacked.stragglers:
                break
            upto = tag
            pos += ACK_FRAME
        if upto >= first:
            portions = unacked.take_through(upto, also_stragglers=False)  # no frame of this run acks them
            if upto - first < FEW:
                acknowledge(portions)
            else:
                settle_many(channel, portions, acknowledge)
    if pos == start:
        length = int.from_bytes(data[pos + 3 : pos + 7], "big")
        pos += length + 8
        ack(channel, BasicAck.decode(data, start + 11, pos - 1))
    return pos


def ack(channel: Channel, method: BasicAck) -> None:
    method_ = channel.intercept(method)
    assert isinstance(method_, BasicAck)
    settle(channel, method_.delivery_tag, method_.multiple, acknowledge)


def settle(channel: Channel, tag: int, multiple: bool, action: Settle) -> None:
    """Settle the deliveries of a tag by ``action``, now or at the commit."""
    if channel.tx is not None:
        channel.tx.settle(channel.unacked, tag, multiple, action)
        return
    portions = channel.unacked.claim(tag, multiple)
    if multiple:
        settle_many(channel, portions, action)
    else:
        action(portions)


def settle_each(channel: Channel, tags: list[int], action: Settle) -> None:
    """Settle these deliveries, whose tags are in order; in one step if they are the oldest of the channel."""
    unacked = channel.unacked
    if channel.tx is not None:
        for tag in tags:
            channel.tx.settle(unacked, tag, False, action)
    elif (
        tags[0] == unacked.base and tags[-1] - tags[0] == len(tags) - 1 and not unacked.holes and not unacked.timed_out
    ):
        settle_many(channel, unacked.take_through(tags[-1], also_stragglers=False), action)
    else:
        settle_many(channel, [portion for tag in tags for portion in unacked.claim(tag, False)], action)


def settle_many(channel: Channel, portions: list[Portion], action: Settle) -> None:
    if sum([len(portion.messages) for portion in portions]) <= FEW:
        action(portions)
    else:
        background = channel.connection.broker.background
        background.begin(Settlement(background, portions, action, returns=action in RETURNS))


def _nack(channel: Channel, method: BasicNack) -> None:
    settle(channel, method.delivery_tag, method.multiple, requeue if method.requeue else drop)


def _reject(channel: Channel, method: BasicReject) -> None:
    settle(channel, method.delivery_tag, False, requeue if method.requeue else drop)


def _recover(channel: Channel, method: BasicRecover | BasicRecoverAsync) -> None:
    if not method.requeue:
        raise Unsupported("requeue=false", method=method.id)
    unacked, tx = channel.unacked, channel.tx
    if tx is not None and tx.settled:  # deliveries settled in the open transaction are not outstanding
        portions = unacked.take_each([tag for tag in unacked.tags(unacked.next_tag) if tag not in tx.settled])
    else:
        portions = unacked.take_all()
    settle_many(channel, portions, requeue)
    if isinstance(method, BasicRecover):
        channel.send(BasicRecoverOk())


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {
    BasicNack.id: _nack,
    BasicReject.id: _reject,
    BasicRecover.id: _recover,
    BasicRecoverAsync.id: _recover,
}
