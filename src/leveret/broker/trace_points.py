"""Where a tracer takes hold of a virtual host (broker/tracing.py).

Each is a value that others use anyway, so that nobody has to ask whether there is a tracer: queues that are new are
shown to ``attend``, messages of the process go through ``hand_over``. Routes of channels take ``tracer`` when they are
made, not when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.queues.choosy import hand_over
from leveret.queues.classic import ClassicQueue

if TYPE_CHECKING:
    from leveret.broker.tracing import Tracer

TRACE_EXCHANGE = "amq.rabbitmq.trace"


class TracePoints:
    __slots__ = ("attend", "hand_over", "tracer")

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.attend: Callable[[ClassicQueue], None] = lambda queue: None
        self.hand_over = hand_over
