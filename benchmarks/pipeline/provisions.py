"""The brokers of these benchmarks, with what the scenarios need in them: streams behind one exchange, and queues.

Nothing could set a policy over AMQP: ours is written into the data directory by a broker inside a process of its own,
before the one that is measured starts.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from benchmarks.brokers import Broker, BrokerFailed, Leveret

SHARDS = 4
SHARDED = "bench."  # exchanges of ours whose name begins so stand for streams
HTTP_URL = re.compile(r"http://[^\s\x1b'\"]+")
PREPARE_SECONDS = 60
COUNT_SECONDS = 30
POLICY = """
import sys
from pathlib import Path
from leveret.config import Settings
from leveret.embedded import Broker
settings = Settings(amqp_port=0, http_port=None, stomp_port=None, data_dir=Path(sys.argv[1]))
definition = {"shards-per-node": int(sys.argv[3]), "shard-queue-type": "stream"}
with Broker(settings) as broker:
    broker.vhost().set_policy("streams", "^" + sys.argv[2].replace(".", "[.]"), definition, apply_to="exchanges")
"""


class LeveretWithHttp(Leveret):
    """With its HTTP port open, and a policy that makes exchanges named `bench.*` super streams."""

    http_port = "0"

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        super().__init__(directory, python)
        self.endpoint = ""

    def start(self) -> None:
        data = self.directory / "data"
        if not data.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            command = [self._python, "-c", POLICY, str(data), SHARDED, str(SHARDS)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PREPARE_SECONDS, check=False)
            if done.returncode:
                raise BrokerFailed(f"the policy for super streams cannot be set:\n{done.stderr[-2000:]}")
        super().start()
        match = HTTP_URL.search(self._log.read_text(errors="replace"))
        if match is None:
            raise BrokerFailed(f"{self.name} names no HTTP port:\n{self._log.read_text(errors='replace')[-2000:]}")
        self.endpoint = match.group().rstrip("/")


@contextmanager
def channel_to(broker: Broker) -> Iterator[BlockingChannel]:
    """A channel for what is not measured: declaring, counting, deleting."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def declare_super_stream(broker: Broker, name: str) -> None:
    with channel_to(broker) as channel:
        channel.exchange_declare(name, "x-modulus-hash", durable=True)


def declare_queue(broker: Broker, name: str, arguments: Mapping[str, object] | None = None) -> None:
    with channel_to(broker) as channel:
        channel.queue_declare(name, durable=True, arguments=dict(arguments or {}))


def declare_outlet(broker: Broker, exchange: str, queue: str, kind: str) -> None:
    """A fanout exchange with one durable queue behind it."""
    with channel_to(broker) as channel:
        channel.exchange_declare(exchange, "fanout", durable=True)
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        channel.queue_bind(queue, exchange)


def wait_for_messages(broker: Broker, queues: Sequence[str], number: int) -> None:
    """Until the queues hold so many: RabbitMQ counts those of streams now and then, and ours are written behind."""
    deadline = time.monotonic() + COUNT_SECONDS
    with channel_to(broker) as channel:
        while (found := sum(_count(channel, queue) for queue in queues)) != number:
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{', '.join(queues)} of {broker.name}: {found} messages, not {number}")
            time.sleep(0.1)


def _count(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, durable=True, passive=True).method.message_count)
