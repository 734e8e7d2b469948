"""SEND: a destination becomes exchange and routing key, headers become properties, a receipt waits for the confirm.

Queues are declared when they are first used, as in RabbitMQ's plugin. A reply-to of /temp-queue/name is a queue of this
connection: it is declared and consumed here, and reply-to gets its real name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.queues.options import COMPARED
from leveret.stomp.amqp_client import PUBLISHING, AmqpClient
from leveret.stomp.destinations import QUEUE, TEMP_PREFIX, TEMP_QUEUE, parse
from leveret.stomp.errors import StompError, refuse_long
from leveret.stomp.frame import FLAGS, Frame
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.message_headers import properties_of_send
from leveret.wire.fields import FieldValue, Table
from leveret.wire.methods import QueueDeclare

if TYPE_CHECKING:
    from leveret.stomp.subscriptions import Subscriptions


class Sender:
    __slots__ = ("_amqp", "_known", "_next", "_receipts", "_subscriptions", "_temporary", "_wall")

    def __init__(
        self, amqp: AmqpClient, known: KnownQueues, subscriptions: Subscriptions, wall: Callable[[], float]
    ) -> None:
        self._amqp = amqp
        self._known = known
        self._subscriptions = subscriptions
        self._wall = wall
        self._temporary: dict[str, str] = {}  # name in the destination: queue
        self._next = 1  # delivery tag of the next confirm
        self._receipts: dict[int, str | None] = {}  # by delivery tag, unconfirmed; None: no receipt was requested

    def send(self, frame: Frame) -> None:
        self._amqp.write(self.message(frame, PUBLISHING))
        self._receipts[self._next] = frame.get("receipt")
        self._next += 1

    def message(self, frame: Frame, channel: int) -> bytes:
        """The frames of the publish; its queue is declared first."""
        destination = parse(frame.need("destination"))
        if destination.kind == TEMP_QUEUE:
            text = f"{frame.headers['destination'][:256]!r} is not a valid destination for 'SEND'"
            raise StompError("Invalid destination", f"{text}\nIt is for reply-to only: SEND to its /reply-queue")
        properties = properties_of_send(frame, self._wall())
        if properties.reply_to is not None and properties.reply_to.startswith(TEMP_PREFIX):
            properties.reply_to = self._temporary_queue(properties.reply_to)
        if destination.kind == QUEUE and destination.name not in self._known:
            self._known.declare(channel, declaration(frame, destination.name, COMPARED))
        return self._amqp.message(channel, destination.exchange, destination.key, properties, frame.body)

    def needed(self, frame: Frame) -> QueueDeclare | None:
        """The queue to declare if it does not exist any more when the message is published."""
        destination = parse(frame.need("destination"))
        return declaration(frame, destination.name, COMPARED) if destination.kind == QUEUE else None

    def _temporary_queue(self, destination: str) -> str:
        name = parse(destination).name
        queue = self._temporary.get(name)
        if queue is None:
            queue = self._temporary[name] = self._subscriptions.open_temporary(destination)
        return queue

    def forget(self, queue: str) -> None:
        """The queue has no consumer any more. If it was temporary, the next request gets another one."""
        self._temporary = {name: each for name, each in self._temporary.items() if each != queue}

    # ---- receipts

    def confirmed(self, tag: int, multiple: bool) -> list[str | None]:
        """The receipts of the confirmed messages; None for each message without a receipt."""
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
    """With the arguments in the frame: those of these names, or all that begin with x-. A queue that is not durable is
    exclusive and auto-delete, unless the frame has these headers."""
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
    """STOMP headers are text; arguments may be numbers and booleans."""
    if value in FLAGS:
        return FLAGS[value]
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(value)
    return value
