"""A channel for protocols without AMQP frames: the operations of a channel as calls.

Each call is the AMQP method of that name, as a value: interceptors see it, and permissions, limits, statistics and
tracing are the same for all protocols. A subclass delivers by a consumer class of its own and overrides
``send_confirms`` and ``cancelled``.

``reply`` holds the bytes that this protocol sends where AMQP sends declare-ok, consume-ok and so on; empty for none.
They are sent when the effects of the call are as durable as promised, in the order of the calls.
"""

from __future__ import annotations

from collections import deque

from leveret.delivery.unacked import acknowledge, drop, requeue
from leveret.errors import AmqpError
from leveret.routing.bounds import METHOD_STEPS
from leveret.session.acknowledgements import ack, settle_each
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.session.content import publish_content
from leveret.session.transactions import Transaction
from leveret.wire import methods as amqp
from leveret.wire.content import make_content
from leveret.wire.fields import Table
from leveret.wire.properties import Properties


class DirectChannel(Channel):
    __slots__ = ("_commits", "_replies")

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self._replies: deque[bytes] = deque()  # to calls whose handler has not replied
        self._commits: deque[bytes] = deque()  # to commits; replies to other calls may overtake them

    @property
    def is_waiting(self) -> bool:
        """Whether some reply has not been sent."""
        return bool(self._replies or self._commits or self.deferred)

    def _call(self, method: amqp.Method, reply: bytes = b"") -> None:
        (self._commits if method.id == amqp.TxCommit.id else self._replies).append(reply)
        self.connection.broker.routing_work.spent += METHOD_STEPS
        self.handle(method)

    def frames_of(self, reply: amqp.Method) -> bytes:
        return (self._commits if reply.id == amqp.TxCommitOk.id else self._replies).popleft()

    def fail(self, error: AmqpError, method: tuple[int, int]) -> None:
        self.connection.end_with(error)

    def send_frames(self, frames: bytes) -> None:
        if frames or self.deferred:
            super().send_frames(frames)

    # ---- queues

    def declare_queue(
        self, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table | None = None
    ) -> None:
        options = {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
        self._call(amqp.QueueDeclare(name, **options, arguments=arguments))

    def bind_queue(self, queue: str, exchange: str, key: str, arguments: Table) -> None:
        self._call(amqp.QueueBind(queue, exchange, key, arguments=arguments))

    def delete_queue(self, name: str, reply: bytes) -> None:
        self._call(amqp.QueueDelete(name), reply)

    # ---- messages to the broker

    def select_confirms(self) -> None:
        """``send_confirms`` is called for every publish from now on."""
        self.handle(amqp.ConfirmSelect(nowait=True))

    def publish(self, exchange: str, key: str, properties: Properties, body: bytes) -> None:
        content = make_content(properties, body, self.number, self.connection.frame_max)
        publish_content(self, self.routes.lead(exchange, key), content)

    # ---- messages to the client

    def set_prefetch(self, number: int) -> None:
        """Of consumers that subscribe from now on; 0 is unlimited."""
        self._call(amqp.BasicQos(prefetch_count=number))

    def consume(
        self, queue: str, tag: str, *, no_ack: bool, exclusive: bool = False, arguments: Table, reply: bytes = b""
    ) -> None:
        self._call(amqp.BasicConsume(queue, tag, no_ack=no_ack, exclusive=exclusive, arguments=arguments), reply)

    def cancel(self, tag: str, reply: bytes) -> None:
        """Delivers what has arrived already. Delivered messages remain unacknowledged."""
        self._call(amqp.BasicCancel(tag), reply)

    def catch_up(self) -> None:
        """Deliver what has arrived already."""
        for consumer in list(self.consumers.values()):
            consumer.catch_up()

    def settle(self, tags: list[int], *, is_ack: bool, is_requeued: bool = False) -> None:
        """Acknowledge or reject these deliveries, whose tags are in order."""
        method = amqp.BasicAck if is_ack else amqp.BasicNack
        if not self.connection.broker.interceptors.concerns(method.id):
            settle_each(self, tags, acknowledge if is_ack else requeue if is_requeued else drop)
            return
        for tag in tags:
            if is_ack:
                ack(self, amqp.BasicAck(tag))
            else:
                self.handle(amqp.BasicNack(tag, requeue=is_requeued))

    # ---- transactions

    def begin(self) -> None:
        """Publishes, acks and nacks wait for ``commit`` from now on."""
        self.tx = Transaction(self.connection)

    def commit(self, reply: bytes) -> None:
        """All of them or none: an error means that nothing was committed."""
        self._call(amqp.TxCommit(), reply)
        self.tx = None
