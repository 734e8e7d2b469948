"""Extending the ack timeout of a delivery by a publish, since AMQP has no method for it.

To extend the timeout in a queue with x-consumer-timeout, a consumer publishes an empty message to the default exchange,
on the channel that received the delivery, with the routing key ``amq.leveret.extend`` and the headers ``delivery-tag``
and, optionally, ``timeout`` in milliseconds from now (default: the timeout of the queue). For a queue of another cell,
the link asks the home cell, without an answer (``extension_of_link``).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from leveret.errors import PreconditionFailed
from leveret.store.log import GRANTED
from leveret.wire.content import properties_of
from leveret.wire.methods import BasicCancel, BasicPublish

if TYPE_CHECKING:
    from leveret.session.channel import Channel

EXTEND = "amq.leveret.extend"
ON_LINK = "extend "  # begins what is no consumer tag of a link
LONGEST_MS = 86_400_000 * 365


def extend(channel: Channel, content: bytes) -> None:
    headers = properties_of(content).headers or {}
    tag, timeout = headers.get("delivery-tag"), headers.get("timeout")
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise refused(f"header 'delivery-tag' is {tag!r}, not the tag of a delivery of this channel")
    if timeout is not None and (type(timeout) is not int or not 0 < timeout <= LONGEST_MS):
        raise refused(f"header 'timeout' is {timeout!r}, not a number of milliseconds within 1..{LONGEST_MS}")
    if tag in channel.unacked.timed_out:
        channel.unacked.late += 1  # not an error, like a late ack
    else:
        _extend(channel, tag, timeout)
    if channel.confirms is not None:
        channel.send_confirms(channel.confirms.published(1, GRANTED))


def _extend(channel: Channel, tag: int, timeout: int | None) -> None:
    holder = channel.unacked.holder_of(tag)
    if holder is None:
        raise refused(f"unknown delivery tag {tag}")
    seconds = None if timeout is None else timeout / 1000
    if not holder.queue.extend_ack_timeout(channel.unacked, tag, seconds):
        raise refused(f"the queue of delivery tag {tag} has no x-consumer-timeout: nothing to extend")


def extension_of_link(tag: int, seconds: float | None) -> BasicCancel:
    """A cancel of a consumer that does not exist, which an older home cell ignores. It is no publish, since that would
    block the link, and the acks behind it, while the home cell has an alarm."""
    return BasicCancel(f"{ON_LINK}{tag} {0 if seconds is None else round(seconds * 1000)}", nowait=True)


def extend_on_link(channel: Channel, method: BasicCancel) -> None:
    tag, timeout = method.consumer_tag.removeprefix(ON_LINK).split(" ")
    with suppress(PreconditionFailed):  # the message has just been requeued, and is delivered again
        _extend(channel, int(tag), int(timeout) or None)


def refused(why: str) -> PreconditionFailed:
    return PreconditionFailed(f"cannot extend: {why}", method=BasicPublish.id)
