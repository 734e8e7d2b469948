"""Two peers with the same calls: one over a socket with pika, one in the broker's own process.

What holds for one must hold for the other, so most integration tests run with both. An error of the broker is a Refused
with its code and text, whichever way it came.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import pika
import pytest
from pika.exceptions import AMQPChannelError, AMQPError, ChannelClosedByBroker, UnroutableError

import leveret
from leveret.broker.local import Delivered
from leveret.errors import AmqpError
from leveret.queues.classic import ClassicQueue
from leveret.wire.properties import Properties

T = TypeVar("T")
PATIENCE = 60.0  # seconds: far more than anything here takes
PROPERTIES = tuple(Properties.__dataclass_fields__)


def inside(broker: leveret.Broker, name: str) -> ClassicQueue:
    """The queue itself, to be looked at."""
    return broker.call(lambda: broker.node.broker.vhost("/").queue(name))


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


@contextmanager
def refused(code: int, *words: str) -> Iterator[None]:
    """The block must end in a refusal with this code, whose text has all these words."""
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.code == code, caught.value
    for word in words:
        assert word in caught.value.text


@dataclass(frozen=True)
class Got:
    body: bytes
    exchange: str
    key: str
    redelivered: bool
    tag: int
    properties: Mapping[str, object] = field(default_factory=dict)


class Inbox:
    """What a consumer got, in order."""

    def __init__(self, tag: str, settle: Callable[[], None], pump: Callable[[], None] | None = None) -> None:
        self.tag = tag
        self.got: SimpleQueue[Got] = SimpleQueue()
        self._settle = settle
        self._pump = pump  # lets pika read; callbacks in the process come by themselves

    def take(self, number: int = 1) -> list[Got]:
        end = time.monotonic() + PATIENCE
        taken: list[Got] = []
        while len(taken) < number:
            while self._pump is not None and self.got.empty() and time.monotonic() < end:
                self._pump()
            try:
                taken.append(self.got.get(timeout=max(0.0, end - time.monotonic())))
            except Empty:
                raise AssertionError(f"only {len(taken)} of {number} came: {taken}") from None
        return taken

    def bodies(self, number: int) -> list[bytes]:
        return [got.body for got in self.take(number)]

    def rest(self) -> list[bytes]:
        """Everything else that has arrived once the broker has handled all requests."""
        self._settle()
        bodies = []
        while not self.got.empty():
            bodies.append(self.got.get().body)
        return bodies


class NetworkPeer:
    """pika over a socket. Publishes are confirmed, so that a refusal is seen where it belongs."""

    way = "network"

    def __init__(self, url: str) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self._publisher: Any = None
        self.channel: Any = self.connection.channel()

    def _do(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except ChannelClosedByBroker as error:
            self.channel = self.connection.channel()
            raise Refused(error.reply_code, error.reply_text) from None

    def declare_exchange(self, name: str, type: str = "direct", **options: Any) -> None:
        self._do(lambda: self.channel.exchange_declare(name, type, **options))

    def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        self._do(lambda: self.channel.exchange_delete(name, if_unused))

    def declare_queue(self, name: str = "", **options: Any) -> str:
        return str(self._do(lambda: self.channel.queue_declare(name, **options).method.queue))

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        return int(self._do(lambda: self.channel.queue_delete(name, if_unused, if_empty).method.message_count))

    def purge_queue(self, name: str) -> int:
        return int(self._do(lambda: self.channel.queue_purge(name).method.message_count))

    def bind(self, queue: str, exchange: str, key: str = "", arguments: dict[str, object] | None = None) -> None:
        self._do(lambda: self.channel.queue_bind(queue, exchange, key, arguments))

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: dict[str, object] | None = None) -> None:
        self._do(lambda: self.channel.queue_unbind(queue, exchange, key, arguments))

    def publish(self, exchange: str, key: str, body: bytes = b"", **properties: Any) -> bool:
        """Whether it reached a queue."""
        if self._publisher is None or not self._publisher.is_open:
            self._publisher = self.connection.channel()
            self._publisher.confirm_delivery()
        wanted = pika.BasicProperties(**properties) if properties else None
        try:
            self._publisher.basic_publish(exchange, key, body, wanted, mandatory=True)
        except UnroutableError:
            return False
        except ChannelClosedByBroker as error:
            raise Refused(error.reply_code, error.reply_text) from None
        return True

    def consume(self, queue: str, tag: str = "", auto_ack: bool = False, prefetch: int = 0) -> Inbox:
        def arrived(_: object, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
            inbox.got.put(_from_wire(method, properties, body))

        inbox = Inbox(tag, self._settle, lambda: self.connection.process_data_events(0.05))
        if prefetch:
            self.channel.basic_qos(prefetch_count=prefetch)
        options = {"consumer_tag": tag} if tag else {}
        inbox.tag = self._do(lambda: self.channel.basic_consume(queue, arrived, auto_ack, **options))
        return inbox

    def _settle(self) -> None:
        self.connection.channel().close()  # an answer means that everything before it has arrived
        self.connection.process_data_events(0)

    def cancel(self, tag: str) -> None:
        self.channel.basic_cancel(tag)

    def get(self, queue: str, auto_ack: bool = True) -> Got | None:
        method, properties, body = self._do(lambda: self.channel.basic_get(queue, auto_ack))
        return None if method is None else _from_wire(method, properties, body)

    def ack(self, tag: int, multiple: bool = False) -> None:
        self._settling(lambda: self.channel.basic_ack(tag, multiple))

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._settling(lambda: self.channel.basic_nack(tag, multiple, requeue))

    def _settling(self, function: Callable[[], None]) -> None:
        """Settlement has no answer: ask something behind it."""

        def settle() -> None:
            function()
            self.channel.basic_qos(prefetch_count=0)

        try:
            self._do(settle)
        except AMQPChannelError as error:  # pragma: no cover - pika saw the close before it sent
            raise AssertionError(error) from error

    def count(self, queue: str) -> int:
        return int(self._do(lambda: self.channel.queue_declare(queue, passive=True).method.message_count))

    def cut(self) -> None:
        """Drop the connection without any close, as a machine without power does."""
        impl: Any = self.connection._impl
        impl._transport._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(AMQPError):  # it may be gone already
            self.connection.close()


class LocalPeer:
    """The same calls in the process of the broker."""

    way = "process"

    def __init__(self, broker: leveret.Broker, vhost: str = "/") -> None:
        self._broker = broker
        self.vhost = broker.vhost(vhost)

    def _do(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except AmqpError as error:
            raise Refused(error.code, error.reply_text) from None

    def declare_exchange(self, name: str, type: str = "direct", **options: Any) -> None:
        self._do(lambda: self.vhost.declare_exchange(name, type, **options))

    def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        self._do(lambda: self.vhost.delete_exchange(name, if_unused=if_unused))

    def declare_queue(self, name: str = "", **options: Any) -> str:
        return self._do(lambda: self.vhost.declare_queue(name, **options))

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        return self._do(lambda: self.vhost.delete_queue(name, if_unused=if_unused, if_empty=if_empty))

    def purge_queue(self, name: str) -> int:
        return self._do(lambda: self.vhost.purge_queue(name))

    def bind(self, queue: str, exchange: str, key: str = "", arguments: dict[str, object] | None = None) -> None:
        self._do(lambda: self.vhost.bind(queue, exchange, key, arguments))

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: dict[str, object] | None = None) -> None:
        self._do(lambda: self.vhost.unbind(queue, exchange, key, arguments))

    def publish(self, exchange: str, key: str, body: bytes = b"", **properties: Any) -> bool:
        wanted = Properties(**properties) if properties else None
        return self._do(lambda: self.vhost.publish(exchange, key, body, wanted))

    def consume(self, queue: str, tag: str = "", auto_ack: bool = False, prefetch: int = 0) -> Inbox:
        inbox = Inbox(tag, self._settle)

        def arrived(delivered: Delivered) -> None:
            inbox.got.put(_from_process(delivered))

        consume = self.vhost.consume
        inbox.tag = self._do(lambda: consume(queue, arrived, tag, auto_ack=auto_ack, prefetch=prefetch))
        return inbox

    def _settle(self) -> None:
        """A message of our own through the thread of the callbacks: it comes behind everything else."""
        probe = self._broker.vhost()
        name = probe.declare_queue(exclusive=True)
        came: SimpleQueue[Delivered] = SimpleQueue()
        probe.consume(name, came.put, auto_ack=True)
        probe.publish("", name, b"probe")
        came.get(timeout=PATIENCE)
        probe.close()

    def cancel(self, tag: str) -> None:
        self.vhost.cancel(tag)

    def get(self, queue: str, auto_ack: bool = True) -> Got | None:
        delivered = self._do(lambda: self.vhost.get(queue, auto_ack=auto_ack))
        return None if delivered is None else _from_process(delivered)

    def ack(self, tag: int, multiple: bool = False) -> None:
        self._do(lambda: self.vhost.ack(tag, multiple=multiple))

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._do(lambda: self.vhost.nack(tag, multiple=multiple, requeue=requeue))

    def count(self, queue: str) -> int:
        return self._do(lambda: self.vhost.message_count(queue))

    def close(self) -> None:
        self.vhost.close()


Peer = NetworkPeer | LocalPeer


def _from_wire(method: Any, properties: pika.BasicProperties, body: bytes) -> Got:
    values = {name: getattr(properties, name) for name in PROPERTIES if getattr(properties, name) is not None}
    return Got(body, method.exchange, method.routing_key, method.redelivered, method.delivery_tag, values)


def _from_process(delivered: Delivered) -> Got:
    values = {name: value for name in PROPERTIES if (value := getattr(delivered.properties, name)) is not None}
    tag = delivered.delivery_tag
    return Got(delivered.body, delivered.exchange, delivered.routing_key, delivered.redelivered, tag, values)
