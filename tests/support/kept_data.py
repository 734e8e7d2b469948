"""What the archives in tests/fixtures contain, and how they are written.

`python -m tests.support.kept_data SOURCE ARCHIVE` runs the broker of the source tree SOURCE (the `src` of a checkout of
any commit), puts everything below into it, stops it and packs its data directory.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys
import tarfile
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.request import Request, urlopen

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess

LARGE = b"leaf " * 40_000  # more than one frame
DUE = 4_102_444_800_000  # 2100-01-01: x-deliver-at of the scheduled message
PROPERTIES = pika.BasicProperties(
    delivery_mode=2,
    content_type="application/json",
    correlation_id="17",
    headers={"number": 5, "large": 1 << 40, "text": "tea", "list": [1, True], "table": {"price": 250}},
)
PERSISTENT = pika.BasicProperties(delivery_mode=2)
OBJECTS: dict[str, dict[str, Any]] = {
    "/api/vhosts/shop": {"description": "the shop"},
    "/api/users/till": {"password": "green tea", "tags": "monitoring"},
    "/api/permissions/shop/till": {"configure": "^till", "write": "orders", "read": ".*"},
    "/api/topic-permissions/shop/till": {"exchange": "amq.topic", "write": "^order", "read": "^order"},
    "/api/policies/shop/short": {"pattern": "^short", "definition": {"max-length": 9}, "apply-to": "queues"},
    "/api/operator-policies/shop/cap": {"pattern": "^short", "definition": {"max-length": 5}, "apply-to": "queues"},
    "/api/vhost-limits/shop/max-queues": {"value": 50},
    "/api/user-limits/till/max-channels": {"value": 20},
    "/api/global-parameters/colour": {"value": {"name": "green"}},
    "/api/exchanges/shop/events": {"type": "headers", "durable": True, "arguments": {"alternate-exchange": "lost"}},
    "/api/queues/shop/short": {"durable": True, "arguments": {"x-max-priority": 3}},
}


@contextlib.contextmanager
def channel_to(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        connection.close()


def http_request(http: str, path: str, body: dict[str, Any] | None = None, login: str = "guest:guest") -> Any:
    """GET, or PUT with a body."""
    credentials = b64encode(login.encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(http.rstrip("/") + path, data, headers, method="GET" if body is None else "PUT")) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def fill_by_amqp(url: str) -> None:
    """What the first durable store could keep."""
    with channel_to(url) as channel:
        channel.exchange_declare("orders", "topic", durable=True)
        for name, arguments in {"plain": {}, "priority": {"x-max-priority": 9}, "acknowledged": {}}.items():
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_declare("transient", durable=False, exclusive=False)
        channel.queue_bind("plain", "orders", "order.#", {"note": "kept"})
        for number in range(20):
            channel.basic_publish("", "plain", b"message %d" % number, PERSISTENT)
            channel.basic_publish("", "acknowledged", b"message %d" % number, PERSISTENT)
        channel.basic_publish("orders", "order.new", b'{"tea": 1}', PROPERTIES)
        channel.basic_publish("", "plain", LARGE, PERSISTENT)
        channel.basic_publish("", "plain", b"transient", pika.BasicProperties(delivery_mode=1))
        for priority in (1, 9, 5):
            properties = pika.BasicProperties(delivery_mode=2, priority=priority)
            channel.basic_publish("", "priority", b"priority %d" % priority, properties)
        for _ in range(18):
            method, _, _ = channel.basic_get("acknowledged")
            channel.basic_ack(method.delivery_tag)


def fill_features(amqp: str, http: str) -> None:
    """Streams, schedules, dead letters, delivery counts, and everything that is defined over HTTP."""
    for path, body in OBJECTS.items():
        http_request(http, path, body)
    with channel_to(amqp) as channel:
        channel.exchange_bind("amq.headers", "orders", "order.#")
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(10):
            channel.basic_publish("", "log", b"entry %d" % number, PERSISTENT)
        channel.basic_publish(
            "", "plain", b"scheduled", pika.BasicProperties(delivery_mode=2, headers={"x-deliver-at": DUE})
        )
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("dead", durable=True)
        channel.queue_declare("refused", durable=True, arguments=dead)
        channel.queue_declare("counted", durable=True, arguments={"x-delivery-limit": 1000})
        for name in ("refused", "counted"):
            channel.basic_publish("", name, b"message", PERSISTENT)
            method, _, _ = channel.basic_get(name)
            channel.basic_reject(method.delivery_tag, requeue=name == "counted")
        read_log(channel, count=4, offset="first")
        fill_mixed(channel.connection.channel())


def fill_mixed(channel: BlockingChannel) -> None:
    """Without waiting for confirms: messages with different routing keys, which share records of the journal."""
    channel.queue_declare("mixed", durable=True)
    channel.queue_bind("mixed", "orders", "mixed.*")
    for number in range(200):
        channel.basic_publish("orders", f"mixed.{number}", b"mixed %d" % number, PERSISTENT)


def read_log(channel: BlockingChannel, count: int, offset: str) -> list[bytes]:
    """As the named consumer, whose offset the broker stores."""
    arguments = {"x-stream-consumer": "reader", "x-stream-offset": offset}
    channel.basic_qos(prefetch_count=count)
    found = []
    for method, _, body in channel.consume("log", arguments=arguments, inactivity_timeout=60):
        assert method is not None, f"{len(found)} of {count} entries"
        found.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def messages_of(channel: BlockingChannel, queue: str) -> list[tuple[pika.BasicProperties, bytes]]:
    """All ready messages; they are requeued when the channel ends."""
    found = []
    while (answer := channel.basic_get(queue))[0] is not None:
        found.append(answer[1:])
    return found


class FirstBroker(BrokerProcess):
    """Of the first source with a store, which had no HTTP yet."""

    def begin(
        self, arguments: Sequence[str], log: BinaryIO, environ: Mapping[str, str], before: Callable[[], None] | None
    ) -> subprocess.Popen[bytes]:
        at = arguments.index("--https-port")
        return super().begin([*arguments[:at], *arguments[at + 2 :]], log, environ, before)


def make(source: Path, archive: Path) -> None:
    """Runs the broker of ``source``; one without HTTP gets what AMQP can define."""
    has_http = any((source / "leveret" / name).exists() for name in ("management", "http"))
    with tempfile.TemporaryDirectory() as name:
        folder, environ = Path(name), {"PYTHONPATH": str(source.resolve())}
        kind, flags = (BrokerProcess, ("--http-port", "0")) if has_http else (FirstBroker, ())
        with kind(folder, *flags, environ=environ) as serving:
            fill_by_amqp(serving.url("amqp"))
            if has_http:
                fill_features(serving.url("amqp"), serving.url("http"))
            serving.terminate()
            assert serving.exit_code(30) == 0, serving.log()
        with gzip.GzipFile(archive, "wb", 9, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(folder / "data", arcname=".", filter=without_owner)


def without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
