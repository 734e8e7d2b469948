"""A message is a plain tuple ``(content, address, traits)``.  Hot path.

* content: the header frame and the body frames exactly as the publisher sent them, in one ``bytes`` of its own. All
  queues that a message reaches share it; nothing ever changes it.
* address: the exchange and routing key of the publish, with their encoded bytes for every ``basic.deliver``.
* traits: the properties that the broker acts on. Messages without a deadline share constants, one for each
  priority, so that such a message costs only one tuple and one bytes object.

It is a tuple because creating one costs a tenth of creating an object, and fan-out passes one list of messages to all
queues unchanged. State of a single queue (the sequence there, the delivery count) is not in the message: the sequence
follows from the place in the queue's lane, and the count is kept with the delivery.
"""

from __future__ import annotations

from math import inf

from leveret.wire.constants import END_BYTE
from leveret.wire.fields import encode_short

NEVER = inf


class Traits:
    """The properties of a message that the broker acts on."""

    __slots__ = ("deadline", "persistent", "priority")

    def __init__(self, *, persistent: bool = False, deadline: float = NEVER, priority: int = 0) -> None:
        self.persistent = persistent
        self.deadline = deadline
        self.priority = priority

    def expiring(self, deadline: float) -> Traits:
        """The same traits with an earlier deadline."""
        return Traits(persistent=self.persistent, deadline=min(deadline, self.deadline), priority=self.priority)

    def postponed(self, seconds: float) -> Traits:
        """The same traits with a deadline that is ``seconds`` later."""
        return Traits(persistent=self.persistent, deadline=self.deadline + seconds, priority=self.priority)


TRANSIENT = Traits(persistent=False)
PERSISTENT = Traits(persistent=True)
TRANSIENT_BY_PRIORITY = (TRANSIENT, *(Traits(priority=priority) for priority in range(1, 256)))
PERSISTENT_BY_PRIORITY = (PERSISTENT, *(Traits(persistent=True, priority=priority) for priority in range(1, 256)))


class Address:
    """Exchange and routing key of a publish, and the end of every ``basic.deliver`` frame that contains them.

    ``channel`` and ``frame_max`` are the publisher's: if the consumer's are the same (or larger), the stored content
    can be sent unchanged.
    """

    __slots__ = ("channel", "exchange", "frame_max", "key", "tail")

    def __init__(self, exchange: str, key: str, channel: int, frame_max: int) -> None:
        self.exchange = exchange
        self.key = key
        self.channel = channel
        self.frame_max = frame_max
        self.tail = b"\x00" + encode_short(exchange) + encode_short(key) + END_BYTE

    @property
    def tail_again(self) -> bytes:
        """The tail of a redelivery: the same with the redelivered bit set."""
        return b"\x01" + self.tail[1:]


Message = tuple[bytes, Address, Traits]
