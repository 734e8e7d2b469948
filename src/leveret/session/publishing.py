"""From publish frames to queues.  Hot path.

Consecutive publishes with the same method frame are one *run*: taken apart in one loop and handed to each queue as one
list. Within a run, messages whose header frame equals that of the message before (same properties, same size) are not
even looked at: comparing the bytes up to the body is enough. See docs/internals/publish.md.

Whatever is not wholly in the received chunk, comes in several body frames, or needs a closer look goes through
``session/content.py`` frame by frame, and ends in the same ``publish``.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from leveret.message import NEVER, PERSISTENT, TRANSIENT, Message
from leveret.session.guarded import publish_guarded
from leveret.session.inspection import inspect
from leveret.session.routes import Route
from leveret.store.log import GRANTED
from leveret.wire.constants import FRAME_END, NO_ROUTE
from leveret.wire.frames import method_frame
from leveret.wire.methods import BasicReturn

if TYPE_CHECKING:
    from leveret.session.channel import Channel

unpack_header = Struct(">IHHQH").unpack_from  # payload size, class, weight, body size, property flags
pack_body_start = Struct(">BHI").pack
BASIC = 60


def publish_run(channel: Channel, route: Route, frame: bytes, data: bytes, pos: int) -> int:
    """Take the messages published by ``frame`` from ``pos`` on; where the rest of the data begins.

    If the first message behind ``pos`` cannot be taken here, its method frame is consumed and the channel waits for
    its content frame by frame.
    """
    end, skip = len(data), len(frame)
    startswith = data.startswith
    number, start, header_start = channel.number, pos, channel.header_start
    largest, address = channel.connection.limits.max_message_bytes, route.address
    run: list[Message] = []
    add = run.append
    timed = False
    head = pos + skip
    waits = True
    if not route.special:
        while end - head >= 22 and startswith(header_start, head):
            length, class_id, _, body, flags = unpack_header(data, head + 3)
            at = head + length + 8  # where the body frame begins
            if at > end or length < 14 or class_id != BASIC or data[at - 1] != FRAME_END:
                break
            if body:
                stop = at + body + 8
                if stop > end or body > largest or data[stop - 1] != FRAME_END:
                    break
                if not startswith(pack_body_start(3, number, body), at):
                    break
                pattern = data[pos : at + 7]
            else:
                stop = at
                pattern = data[pos:at]
            if flags == 0 and length == 14:
                traits = TRANSIENT
            elif flags == 0x1000 and length == 15:
                traits = PERSISTENT if data[head + 21] == 2 else TRANSIENT
            else:
                seen = inspect(flags, data, head + 21, at - 1, channel.now() if flags & 0x0100 else 0.0)
                if seen is None:
                    break
                traits = seen
                timed = timed or traits.deadline != NEVER
            step = stop - pos
            while True:  # the message at pos, and those after it that are alike
                add((data[head:stop], address, traits))
                pos = stop
                if not startswith(pattern, pos):
                    break
                stop = pos + step
                if stop > end or data[stop - 1] != FRAME_END:
                    break
                head = pos + skip
            if not startswith(frame, pos):
                waits = False
                break
            head = pos + skip
    if run:
        publish(channel, route, run, pos - start - skip * len(run), timed)
    if waits:
        channel.await_content(route)
        return pos + skip
    return pos


def publish(channel: Channel, route: Route, run: list[Message], size: int, timed: bool) -> None:
    """Hand a run to the queues of its route; return and confirm what must be."""
    if channel.tx is not None:
        channel.tx.publishes.append((route, run, size, timed))
        return
    number = len(run)
    route.counters.published += number
    channel.published += number
    if route.guarded:
        publish_guarded(channel, route, run, size, timed)
        return
    receipt = GRANTED
    if route.queues:
        route.counters.routed += number
        if route.durable:
            placements = [queue.publish(run, size, timed) for queue in route.queues if queue.durable]
            for queue in route.queues:
                if not queue.durable:
                    queue.publish(run, size, timed)
            receipt = channel.connection.broker.log.append(run, placements)
        else:
            for queue in route.queues:
                queue.publish(run, size, timed)
    else:
        route.counters.unroutable += number
        if route.mandatory:
            give_back(channel, run)
    if channel.confirms is not None:
        channel.send_verdicts(channel.confirms.published(number, receipt))


def give_back(channel: Channel, run: list[Message]) -> None:
    """basic.return: nobody wanted these."""
    for content, address, _ in run:
        told = BasicReturn(NO_ROUTE, "NO_ROUTE", address.exchange, address.key)
        channel.connection.send(method_frame(channel.number, told) + content)
    channel.returned += len(run)
