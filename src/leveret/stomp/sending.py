"""SEND: a destination becomes exchange and key, headers become properties, and a receipt waits for the confirm.

Queues are made when they are first named, as the plugin of RabbitMQ does it. A reply-to of /temp-queue/name is a queue
of this connection: it is made and consumed here, and the message says where to answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.queues.options import COMPARED
from leveret.stomp.amqp_side import PUBLISHING, AmqpSide
from leveret.stomp.destinations import QUEUE, TEMP_PREFIX, TEMP_QUEUE, parse
from leveret.stomp.frame import FLAGS, Frame
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.message_headers import properties_of_send
from leveret.stomp.refusals import StompRefusal, refuse_long
from leveret.wire.fields import FieldValue, Table
from leveret.wire.methods import QueueDeclare

if TYPE_CHECKING:
    from leveret.stomp.subscribing import Subscribing


class Sending:
    __slots__ = ("_amqp", "_known", "_next", "_receipts", "_subscribing", "_temporary", "_wall")

    def __init__(self, amqp: AmqpSide, known: KnownQueues, subscribing: Subscribing, wall: Callable[[], float]) -> None:
        self._amqp = amqp
        self._known = known
        self._subscribing = subscribing
        self._wall = wall
        self._temporary: dict[str, str] = {}  # what their owner calls them: queue
        self._next = 1  # number of the next publish
        self._receipts: dict[int, str | None] = {}  # what waits for a confirm; None asked for no receipt

    def send(self, frame: Frame) -> None:
        self._amqp.say(self.message(frame, PUBLISHING))
        self._receipts[self._next] = frame.get("receipt")
        self._next += 1

    def message(self, frame: Frame, channel: int) -> bytes:
        """The publish for this channel; what it needs is made before."""
        destination = parse(frame.need("destination"))
        if destination.kind == TEMP_QUEUE:
            text = f"{frame.headers['destination'][:256]!r} is not a valid destination for 'SEND'"
            raise StompRefusal("Invalid destination", f"{text}\nIt is for reply-to only: SEND to its /reply-queue")
        properties = properties_of_send(frame, self._wall())
        if properties.reply_to is not None and properties.reply_to.startswith(TEMP_PREFIX):
            properties.reply_to = self._temporary_queue(properties.reply_to)
        if destination.kind == QUEUE and destination.name not in self._known:
            self._known.declare(channel, declaration(frame, destination.name, COMPARED))
        return self._amqp.message(channel, destination.exchange, destination.key, properties, frame.body)

    def needed(self, frame: Frame) -> QueueDeclare | None:
        """What has to be declared should the queue of this message be gone when it is published."""
        destination = parse(frame.need("destination"))
        return declaration(frame, destination.name, COMPARED) if destination.kind == QUEUE else None

    def _temporary_queue(self, destination: str) -> str:
        name = parse(destination).name
        queue = self._temporary.get(name)
        if queue is None:
            queue = self._temporary[name] = self._subscribing.open_temporary(destination)
        return queue

    def forget(self, queue: str) -> None:
        """It is consumed from no more: if it was a temporary one, the next question needs another."""
        self._temporary = {name: each for name, each in self._temporary.items() if each != queue}

    # ---- receipts

    def confirmed(self, tag: int, multiple: bool) -> list[str | None]:
        """The receipts that waited for this; None for each message that asked for none."""
        receipts = self._receipts
        if not multiple:
            return [receipts.pop(tag)] if tag in receipts else []
        tags = []
        for each in receipts:
            if tag and each > tag:
                break
            tags.append(each)
        return [receipts.pop(each) for each in tags]

    @property
    def is_waiting(self) -> bool:
        return bool(self._receipts)


def declaration(frame: Frame, queue: str, names: tuple[str, ...] | None = None) -> QueueDeclare:
    """With the arguments that the frame gives: those of these names, or all that begin with x-. What is not durable is
    the connection's own and goes with it, unless the frame says otherwise."""
    durable = frame.flag("durable", default=True)
    return QueueDeclare(
        queue,
        durable=durable,
        exclusive=frame.flag("exclusive", default=not durable),
        auto_delete=frame.flag("auto-delete", default=not durable),
        arguments=arguments_of(frame, names),
    )


def arguments_of(frame: Frame, names: tuple[str, ...] | None = None) -> Table:
    given = frame.headers.items()
    found = {name: typed(value) for name, value in given if (name.startswith("x-") if names is None else name in names)}
    for name in found:
        refuse_long(f"{frame.command} has a header with a name", name)
    return found


def typed(value: str) -> FieldValue:
    """STOMP knows text alone; arguments are numbers and flags as well."""
    if value in FLAGS:
        return FLAGS[value]
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(value)
    return value
