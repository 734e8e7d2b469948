"""The hooks of a virtual host that a tracer replaces (broker/tracing.py).

New queues are passed to ``attend``. Routes take ``tracer`` when they are made, not when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.queues.classic import ClassicQueue

if TYPE_CHECKING:
    from leveret.broker.tracing import Tracer

TRACE_EXCHANGE = "amq.rabbitmq.trace"


class TracePoints:
    __slots__ = ("attend", "tracer")

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.attend: Callable[[ClassicQueue], None] = lambda queue: None
