"""From publish frames to queues.  Hot path.

Consecutive publishes with the same method frame are one *run*: parsed in one loop and passed to each queue as one list.
Within a run, a message whose bytes up to the body equal those of the message before (same properties, same size) is not
parsed. Publishes with other method frames follow in the same loop, one run each. See docs/internals/publish.md.

Messages that are not complete in the received chunk, or have several body frames, are handled frame by frame in
session/content.py, which also decodes properties that the broker acts on; it calls ``publish`` too.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from leveret.broker.publishes import publish_run, rejected_places, write_run
from leveret.broker.routes import PublishRoute
from leveret.message import (
    NEVER,
    PERSISTENT,
    PERSISTENT_BY_PRIORITY,
    TRANSIENT,
    TRANSIENT_BY_PRIORITY,
    Message,
)
from leveret.queues.queue import is_mixed, stretches
from leveret.routing.bounds import TICK_STEPS
from leveret.session.inspection import inspect
from leveret.session.replies import NO_METHOD
from leveret.store.log import GRANTED
from leveret.wire.constants import FRAME_END

if TYPE_CHECKING:
    from leveret.session.amqp_channel import AmqpChannel
    from leveret.session.channel import Channel

unpack_header = Struct(">IHHQH").unpack_from  # payload size, class, weight, body size, property flags
unpack_length = Struct(">I").unpack_from
pack_body_start = Struct(">BHI").pack
BASIC = 60
PUBLISH = b"\x00\x3c\x00\x28"
SHORTEST_HEADER = 22  # bytes of a header frame without properties
NOTHING = 1 << 60
SHORTEST_PUBLISH = 17  # bytes of a publish frame with empty names
LONGEST_PUBLISH = 527
SMALL_BODY = 256  # bytes; searching larger ones costs more than it saves
MISSES = 4  # in one chunk, before the search for equal headers stops


def take_publishes(channel: AmqpChannel, data: bytes, pos: int, stop: int) -> int:
    """Handle the consecutive publishes of one channel from ``pos`` on; returns where the rest of the data begins.

    The first method frame is whole and ends at ``stop``. If only the end of a body is missing, ``Intake.wanted`` is set
    to the size of the whole message, and the result is the complement of where the message begins; the same if the
    routing steps of this tick are used up. For any other message that cannot be handled here, the method frame is
    consumed, and the channel waits for the content frame by frame.
    """
    end = len(data)
    startswith = data.startswith
    channel_number, header_start, frame_start = channel.number, channel.header_start, channel.frame_start
    connection, vhost, known = channel.connection, channel.vhost, channel.routes.known
    work, lengths = vhost.work, vhost.message_sizes.lengths
    limit, largest = connection.intake.frame_limit, channel.largest_whole
    last_body, body_start, misses = -1, b"", 0
    may_matter: bool | None = None
    is_first, is_simple = True, channel.tx is None and channel.confirms is None
    while True:
        frame = data[pos:stop]
        route = known.get(frame)
        if route is None or route.epoch != vhost.epoch or route.deletions != vhost.deletions:
            if work.spent > TICK_STEPS:
                connection.wait_for_tick()
                return ~pos
            connection.intake.resume_at = stop
            route = channel.routes.resolve(frame, route)
        address = route.address
        skip = stop - pos
        start, head = pos, stop
        run: list[Message] = []
        timed, waits, undecoded = False, True, b""
        least = NOTHING if route.special else SHORTEST_HEADER  # special routes need decoded properties
        while end - head >= least and startswith(header_start, head):
            length, class_id, _, body, flags = unpack_header(data, head + 3)
            at = head + length + 8  # where the body frame begins
            if at > end or not 14 <= length <= limit or class_id != BASIC or data[at - 1] != FRAME_END:
                break
            if body:
                if body != last_body:
                    body_start = pack_body_start(3, channel_number, body & 0xFFFFFFFF)
                    last_body = body
                stop = at + body + 8
                if body > largest or not startswith(body_start, at):
                    break
                if stop > end:
                    connection.intake.wanted = stop - pos
                    break
                if data[stop - 1] != FRAME_END:
                    break
                at += 7  # equal messages are equal up to the payload of the body frame
            else:
                stop = at
            if flags == 0 and length == 14:
                traits = TRANSIENT
            elif flags == 0x1000 and length == 15:
                traits = PERSISTENT if data[head + 21] == 2 else TRANSIENT
            elif flags == 0x1800 and length == 16:
                priority = data[head + 22]
                traits = (PERSISTENT_BY_PRIORITY if data[head + 21] == 2 else TRANSIENT_BY_PRIORITY)[priority]
            else:
                if may_matter is None and flags & 0x2000 and body < SMALL_BODY:
                    if is_first:  # where every message is special, each is the first of its call
                        is_first = False
                    else:  # one search of the chunk replaces one for each message
                        may_matter = data.find(b"CC", pos) >= 0 or data.find(b"-del", pos) >= 0
                now = channel.now() if flags & 0x0100 else 0.0
                seen = inspect(flags, data, head + 21, head + length + 7, now, may_matter is not False)
                if seen is None:
                    undecoded = data[head:stop]
                    break
                traits = seen
                timed = timed or traits.deadline != NEVER
            run.append((data[head:stop], address, traits))
            if not startswith(frame, stop):
                pos = stop
                waits = False
                break
            if misses > MISSES:  # every message is different here: comparing would only cost
                pos = stop
                head = pos + skip
                continue
            pattern = data[pos:at]
            step = stop - pos
            pos = stop
            if not startswith(pattern, pos):
                misses += 1
            else:
                add = run.append
                while startswith(pattern, pos):  # messages that differ only in their bodies
                    stop = pos + step
                    if stop > end or data[stop - 1] != FRAME_END:
                        break
                    add((data[pos + skip : stop], address, traits))
                    pos = stop
                if not startswith(frame, pos):
                    waits = False
                    break
            head = pos + skip
        if run:
            number = len(run)
            if is_simple and route.plain:  # publish() without the call, for runs of one message
                route.counters.published += number
                channel.published += number
                size = pos - start - skip * number
                lengths[size if number == 1 else len(run[0][0])] += number
                for queue in route.queues:
                    queue.publish(run, size, timed)
            else:
                publish(channel, route, run, pos - start - skip * number, timed)
        if waits:
            if connection.intake.wanted:
                return ~pos
            return _take_alone(channel, route, undecoded, pos + skip)
        if end - pos < SHORTEST_PUBLISH or not startswith(frame_start, pos) or not startswith(PUBLISH, pos + 7):
            return pos
        stop = pos + 8 + unpack_length(data, pos + 3)[0]
        if stop > end or stop - pos > LONGEST_PUBLISH or data[stop - 1] != FRAME_END:
            return pos


def _take_alone(channel: AmqpChannel, route: PublishRoute, content: bytes, pos: int) -> int:
    """A message that ``take_publishes`` does not handle: ``content``, whose properties have to be decoded, or frame by
    frame if this is empty. Returns where the rest of the data begins."""
    if not content:
        channel.await_content(route)
        return pos
    intake = channel.connection.intake
    intake.resume_at, intake.at_method = pos + len(content), NO_METHOD
    channel.publish_whole(route, content)
    return pos + len(content)


def publish(channel: Channel, route: PublishRoute, run: list[Message], size: int, timed: bool) -> None:
    """Pass a run to the queues of its route, return unroutable messages, send confirms."""
    if channel.tx is not None:
        channel.tx.publish(route, run, size, timed, channel.now() if timed else 0.0)
        return
    if route.durable and is_mixed(run):  # persistent ones wait for the log, transient ones do not
        for stretch in stretches(run):
            publish(channel, route, stretch, sum([len(message[0]) for message in stretch]), timed)
        return
    number = len(run)
    route.counters.published += number
    channel.published += number
    channel.vhost.message_sizes.lengths[len(run[0][0])] += number
    receipt = GRANTED
    if route.plain:
        for queue in route.queues:
            queue.publish(run, size, timed)
    elif route.uniform:
        receipt = write_run(route.queues, channel.connection.broker.log, run, size, timed)
    elif route.only_log is not None and not route.mandatory and channel.waits_for_nothing:
        route.only_log.forward(size, timed, run, channel.flow_control())
    else:
        _publish_each(channel, route, run, size, timed)
        return
    if channel.confirms is not None:
        channel.send_confirms(channel.confirms.published(number, receipt))
        if receipt != GRANTED:
            channel.connection.broker.awaiting[channel] = None


def _publish_each(channel: Channel, route: PublishRoute, run: list[Message], size: int, timed: bool) -> None:
    """For routes that are not uniform: messages differ in their outcomes, or are unroutable."""
    broker, confirms = channel.connection.broker, channel.confirms
    pending = channel.pending_publish(run, route.mandatory) if route.answers_later else None
    outcomes = publish_run(route, broker.log, run, size, timed, publisher=channel, pending=pending)
    if pending is not None:
        if places := rejected_places(outcomes):
            pending.reject(places)
        receipt = max([outcome.receipt for outcome in outcomes])
        broker.when_granted(lambda: pending.resolve(True), lost=lambda: pending.resolve(False), receipt=receipt)
        return
    if route.mandatory and not route.queues:
        channel.return_messages(run)
    if confirms is None:
        return
    for number, receipt, is_rejected in outcomes:
        if is_rejected:
            channel.send_confirms(confirms.refused(number))
            continue
        channel.send_confirms(confirms.published(number, receipt))
        if receipt != GRANTED:
            broker.awaiting[channel] = None
