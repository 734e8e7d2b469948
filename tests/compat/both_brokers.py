"""One scenario, lived through with RabbitMQ and with Leveret: what a client sees must be the same.

def scenario(stage: Stage) -> object: ...
assert_same(scenario, rabbitmq_url, leveret_url)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

PATIENCE = 60.0


class Seen(NamedTuple):
    """A message as a client got it. Names of queues are those of the scenario, moments are only there or not."""

    body: bytes
    exchange: str
    key: str
    redelivered: bool
    headers: object
    expiration: str | None
    mode: int | None


class Stage:
    """What a scenario plays on: names are its own, whatever else the broker holds."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.connection = connection
        self.channel: BlockingChannel = connection.channel()
        self._prefix = f"{uuid4().hex}."
        self._queues: list[str] = []
        self._exchanges: list[str] = []

    def name(self, name: str) -> str:
        return name and self._prefix + name

    def queue(self, name: str, **arguments: object) -> None:
        """Arguments are named without x- and with underscores; those that name something are made this stage's own."""
        durable = bool(arguments.pop("durable", False))
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        for key in ("x-dead-letter-exchange", "x-dead-letter-routing-key"):
            if table.get(key):
                table[key] = self.name(str(table[key]))
        self.channel.queue_declare(self.name(name), durable=durable, arguments=table)
        self._queues.append(self.name(name))

    def exchange(self, name: str, kind: str, *bound: str, key: str = "") -> None:
        self.channel.exchange_declare(self.name(name), kind)
        self._exchanges.append(self.name(name))
        for queue in bound:
            self.channel.queue_bind(self.name(queue), self.name(name), key and self.name(key))

    def publish(self, key: str, body: bytes, exchange: str = "", **properties: Any) -> bool:
        """Whether it was confirmed, if the channel is in confirm mode."""
        try:
            self.channel.basic_publish(
                self.name(exchange), self.name(key), body, pika.BasicProperties(**properties) if properties else None
            )
        except NackError:
            return False
        return True

    def get(self, queue: str, *, auto_ack: bool = True) -> Seen | None:
        """The first message, now."""
        method, properties, body = self.channel.basic_get(self.name(queue), auto_ack)
        if method is None:
            return None
        self.tag = method.delivery_tag
        return self._seen(method, properties, body)

    def wait(self, queue: str, *, auto_ack: bool = True) -> Seen:
        """The first message, as soon as there is one."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.get(queue, auto_ack=auto_ack)
            if found is not None:
                return found
            self.connection.process_data_events(0.01)
        raise AssertionError(f"nothing comes to {queue}")

    def until(self, condition: Callable[[], bool]) -> None:
        """Handle what the broker sends until the condition holds, for ``PATIENCE`` at most."""
        end = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < end:
            self.connection.process_data_events(0.01)

    def reject(self, *, requeue: bool = False) -> None:
        self.channel.basic_reject(self.tag, requeue)

    def drained(self, queue: str) -> list[bytes]:
        """Bodies of all that waits."""
        bodies = []
        while (found := self.get(queue)) is not None:
            bodies.append(found.body)
        return bodies

    def count(self, queue: str) -> int:
        return int(self.channel.queue_declare(self.name(queue), passive=True).method.message_count)

    def counts(self, number: int, *queues: str) -> list[int]:
        """How many wait in each, as soon as all of them are ``number`` together."""
        end = time.monotonic() + PATIENCE
        counts = [self.count(queue) for queue in queues]
        while sum(counts) != number and time.monotonic() < end:
            self.connection.process_data_events(0.01)
            counts = [self.count(queue) for queue in queues]
        return counts

    def refusal(self, declare: Callable[[], object]) -> int | None:
        """The code with which the broker closes the channel; None if it does not."""
        try:
            declare()
        except ChannelClosedByBroker as error:
            self.channel = self.connection.channel()
            return int(error.reply_code)
        return None

    def _seen(self, method: Any, properties: pika.BasicProperties, body: bytes) -> Seen:
        return Seen(
            body,
            self._own(method.exchange),
            self._own(method.routing_key),
            method.redelivered,
            self._plain(properties.headers),
            properties.expiration,
            properties.delivery_mode,
        )

    def _own(self, text: str) -> str:
        return text.removeprefix(self._prefix)

    def _plain(self, value: object) -> object:
        """With types told, names shortened and moments left out."""
        if isinstance(value, dict):
            return {key: self._plain(each) for key, each in sorted(value.items())}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if isinstance(value, str):
            return self._own(value)
        if isinstance(value, datetime):
            return "a moment"
        return value if value is None else (type(value).__name__, value)

    def clear(self) -> None:
        channel = self.connection.channel()
        for queue in self._queues:
            channel.queue_delete(queue)
        for exchange in self._exchanges:
            channel.exchange_delete(exchange)


Scenario = Callable[[Stage], object]


def lived_through(scenario: Scenario, url: str) -> object:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    stage = Stage(connection)
    try:
        return scenario(stage)
    finally:
        stage.clear()
        connection.close()
