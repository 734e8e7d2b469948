"""Content frame by frame: headers and bodies of publishes that ``take_publishes`` cannot handle whole.  Hot path.

Other protocols publish through ``publish_content`` too. If properties matter to the broker, they are decoded here: CC
and BCC become further routing keys, a direct reply-to is rewritten, user-id and expiration are checked.
"""

from __future__ import annotations

from struct import error as struct_error
from typing import TYPE_CHECKING

from leveret.broker.publish_rules import too_large, traits_of
from leveret.broker.routes import PublishRoute
from leveret.broker.schedules import until
from leveret.delivery.selector import selectable
from leveret.errors import FrameError, PreconditionFailed, ResourceFault, UnexpectedFrame
from leveret.message import NEVER, Message, Traits
from leveret.queues.direct_reply import REPLY_TO
from leveret.session.ack_timeout_extension import extend
from leveret.session.inspection import DIRECT_REPLY_TO, inspect, reply_to_at
from leveret.session.publishes import publish
from leveret.wire.constants import BASIC_CLASS, FRAME_BODY, FRAME_OVERHEAD, MAX_BODY_SIZE
from leveret.wire.content import PAYLOAD, PROPERTIES_AT, SIZE_AT, body_at, properties_of, refit
from leveret.wire.content_edit import spliced
from leveret.wire.fields import encode_short
from leveret.wire.frames import decode_header
from leveret.wire.frames import frame as body_frame
from leveret.wire.grammar import after_body, after_header
from leveret.wire.methods import BasicPublish
from leveret.wire.properties import FLAG_REPLY_TO

if TYPE_CHECKING:
    from leveret.session.amqp_channel import AmqpChannel
    from leveret.session.channel import Channel

BLIND = ("BCC",)  # removed before delivery
SMALL = 256  # bytes


class PendingContent:
    """A publish whose content has not arrived in full."""

    __slots__ = ("left", "parts", "route", "size", "small")

    def __init__(self, route: PublishRoute) -> None:
        self.route = route
        self.parts: list[bytes] = []
        self.small = bytearray()  # payloads of small body frames, which are joined to one frame
        self.left = 0
        self.size = 0

    @property
    def has_header(self) -> bool:
        return bool(self.parts)

    def join_small(self, channel: int) -> None:
        if self.small:
            self.parts.append(body_frame(FRAME_BODY, channel, bytes(self.small)))
            self.small.clear()


def take_header(channel: AmqpChannel, frame: bytes) -> None:
    pending = channel.pending
    if pending is None or pending.has_header:
        raise UnexpectedFrame(f"content header on channel {channel.number} without a publish before it")
    class_id, body = decode_header(frame[7:-1])
    if class_id != BASIC_CLASS:
        after_header(class_id, body)
    if body > MAX_BODY_SIZE:
        raise FrameError(f"body of {body} bytes is larger than any message may be ({MAX_BODY_SIZE})")
    largest = channel.connection.limits.max_message_size
    if body > largest:
        channel.forget_content()
        raise PreconditionFailed(too_large(body, largest), method=BasicPublish.id)
    pending.left = body
    _keep(channel, pending, frame)
    if not body:
        _finish(channel, pending)


def take_body(channel: AmqpChannel, frame: bytes) -> None:
    pending = channel.pending
    if pending is None or not pending.has_header:
        raise UnexpectedFrame(f"body on channel {channel.number} without a header before it")
    size = len(frame) - 8
    pending.left -= size
    after_body(pending.left)
    if size < SMALL:
        _gather(channel, pending, frame[7:-1])
    else:
        pending.join_small(channel.number)
        _keep(channel, pending, frame)
    if not pending.left:
        pending.join_small(channel.number)
        _finish(channel, pending)


def _gather(channel: AmqpChannel, pending: PendingContent, payload: bytes) -> None:
    """Kept one by one, body frames of one byte each would use fifty times the size of the body."""
    if len(pending.small) + len(payload) + 8 > channel.connection.frame_max:
        pending.join_small(channel.number)
    pending.small += payload
    _count(channel, pending, len(payload))


