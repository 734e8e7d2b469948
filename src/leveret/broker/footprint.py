"""The memory that queues, exchanges, bindings and consumers of a virtual host use, and its limit.

The constants are the growth of the resident size of a broker per object, measured with 20,000 of each (priority queues
and streams: 1,000 and 2,000) on CPython 3.11; the sizes of argument tables come on top.
"""

from __future__ import annotations

from collections.abc import Mapping

from leveret.broker.memory_users import MemoryShare
from leveret.errors import ResourceFault
from leveret.queues.options import QueueOptions
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.wire.fields import table_memory

QUEUE = 2_200  # measured 3,920 with its one lane; durable 3,990
LANE = 1_800  # measured 458,000 for a queue with 256 priorities
STREAM = 4_000  # measured 6,190 with its lane
EXCHANGE = 700  # measured 680
BINDING = 1_000  # measured 990 at a direct exchange, 1,270 with an argument at a headers exchange
WORD = 400  # of a routing key: measured 380 at a topic exchange, where every word may be a node of its own


class Footprint:
    """Of one virtual host."""

    __slots__ = ("_share", "_vhost")

    def __init__(self, share: MemoryShare, vhost: str) -> None:
        self._share = share
        self._vhost = vhost

    def count(self, size: int) -> None:
        self._share.hold(self._vhost, size)

    def add(self, what: str, size: int) -> None:
        self.refuse(what, size)
        self.count(size)

    def forget(self) -> None:
        """The virtual host is deleted."""
        self._share.forget(self._vhost)

    def refuse(self, what: str, size: int) -> None:
        """ResourceFault if the virtual host may not use this much more."""
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
    return BINDING + binding.key.count(".") * WORD + 2 * table_memory(binding.arguments)  # and their identity
