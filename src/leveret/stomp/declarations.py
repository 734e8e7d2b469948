"""The queues that frames declare: with which options, and which of them this connection has declared.

A queue is declared when it is first used, as in RabbitMQ's plugin, and not again unless it has been deleted. So a SEND
need not repeat the arguments of the SUBSCRIBE that declared the queue. The queues of a transaction are checked again at
its commit.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from leveret.session.direct_channel import DirectChannel
from leveret.stomp.errors import refuse_long
from leveret.stomp.frame import FLAGS, Frame
from leveret.wire.fields import FieldValue, Table

MOST = 1_000  # names


class Declaration(NamedTuple):
    """Arguments of DirectChannel.declare_queue."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table


def declaration(frame: Frame, queue: str, arguments: Table) -> Declaration:
    """A queue that is not durable is exclusive and auto-delete, unless the frame has these headers."""
    durable = frame.flag("durable", default=True)
    exclusive = frame.flag("exclusive", default=not durable)
    return Declaration(queue, durable, exclusive, frame.flag("auto-delete", default=not durable), arguments)


def arguments_of(frame: Frame, names: tuple[str, ...] | None = None) -> Table:
    """The headers of these names, or all that begin with x-."""
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


class KnownQueues:
    """The queues that one connection has declared; ``existing`` are all queues of the virtual host."""

    __slots__ = ("_existing", "_names")

    def __init__(self, existing: Container[str]) -> None:
        self._existing = existing
        self._names: set[str] = set()

    def __contains__(self, queue: str) -> bool:
        return queue in self._names and queue in self._existing

    def declare(self, channel: DirectChannel, queue: Declaration) -> None:
        channel.declare_queue(*queue)
        if len(self._names) >= MOST:
            self._names.clear()
        self._names.add(queue.name)

    def renew(self, channel: DirectChannel, queue: Declaration) -> None:
        """Declare it again if no queue of this name exists."""
        if queue.name not in self._existing:
            self.declare(channel, queue)
