"""Pipelines whose input is known: what was sent, how far Spark and the broker have got, and what came out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pika

from tests.support.restartable_broker import KillableBroker

Message = tuple[str, bytes]  # its id and its body


class Received(NamedTuple):
    id: str
    body: bytes
    headers: dict[str, str]


@dataclass
class Pipeline:
    """From a source to an exchange of its name, with a queue behind it; ``sent`` is all that was published so far."""

    name: str
    checkpoint: Path
    kind: str = "stream"
    guarantee: str = "exactly-once"
    rows_in_batch: int = 600
    body_bytes: int = 1500
    each_batch: bool = False  # written in update mode, by publish_each_batch
    signed: bool = False  # rows name by headers the processes that handled them
    is_first: bool = False  # runs to its end before the other pipelines start, without failpoints
    sent: list[Message] = field(default_factory=list)

    @property
    def input(self) -> str:
        return f"{self.name}-in"

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    def declare(self, broker: KillableBroker) -> None:
        with broker.connect() as known:
            channel = known.channel
            channel.exchange_declare(self.name, "fanout", durable=True)
            channel.queue_declare(self.output, durable=True)
            channel.queue_bind(self.output, self.name)
            if self.kind == "classic":
                channel.queue_declare(self.input, durable=True)
                return
            channel.exchange_declare(self.input, "direct", durable=True, arguments={"x-super-stream": True})
            for shard in ("0", "1"):
                queue = f"{self.input}-{shard}"
                channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
                channel.queue_bind(queue, self.input, shard)

    def publish(self, broker: KillableBroker, number: int) -> None:
        """Persistent, in one transaction: all of it is there when this returns."""
        new = [self._message(len(self.sent) + n) for n in range(number)]
        with broker.connect() as known:
            channel = pika.BlockingConnection(pika.URLParameters(f"{known.amqp}?heartbeat=0")).channel()
            channel.tx_select()
            for n, (id_, body) in enumerate(new):
                exchange, key = ("", self.input) if self.kind == "classic" else (self.input, str(n % 2))
                channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=2, message_id=id_))
            channel.tx_commit()
            channel.connection.close()
        self.sent += new

    def _message(self, number: int) -> Message:
        return f"{self.name}-{number}", b"%s %d " % (self.name.encode(), number) + b"." * self.body_bytes

    def plan(self) -> dict[str, Any]:
        source = {"consumerName": self.name, "maxOffsetsPerTrigger": str(self.rows_in_batch)}
        if self.kind == "classic":
            source |= {"queue": self.input}
        else:
            source |= {"superStream": self.input, "startingOffsets": "earliest"}
        sink = {"exchange": self.name, "guarantee": self.guarantee}
        chosen = {name: getattr(self, name) for name in ("name", "each_batch", "signed", "is_first")}
        return chosen | {"source": source, "sink": sink, "checkpoint": str(self.checkpoint)}

    # ---- what is known of it

    def transaction(self) -> str:
        id_: str = json.loads((self.checkpoint / "metadata").read_text())["id"]
        return id_

    def last_planned(self) -> int:
        return self._last("offsets")

    def last_finished(self) -> int:
        return self._last("commits")

    def _last(self, folder: str) -> int:
        names = [path.name for path in (self.checkpoint / folder).glob("*")]
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def last_committed(self, broker: KillableBroker) -> int:
        last = broker.ask("commits", transaction=self.transaction())["last_batch"]
        return -1 if last is None else last

    def staged(self, broker: KillableBroker) -> Counter[int]:
        """Messages by batch."""
        found: Counter[int] = Counter()
        for stage in broker.ask("stages")["stages"]:
            if stage["transaction"] == self.transaction():
                found[stage["batch"]] += stage["messages"]
        return found

    def leased(self, broker: KillableBroker) -> int:
        return sum(lease["messages"] for lease in broker.ask("leases")["leases"] if lease["queue"] == self.input)

    def waiting(self, broker: KillableBroker) -> int:
        with broker.connect() as known:
            number: int = known.channel.queue_declare(self.output, passive=True).method.message_count
        return number

    def received(self, broker: KillableBroker) -> list[Received]:
        """All that is in the queue behind the exchange, taken from it over AMQP."""
        found: list[Received] = []
        number = self.waiting(broker)
        with broker.connect() as known:
            known.channel.basic_qos(prefetch_count=1000)
            if number:
                for _, properties, body in known.channel.consume(self.output, auto_ack=True, inactivity_timeout=60):
                    assert body is not None, f"{number} messages were promised, {len(found)} came"
                    found.append(Received(properties.message_id, body, properties.headers or {}))
                    if len(found) == number:
                        break
                known.channel.cancel()
        assert self.waiting(broker) == 0
        return found

    def assert_once(self, received: Sequence[Received]) -> None:
        wanted, found = Counter(self.sent), Counter(message[:2] for message in received)
        lost, surplus = wanted - found, found - wanted
        assert not lost, f"{self.name}: {lost.total()} of {len(self.sent)} messages are lost, {_few(lost)}"
        assert not surplus, f"{self.name}: {surplus.total()} messages came twice or from nowhere, {_few(surplus)}"

    def assert_nothing_left_over(self, broker: KillableBroker) -> None:
        assert not self.staged(broker)
        if self.kind == "classic":
            assert self.leased(broker) == 0
            assert broker.ask("sources", queue=self.input)["sources"][0]["messages"] == 0


def _few(messages: Counter[Message]) -> str:
    return f"the first are {sorted(id_ for id_, _ in messages)[:5]}"
