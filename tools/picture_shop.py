"""Example data for the screenshots of the guide: a shop with some minutes of traffic.

The broker's clock begins in the past and is moved to the present step by step, while real clients publish, consume and
reject. The charts are full after seconds, and every number on the pages comes from real messages, except for those of
the Spark query, whose reports are sent without Spark.
"""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika

import leveret
from leveret.clock import Clock
from leveret.config import Settings

STEPS = 130
BATCHES = 45
SECONDS = 5  # of the broker's time in each step
CITIES = ("Ghent", "Turin", "Porto", "Graz", "Malmö", "Lyon")
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
BOUND = {
    "orders": ("order.#", TO_DEAD),
    "invoices": ("order.paid", TO_DEAD),
    "mails": ("order.paid", {"x-message-ttl": 240_000, **TO_DEAD}),
    "parcels": ("parcel.*", {"x-max-priority": 5}),
    "returns": ("order.returned", {}),
    "clicks": ("click.*", {"x-queue-type": "stream"}),
}


class LateClock(Clock):
    """The system clock, minus the time that the steps add."""

    def wall(self) -> float:
        return super().wall() - STEPS * SECONDS


class Client:
    """A connection with a name."""

    def __init__(self, broker: leveret.Broker, name: str) -> None:
        parameters = pika.URLParameters(f"{broker.amqp_url}?heartbeat=0")
        parameters.client_properties = {"connection_name": name}
        self.connection = pika.BlockingConnection(parameters)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self._held: deque[tuple[int, bytes]] = deque()

    def publish(self, key: str, what: dict[str, Any], headers: dict[str, Any] | None = None) -> None:
        properties = pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=f"{key}-{what['id']}", headers=headers
        )
        self.channel.basic_publish("shop", key, json.dumps(what, ensure_ascii=False).encode(), properties)

    def consume(self, queue: str, tag: str, prefetch: int) -> None:
        def take(channel: object, method: Any, properties: object, body: bytes) -> None:
            self._held.append((method.delivery_tag, body))

        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.basic_consume(queue, take, consumer_tag=tag)

    def work(self, most: int) -> None:
        """Acknowledges this many messages; rejects orders without a city."""
        self.connection.process_data_events(0)
        for _ in range(min(most, len(self._held))):
            tag, body = self._held.popleft()
            if json.loads(body).get("city") is None:
                self.channel.basic_nack(tag, requeue=False)
            else:
                self.channel.basic_ack(tag)
        self.connection.process_data_events(0)


def build(client: Client) -> None:
    channel = client.channel
    channel.exchange_declare("shop", "topic", durable=True)
    channel.exchange_declare("partners", "fanout", durable=True)
    channel.exchange_bind("partners", "shop", "parcel.#")
    channel.queue_declare("dead", durable=True)
    for name, (key, arguments) in BOUND.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind(name, "shop", key)


