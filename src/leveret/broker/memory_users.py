"""Memory used besides the messages in queues, by name. All of it counts in the memory gauge.

Each part of the broker that keeps bytes on behalf of peers has an entry here. There are three kinds:

- ``MemoryUser``: its owner adds and subtracts bytes as they come and go;
- ``MemoryShare``: the same, with a bound. It has a percentage of the memory high watermark, and each owner (a user or a
  virtual host) may hold at most as much as remains for the others. A single owner therefore gets half of the share,
  two get a third each, and the share is never used up. Requests beyond that are refused, so that no peer can raise the
  memory alarm, which would block all publishers, with work that it leaves unfinished;
- a watched entry: a callable that returns the bytes in use, called twice a second (``MemoryUsers.watch``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leveret.backlog.context import MemoryGauge
from leveret.errors import ResourceFault
from leveret.queues.options import QueueOptions
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.wire.fields import table_memory

MESSAGES = "queue_procs"  # RabbitMQ's name in its memory breakdown
LEAST = 32 << 20  # bytes that an owner may always hold, however low the watermark is
UNREAD_PERCENT = 20
QUEUE = 2_200  # measured 3,920 with its one lane; durable 3,990
LANE = 1_800  # measured 458,000 for a queue with 256 priorities
STREAM = 4_000  # measured 6,190 with its lane
EXCHANGE = 700  # measured 680
BINDING = 1_000  # measured 990 at a direct exchange, 1,270 with an argument at a headers exchange
WORD = 400  # of a routing key: measured 380 at a topic exchange, where every word may be a node of its own


class MemoryUser:
    __slots__ = ("_gauge", "bytes")

    def __init__(self, gauge: MemoryGauge) -> None:
        self.bytes = 0
        self._gauge = gauge

    def add(self, size: int) -> None:
        """Count ``size`` more bytes (negative: fewer) as in use."""
        self.bytes += size
        self._gauge.other += size


class MemoryShare(MemoryUser):
    __slots__ = ("_held", "_percent", "_watermark", "is_bounded")

    def __init__(self, gauge: MemoryGauge, watermark: Callable[[], int], percent: int) -> None:
        super().__init__(gauge)
        self.is_bounded = True
        self._percent = percent
        self._watermark = watermark
        self._held: dict[str, int] = {}

    def hold(self, owner: str, size: int, least: int = LEAST) -> bool:
        """Count ``size`` more bytes (negative: fewer) for the owner; whether its total is still within its bound, which
        is never below ``least``."""
        held = self._held.get(owner, 0) + size
        if held:
            self._held[owner] = held
        else:
            self._held.pop(owner, None)
        self.add(size)
        return held <= least or size <= 0 or held <= self._left()

    def fits(self, owner: str, size: int) -> bool:
        """Whether the owner may hold ``size`` more bytes."""
        held = self._held.get(owner, 0) + size
        return not self.is_bounded or held <= LEAST or held <= self._left() - size

    def forget(self, owner: str) -> None:
        self.add(-self._held.pop(owner, 0))

    def _left(self) -> int:
        return self._watermark() * self._percent // 100 - self.bytes


class UnreadOutput(MemoryUser):
    """Bytes written to connections whose clients have not read them. While there are too many (``is_high``), no
    more is written to a connection until its client has read everything that was sent."""

    __slots__ = ("_watermark", "is_high")

    def __init__(self, gauge: MemoryGauge, watermark: Callable[[], int]) -> None:
        super().__init__(gauge)
        self.is_high = False
        self._watermark = watermark

    def add(self, size: int) -> None:
        super().add(size)
        self.is_high = self.bytes > max(LEAST, self._watermark() * UNREAD_PERCENT // 100)


class MemoryUsers:
    def __init__(self, gauge: MemoryGauge, watermark: Callable[[], int]) -> None:
        self._gauge = gauge
        self.definitions = MemoryShare(gauge, watermark, 40)  # queues, exchanges, bindings, consumers; by vhost
        self.unfinished = MemoryShare(gauge, watermark, 50)  # partially received messages; by user
        self.transactions = MemoryShare(gauge, watermark, 30)  # by user
        self.unread = UnreadOutput(gauge, watermark)
        self.routes = MemoryUser(gauge)  # the routes that channels cache
        self._named: dict[str, MemoryUser] = {
            "definitions": self.definitions,
            "unfinished_messages": self.unfinished,
            "transactions": self.transactions,
            "unread_output": self.unread,
            "routes": self.routes,
        }
        self._watched: list[tuple[MemoryUser, Callable[[], int]]] = []

    def watch(self, name: str, read: Callable[[], int]) -> None:
        """Count the bytes that ``read`` returns, under this name. It must be cheap: it is called twice a second."""
        self._named[name] = user = MemoryUser(self._gauge)
        self._watched.append((user, read))

    def read_watched(self) -> None:
        for user, read in self._watched:
            user.add(read() - user.bytes)

    def breakdown(self) -> dict[str, int]:
        """Bytes by name; their sum is the value of the gauge."""
        return {MESSAGES: self._gauge.used, **{name: user.bytes for name, user in self._named.items()}}


class Footprint:
    """The memory that queues, exchanges, bindings and consumers of a virtual host use, and its limit.

    The constants are the growth of the resident size of a broker per object, measured with 20,000 of each (priority
    queues and streams: 1,000 and 2,000) on CPython 3.11; the sizes of argument tables are added.
    """

    __slots__ = ("_share", "_vhost")

    def __init__(self, share: MemoryShare, vhost: str) -> None:
        self._share = share
        self._vhost = vhost

    def count(self, size: int) -> None:
        self._share.hold(self._vhost, size)

    def forget(self) -> None:
        """Release the memory of a deleted virtual host."""
        self._share.forget(self._vhost)

    def refuse(self, what: str, size: int) -> None:
        """ResourceFault if this much more would exceed the limit of the virtual host."""
        if not self._share.fits(self._vhost, size):
            raise ResourceFault(
                f"cannot create {what} in vhost '{self._vhost}': its queues, exchanges, bindings and consumers use all "
                "their share of memory_high_watermark: delete some, or raise it"
            )


def queue_size(options: QueueOptions, arguments: Mapping[str, object]) -> int:
    lanes = (options.max_priority or 0) + 1
    return (STREAM if options.kind == "stream" else QUEUE) + lanes * LANE + table_memory(arguments)


def exchange_size(exchange: Exchange) -> int:
    return EXCHANGE + table_memory(exchange.arguments)


def binding_size(binding: Binding) -> int:
    return BINDING + binding.key.count(".") * WORD + 2 * table_memory(binding.arguments)  # and their hashable form