def _keep(channel: AmqpChannel, pending: PendingContent, frame: bytes) -> None:
    pending.parts.append(frame)
    _count(channel, pending, len(frame))


def _count(channel: AmqpChannel, pending: PendingContent, size: int) -> None:
    """Unfinished messages count as memory, so that large unfinished bodies on many channels are bounded."""
    connection = channel.connection
    pending.size += size
    fits = connection.hold_partial(size)
    if connection.partial > connection.limits.max_partial_bytes:
        raise ResourceFault(
            f"unfinished messages hold {connection.partial} bytes on this connection, more than "
            f"{connection.limits.max_partial_bytes}: finish some before starting others"
        )
    if not fits:
        raise ResourceFault(
            f"unfinished messages of user '{connection.user.name}' use all the memory they may (a share of the memory "
            "high watermark): finish some before starting others, or raise memory_high_watermark"
        )


def _finish(channel: AmqpChannel, pending: PendingContent) -> None:
    channel.forget_content()
    content = b"".join(pending.parts)
    frame_max = channel.connection.frame_max
    if any(len(part) > frame_max for part in pending.parts[1:]):  # accepted from this client, not delivered to others
        content = refit(content, channel.number, frame_max)
    publish_content(channel, channel.routes.current(pending.route), content)


def publish_content(channel: Channel, route: PublishRoute, content: bytes) -> None:
    """Publish one whole message; the properties are decoded only if some of them matter to the broker."""
    if route.extends:
        extend(channel, content)
        return
    flags = int.from_bytes(content[PROPERTIES_AT : PROPERTIES_AT + 2], "big")
    traits = None
    if not route.special:
        if flags & FLAG_REPLY_TO and channel.reply is not None:
            content = _with_reply_name(flags, content, channel.reply.queue_name)
        traits = inspect(flags, content, PROPERTIES_AT + 2, body_at(content) - 1, channel.now())
    if traits is None:
        route, content, traits = _look_closely(channel, route, content)
    message: Message = (content, route.address, traits)
    publish(channel, route, [message], len(content), traits.deadline != NEVER)


def _with_reply_name(flags: int, content: bytes, name: str) -> bytes:
    """The content with the name of the reply queue in place of a direct reply-to. Malformed properties stay as they
    are."""
    try:
        at = reply_to_at(flags, content, PROPERTIES_AT + 2)
    except (IndexError, struct_error):
        return content
    if not content.startswith(DIRECT_REPLY_TO, at):
        return content
    named = encode_short(name)
    size = body_at(content) - FRAME_OVERHEAD + len(named) - len(DIRECT_REPLY_TO)
    head = (content[:SIZE_AT], size.to_bytes(4, "big"), content[PAYLOAD:at], named)
    return b"".join((*head, content[at + len(DIRECT_REPLY_TO) :]))


def _look_closely(channel: Channel, route: PublishRoute, content: bytes) -> tuple[PublishRoute, bytes, Traits]:
    properties = properties_of(content)
    if channel.is_link:
        return route, content, traits_of(properties, channel.now())
    headers = properties.headers or {}
    copies = channel.caller.check_properties(route.exchange.name, properties)
    traits = traits_of(properties, channel.now())
    due = channel.vhost.schedules.due(route.exchange, headers)
    if "BCC" in headers and due is None:
        content = spliced(content, {}, without=BLIND)
    if properties.reply_to == REPLY_TO:
        content = spliced(content, {}, sets={FLAG_REPLY_TO: encode_short(channel.reply_name())})
    if due is not None:
        return route.waiting_in(channel.vhost.schedules.queue), content, until(due, traits)
    if copies or route.special:
        route = channel.routes.reroute(route, (route.address.key, *copies), selectable(properties))
    return route, content, traits