def sell(checkout: Client, step: int, chance: random.Random) -> None:
    """The messages of one step: a growing number, with waves."""
    for number in range(4 + step // 20 + step % 6):
        order = {"id": step * 100 + number, "city": chance.choice(CITIES), "total": chance.randrange(900, 20_000) / 100}
        if chance.random() < 0.02:
            order["city"] = None
            checkout.publish("order.paid", order, {"x-exception-message": "no city in the address"})
        else:
            checkout.publish("order.paid", order, {"customer": chance.choice(("new", "known"))})
        checkout.publish("click.buy", {"id": order["id"], "page": "/basket"})
    checkout.publish("parcel.small", {"id": step, "city": chance.choice(CITIES)})
    if step % 9 == 0:
        checkout.publish("order.returned", {"id": step, "city": chance.choice(CITIES), "why": "too small"})


def remind(checkout: Client, broker: leveret.Broker) -> None:
    """Scheduled messages."""
    for hours in (1, 5, 24, 72):
        due = int((broker.node.broker.clock.wall() + hours * 3600) * 1000)
        checkout.publish("order.returned", {"id": hours, "city": "Ghent"}, {"x-deliver-at": due})


def dead_letter_an_order(broker: leveret.Broker) -> str:
    """An order that is requeued once, then rejected and dead-lettered; returns its message-id."""
    client = Client(broker, "client")
    client.channel.queue_declare("gifts", durable=True, arguments=TO_DEAD)
    client.channel.queue_bind("gifts", "shop", "gift.*")
    client.publish("gift.wrapped", {"id": 4711, "city": "Porto"}, {"customer": "known"})
    for requeue, later in ((True, 2), (False, 40)):
        method = client.channel.basic_get("gifts")[0]
        broker.clock.advance(later)
        client.channel.basic_nack(method.delivery_tag, requeue=requeue)
    client.connection.close()
    return "gift.wrapped-4711"


def report_a_query(broker: leveret.Broker) -> None:
    """A query over the stream of clicks, with the reports that LeveretListener sends after each batch."""
    stream = broker.node.broker.vhost("/").queues["clicks"].stream
    assert stream is not None
    end = stream.end_offset
    for step in range(BATCHES):
        behind = (BATCHES - 1 - step) * 6 + step % 7 * 3
        rows = 18 + step % 9 * 2
        took = 820 + step % 5 * 70
        _post(broker, {
            "id": "0f8c3e52-6a51-4d0e-9c41-0d6a4f1f6b7e", "name": "dedup", "run_id": "7c0bf67a", "vhost": "/",
            "state": "running", "batch": step, "rows": rows, "batch_ms": took, "lag": behind,
            "rows_per_second": rows / took * 1000, "input_rows_per_second": 14 + step % 4,
            "sources": [{"description": "leveret", "offset": {"clicks": max(end - behind, 0)}, "lag": behind}],
            "steps": ["dedup: by message-id, within 10 minutes"], "sink": "exchange partners",
            "duration_ms": {"triggerExecution": took, "addBatch": took - 210, "queryPlanning": 90, "walCommit": 60},
            "state_operators": [{"name": "dedupe", "rows": 200 + step * 15, "memory_bytes": 180_000 + step * 900}],
            "counts": {"read": 24 * step, "out": 23 * step, "duplicates": step, "late": 0},
            "spark_ui": "http://spark.example:4040",
        })  # fmt: skip
        broker.clock.advance(2)


def _post(broker: leveret.Broker, report: dict[str, Any]) -> None:
    headers = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}", "Content-Type": "application/json"}
    connection = HTTPConnection(urlsplit(broker.http_url).netloc, timeout=10)
    connection.request("POST", "/api/pipeline/queries", json.dumps(report), headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    connection.close()


class Shop:
    """The clients, and the number of steps so far."""

    def __init__(self, broker: leveret.Broker, leaving: ExitStack) -> None:
        names = ("checkout", "packer", "biller", "mailer")
        self._clients = {name: Client(broker, name) for name in names}
        for client in self._clients.values():
            leaving.callback(client.connection.close)
        self.broker = broker
        self._chance = random.Random(7)
        self._steps = 0
        build(self._clients["checkout"])
        self._clients["packer"].consume("orders", "packer-1", 50)
        self._clients["biller"].consume("invoices", "biller-1", 20)
        self._clients["mailer"].consume("mails", "mailer-1", 3)
        remind(self._clients["checkout"], broker)

    def step(self) -> None:
        """Advances the broker's clock by some seconds."""
        step = self._steps
        sell(self._clients["checkout"], step, self._chance)
        self._clients["packer"].work(7 + step // 20)
        self._clients["biller"].work(6 + step % 5)
        self._clients["mailer"].work(6 + step % 4)
        self._steps += 1
        self.broker.clock.advance(SECONDS)


@contextmanager
def running_shop(data_dir: Path) -> Iterator[Shop]:
    """A broker whose clients are connected and whose clock has reached the present."""
    settings = Settings(
        amqp_port=0, http_port=0, https_port=None, stomp_port=None, data_dir=data_dir, node_name="leveret@shop"
    )
    with leveret.Broker(settings, clock=LateClock()) as broker, ExitStack() as leaving:
        shop = Shop(broker, leaving)
        for _ in range(STEPS):
            shop.step()
        yield shop
