"""A queue without a name is the one that the channel declared last (AMQP 0-9-1).

The broker knows it for one connection. On another one, and for a queue that was declared on a channel of the client's
own, the name has to be written out.
"""

from __future__ import annotations

from copy import copy

from leveret.wire import methods as m

Named = m.QueueBind | m.QueueUnbind | m.QueuePurge | m.QueueDelete | m.BasicConsume | m.BasicGet


class LastQueue:
    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = ""

    def note(self, answer: object) -> None:
        if isinstance(answer, m.QueueDeclareOk):
            self.name = answer.queue

    def spelled_out(self, method: m.Method) -> m.Method:
        if not self.name or not isinstance(method, Named) or method.queue:
            return method
        whole = copy(method)
        whole.queue = self.name
        if isinstance(whole, m.QueueBind | m.QueueUnbind) and not whole.routing_key:
            whole.routing_key = self.name  # which the rule means, too
        return whole
