"""A running broker as tests of the pipeline use it: queues over AMQP, questions over HTTP."""

from __future__ import annotations

import itertools
import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import pika

STREAM = {"x-queue-type": "stream"}


class SparkBroker:
    """``endpoint`` for Spark, ``channel`` for the rest; every name that ``name`` gives is new."""

    def __init__(self, amqp: str, http: str) -> None:
        self.endpoint = http.rstrip("/")
        self.amqp = amqp
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._connection = pika.BlockingConnection(pika.URLParameters(f"{self.amqp}?heartbeat=0"))
        self.channel = self._connection.channel()
        self.channel.confirm_delivery()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection.is_open:
            self._connection.close()

    def name(self, stem: str) -> str:
        return f"{stem}-{next(self._numbers)}"

    def queue(self, stem: str, bodies: Iterable[bytes | str] = (), **arguments: object) -> str:
        """A durable queue with these messages."""
        name = self.name(stem)
        self.channel.queue_declare(name, durable=True, arguments={k.replace("_", "-"): v for k, v in arguments.items()})
        self.publish(name, bodies)
        return name

    def stream(self, stem: str, bodies: Iterable[bytes | str] = (), **arguments: object) -> str:
        return self.queue(stem, bodies, **STREAM, **arguments)

    def publish(
        self, key: str, bodies: Iterable[bytes | str], exchange: str = "", headers: Mapping[str, object] | None = None
    ) -> None:
        """Persistent and confirmed."""
        properties = pika.BasicProperties(delivery_mode=2, headers=dict(headers) if headers else None)
        for body in bodies:
            self.channel.basic_publish(exchange, key, body, properties, mandatory=True)

    def declare_again(self, stream: str) -> None:
        """Delete a stream and declare it anew; its offsets begin at 0."""
        self.channel.queue_delete(stream)
        self.channel.queue_declare(stream, durable=True, arguments=STREAM)

    def bodies(self, queue: str) -> list[bytes]:
        """Everything in a classic queue, taken from it."""
        taken = []
        while True:
            frame, _, body = self.channel.basic_get(queue, auto_ack=True)
            if frame is None:
                return taken
            taken.append(body)

    def ask(self, method: str, path: str, value: object = None, **query: object) -> dict[str, Any]:
        """One request to the pipeline's part of the API; path as in ``%2F/sources``."""
        url = f"{self.endpoint}/api/pipeline/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if value is None else json.dumps(value).encode()
        login = b64encode(b"guest:guest").decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def eventually(done: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait for what happens in another process, and fail if it does not."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
