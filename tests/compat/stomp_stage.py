"""One scenario in STOMP, lived through with RabbitMQ's plugin and with Leveret: what a client sees is compared.

    def scenario(stage: StompStage) -> object: ...
    assert lived_through(scenario, *rabbitmq) == lived_through(scenario, *leveret)

What comes back is made comparable. Names lose the prefix that makes them the scenario's own. What a broker makes up
becomes its kind in angle brackets. Of an ERROR the headers count, without the length, and the first line of the text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.stomp_client import StompClient, StompFrame, dashed, made

MADE_UP = (
    (re.compile(r"session-[\w-]+"), "<session>"),
    (re.compile(r"(?<=/)(amq\.gen|stomp-temp)-\S+"), "<temporary>"),
)
NOT_COMPARED = {"CONNECTED": ("server",), "ERROR": ("content-length", "receipt-id")}
PROBE = "probe"
PATIENCE = 60.0  # seconds


class Talker(StompClient):
    """A client that finds out whether the broker still talks to it."""

    def greet(self, command: str = "CONNECT", **headers: object) -> StompFrame:
        """Log in with these headers; None takes one away."""
        usual = {"accept-version": "1.2", "login": "guest", "passcode": "guest", "host": "/"}
        given = {name: value for name, value in {**usual, **dashed(headers)}.items() if value is not None}
        self.socket.sendall(made(command, given))
        return self.read()

    def heard(self, *, asked: bool = True) -> list[object]:
        """All that comes until a question is answered that changes nothing, and whether the connection lives."""
        if asked:
            with suppress(OSError):
                self.say("BEGIN", transaction=uuid4().hex, receipt=PROBE)
        frames: list[object] = []
        try:
            while (frame := self.read()).headers.get("receipt-id") != PROBE:
                frames.append(frame)
        except (AssertionError, ConnectionError):
            return [*frames, "closed"]
        return [*frames, "lives"]

    def messages(self, number: int) -> list[StompFrame]:
        frames = [self.read() for _ in range(number)]
        assert all(frame.command == "MESSAGE" for frame in frames), frames
        return frames

    def leave(self) -> None:
        self.sure("DISCONNECT")
        assert self.is_closed()


class StompStage:
    """What a scenario plays on: names are its own, whatever else the broker holds."""

    def __init__(self, stomp_url: str, amqp_url: str) -> None:
        self._url = stomp_url
        self._prefix = f"p{uuid4().hex}."
        self._talkers: list[Talker] = []
        self._connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
        self.channel: BlockingChannel = self._connection.channel()
        self._queues: set[str] = set()
        self._exchanges: set[str] = set()

    # ---- STOMP

    def talker(self) -> Talker:
        """Not logged in."""
        self._talkers.append(Talker(self._url))
        return self._talkers[-1]

    def open(self, version: str = "1.2", **headers: object) -> Talker:
        talker = self.talker()
        answer = talker.greet(accept_version=version, **headers)
        assert answer.command == "CONNECTED", answer
        return talker

    def name(self, name: str = "q") -> str:
        """Of a queue, which is removed at the end."""
        self._queues.add(self._prefix + name)
        return self._prefix + name

    def queue(self, name: str = "q") -> str:
        return f"/queue/{self.name(name)}"

    def topic(self, key: str) -> str:
        return f"/topic/{self._prefix}{key}"

    # ---- AMQP

    def exchange(self, name: str, kind: str) -> str:
        full = self._prefix + name
        self.channel.exchange_declare(full, kind)
        self._exchanges.add(full)
        return full

    def publish(self, name: str, properties: pika.BasicProperties) -> None:
        self.channel.basic_publish("", self.name(name), b"m", properties)

    def count(self, name: str = "q") -> int | str:
        """Messages that wait in a queue, or why nobody can tell."""
        try:
            return int(self.channel.queue_declare(self.name(name), passive=True).method.message_count)
        except ChannelClosedByBroker as error:
            self.channel = self._connection.channel()
            return {404: "no such queue", 405: "somebody's own"}[error.reply_code]

    def comes_to(self, number: int, name: str = "q") -> None:
        """What a connection that is gone had not acked comes back a little later."""
        end = time.monotonic() + PATIENCE
        while self.count(name) != number:
            assert time.monotonic() < end, f"{self.count(name)} messages in {name}, not {number}"
            self._connection.process_data_events(0.01)

    def deleted(self, name: str) -> int:
        """How many messages a queue held when it was deleted, be they held by somebody or not."""
        return int(self.channel.queue_delete(self.name(name)).method.message_count)

    def declared(self, name: str, arguments: dict[str, object] | None = None) -> str:
        """As what a queue was declared: the same declaration passes, or none of them does."""
        if isinstance(found := self.count(name), str):
            return found
        for durable, auto_delete in ((True, False), (False, False), (True, True), (False, True)):
            try:
                self.channel.queue_declare(self.name(name), False, durable, False, auto_delete, arguments)
            except ChannelClosedByBroker as error:
                if error.reply_code != 406:
                    raise
                self.channel = self._connection.channel()
            else:
                return f"{'durable' if durable else 'transient'}{', auto-delete' if auto_delete else ''}"
        return "otherwise"

    def got(self, name: str = "q") -> tuple[object, ...]:
        """The first message, with its properties as AMQP has them. It must be known to be there."""
        method, properties, body = self.channel.basic_get(self.name(name), auto_ack=True)
        given = {name: value for name, value in vars(properties).items() if value is not None and value != {}}
        return method.exchange, method.routing_key, body, given

    # ---- what is compared

    def plain(self, seen: object) -> object:
        if isinstance(seen, StompFrame):
            names = [name for name in seen.headers if name not in NOT_COMPARED.get(seen.command, ())]
            headers = {self._text(name): self._text(seen[name]) for name in sorted(names)}
            body = seen.body.decode("utf-8", "backslashreplace")
            return seen.command, headers, self._text(body.split("\n")[0] if seen.command == "ERROR" else body)
        if isinstance(seen, dict):
            return {self.plain(key): self.plain(value) for key, value in seen.items()}
        if isinstance(seen, list | tuple):
            return [self.plain(each) for each in seen]
        return self._text(seen) if isinstance(seen, str) else seen

    def _text(self, text: str) -> str:
        text = text.replace(self._prefix, "")
        for made_up, kind in MADE_UP:
            text = made_up.sub(kind, text)
        return text

    def clear(self) -> None:
        for talker in self._talkers:
            talker.socket.close()
        channel = self._connection.channel()
        for queue in self._queues:
            try:
                channel.queue_delete(queue)
            except ChannelClosedByBroker:  # it was the own queue of a connection that is on its way out
                channel = self._connection.channel()
        for exchange in self._exchanges:
            channel.exchange_delete(exchange)
        self._connection.close()


Scenario = Callable[[StompStage], object]


def named(message: StompFrame, version: str = "1.2") -> dict[str, object]:
    """How an ACK names it."""
    if version == "1.2":
        return {"id": message["ack"]}
    return {"message-id": message["message-id"], "subscription": message["subscription"]}


def given(stage: StompStage, number: int, version: str = "1.2", **headers: object) -> tuple[Talker, list[StompFrame]]:
    """A subscriber with messages that it has not acked."""
    client = stage.open(version)
    for each in range(number):
        client.say("SEND", b"%d" % each, destination=stage.queue())
    client.say("SUBSCRIBE", destination=stage.queue(), id="s", **headers)
    return client, [client.read() for _ in range(number)]


def left(stage: StompStage, client: Talker, number: int) -> list[tuple[bytes, str]]:
    """So many messages wait when the client has gone; they are taken away."""
    client.leave()
    stage.comes_to(number)
    taker = stage.open()
    taker.say("SUBSCRIBE", destination=stage.queue(), id="left")
    found = [(each.body, each["redelivered"]) for each in taker.messages(number)]
    taker.leave()
    return found


def lived_through(scenario: Scenario, stomp_url: str, amqp_url: str) -> object:
    stage = StompStage(stomp_url, amqp_url)
    try:
        return stage.plain(scenario(stage))
    finally:
        stage.clear()
