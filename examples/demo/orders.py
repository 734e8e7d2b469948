"""The shop: customers in four countries, with order rates that vary over time."""

from __future__ import annotations

import json
import math
import random
import threading
import time

import pika

EXCHANGE = "orders"
SHARDS = 3
COUNTRIES = {"de": 5, "fr": 3, "it": 2, "es": 1}
GOODS = {"lettuce": 1.2, "carrots": 2.4, "hay": 9.9, "clover": 3.5, "hutch": 129.0}
SENT = "sent-ms"
TICK = 0.05  # seconds between bursts of a producer


def declare(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    """An exchange over streams: all orders of a customer go to the same one, so they stay in order."""
    channel.exchange_declare(EXCHANGE, "x-modulus-hash", durable=True, arguments={"x-super-stream": True})
    for number in range(SHARDS):
        stream = f"{EXCHANGE}-{number}"
        channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind(stream, EXCHANGE, str(number), arguments={"x-stream-partition-order": number})


def order(dice: random.Random) -> tuple[str, bytes]:
    """A routing key (the customer) and an order."""
    [country] = dice.choices([*COUNTRIES], weights=[*COUNTRIES.values()])
    customer = f"{country}-{min(int(dice.expovariate(1 / 40)), 999)}"  # some order much more often than others
    lines = [{"item": item, "n": dice.randint(1, 5)} for item in dice.sample([*GOODS], dice.randint(1, 3))]
    total = round(sum(GOODS[line["item"]] * line["n"] for line in lines), 2)
    body = {"customer": customer, "country": country, "lines": lines, "total": total}
    return customer, json.dumps(body).encode()


def rate_at(seconds: float, mean: int) -> float:
    """Orders a second: it goes up and down, and at half a minute there is a rush."""
    return mean * (1 + 0.4 * math.sin(seconds / 4) + 1.2 * math.exp(-(((seconds - 30) / 4) ** 2)))


class Producer(threading.Thread):
    """Publishes orders until it is stopped; ``sent`` counts them."""

    def __init__(self, url: str, mean: int, seed: int) -> None:
        super().__init__(name=f"producer-{seed}", daemon=True)
        self._url, self._mean, self._dice = url, mean, random.Random(seed)
        self._ended = threading.Event()
        self.sent = 0

    def stop(self) -> None:
        self._ended.set()
        self.join(10)

    def run(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
            channel = connection.channel()
            begun = time.monotonic()
            owed = 0.0
            while not self._ended.wait(TICK):
                owed += TICK * rate_at(time.monotonic() - begun, self._mean)
                self._publish(channel, int(owed))
                owed -= int(owed)
                connection.process_data_events(0)

    def _publish(self, channel: pika.adapters.blocking_connection.BlockingChannel, number: int) -> None:
        for _ in range(number):
            key, body = order(self._dice)
            headers = {SENT: int(time.time() * 1000)}
            properties = pika.BasicProperties(content_type="application/json", delivery_mode=2, headers=headers)
            channel.basic_publish(EXCHANGE, key, body, properties)
            self.sent += 1
