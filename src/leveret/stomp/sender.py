"""SEND: a destination becomes exchange and routing key, headers become properties, a receipt waits for the confirm.

A reply-to of /temp-queue/name is a queue of this connection: it is declared and consumed here, and reply-to gets its
real name.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from leveret.queues.options import COMPARED
from leveret.session.direct_channel import DirectChannel
from leveret.stomp.declarations import Declaration, KnownQueues, arguments_of, declaration
from leveret.stomp.destinations import QUEUE, TEMP_PREFIX, TEMP_QUEUE, parse
from leveret.stomp.errors import StompError
from leveret.stomp.frame import Frame
from leveret.stomp.message_headers import properties_of_send
from leveret.stomp.subscriptions import Subscriptions
from leveret.wire.properties import Properties

Outgoing = tuple[str, str, Properties, bytes]  # arguments of DirectChannel.publish


class Sender:
    __slots__ = ("_channel", "_receipts", "_subscriptions", "_wall", "known")

    def __init__(
        self, channel: DirectChannel, known: KnownQueues, subscriptions: Subscriptions, wall: Callable[[], float]
    ) -> None:
        self._channel = channel
        self.known = known
        self._subscriptions = subscriptions
        self._wall = wall
        self._receipts: dict[int, str | None] = {}  # by number of the publish, unconfirmed; None: none was requested

    def send(self, frame: Frame) -> None:
        message = self.prepare(frame, self._channel)
        confirms = self._channel.confirms
        assert confirms is not None
        self._receipts[confirms.issued + 1] = frame.get("receipt")
        self._channel.publish(*message)

    def prepare(self, frame: Frame, channel: DirectChannel) -> Outgoing:
        """The message of a SEND; its queue is declared on this channel."""
        destination = parse(frame.need("destination"))
        if destination.kind == TEMP_QUEUE:
            text = f"{frame.headers['destination'][:256]!r} is not a valid destination for 'SEND'"
            raise StompError("Invalid destination", f"{text}\nIt is for reply-to only: SEND to its /reply-queue")
        properties = properties_of_send(frame, self._wall())
        if properties.reply_to is not None and properties.reply_to.startswith(TEMP_PREFIX):
            properties.reply_to = self._subscriptions.temporary_queue(properties.reply_to)
        if destination.kind == QUEUE and destination.name not in self.known:
            self.known.declare(channel, declaration(frame, destination.name, arguments_of(frame, COMPARED)))
        return destination.exchange, destination.key, properties, frame.body

    def needed(self, frame: Frame) -> Declaration | None:
        """The queue to declare if it does not exist any more when the message is published."""
        destination = parse(frame.need("destination"))
        if destination.kind != QUEUE:
            return None
        return declaration(frame, destination.name, arguments_of(frame, COMPARED))

    # ---- receipts

    def confirmed(self, tag: int, multiple: bool) -> list[str | None]:
        """The receipts of the confirmed messages; None for each message without a receipt."""
        tags = takewhile(lambda each: each <= tag, self._receipts) if multiple else [tag]
        return [self._receipts.pop(each) for each in list(tags) if each in self._receipts]

    @property
    def is_waiting(self) -> bool:
        return bool(self._receipts)
