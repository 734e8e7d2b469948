"""Line breaks in names: RabbitMQ removes them where queues and exchanges are declared, bound and deleted.

Other methods (basic.publish, consume, get, queue.purge) use names unchanged, as in RabbitMQ.
"""

from __future__ import annotations

from leveret.wire.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)

LINE_BREAKS = str.maketrans("", "", "\r\n")
NAMES: dict[tuple[int, int], tuple[str, ...]] = {
    ExchangeDeclare.id: ("exchange",),
    ExchangeDelete.id: ("exchange",),
    ExchangeBind.id: ("destination", "source"),
    ExchangeUnbind.id: ("destination", "source"),
    QueueDeclare.id: ("queue",),
    QueueDelete.id: ("queue",),
    QueueBind.id: ("queue", "exchange"),
    QueueUnbind.id: ("queue", "exchange"),
}


def remove_line_breaks(method: Method) -> None:
    for field in NAMES.get(method.id, ()):
        setattr(method, field, getattr(method, field).translate(LINE_BREAKS))
