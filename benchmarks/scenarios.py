"""What is measured, and what is expected of it. The arguments are those of the load generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["rate", "latency", "memory", "connections"]

ACK_MANY = ("--ack-multiple", "100", "--prefetch", "1000")
ACK_EACH = ("--ack-multiple", "1", "--prefetch", "200")
DURABLE = ("--durable", "--persistent", "--confirms", "500", "--ack-multiple", "10", "--prefetch", "500")
FANOUT = ("--exchange", "fanout", "--queues", "10")
TOPIC = ("--exchange", "topic", "--bindings", "1000", "--queues", "10")
TWENTY = ("--producers", "20", "--consumers", "20", "--queues", "20")
SIXTH = 1 / 6


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to measure. Targets compare with RabbitMQ in the same run; none means: measured, not judged."""

    id: str
    title: str
    size: int
    arguments: tuple[str, ...] = ()
    kind: Kind = "rate"
    generator: Literal["amqpbench", "propload"] = "amqpbench"
    rate_at_least: float | None = None  # times RabbitMQ's rate
    cpu_at_most: float | None = None  # part of RabbitMQ's CPU time per message

    def command(self, seconds: float) -> list[str]:
        """The arguments of the generator for one run."""
        return ["--size", str(self.size), *self.arguments, "--warmup", "1", "--seconds", f"{seconds:g}"]


ALL = (
    Scenario("a16", "transient, auto-ack, 16 B", 16, rate_at_least=6, cpu_at_most=SIXTH),
    Scenario("a1k", "transient, auto-ack, 1 KiB", 1024, rate_at_least=6, cpu_at_most=SIXTH),
    Scenario("a64k", "transient, auto-ack, 64 KiB", 65536),
    Scenario("a16b1", "a16, one message per send", 16, ("--batch", "1"), rate_at_least=3, cpu_at_most=SIXTH),
    Scenario("b16", "ack every 100, prefetch 1000, 16 B", 16, ACK_MANY, rate_at_least=4, cpu_at_most=SIXTH),
    Scenario("b1k", "ack every 100, prefetch 1000, 1 KiB", 1024, ACK_MANY),
    Scenario("c16", "ack each, prefetch 200, 16 B", 16, ACK_EACH, rate_at_least=4, cpu_at_most=SIXTH),
    Scenario("c1k", "ack each, prefetch 200, 1 KiB", 1024, ACK_EACH),
    Scenario("d16", "durable, persistent, confirms, 16 B", 16, DURABLE),
    Scenario("d1k", "durable, persistent, confirms, 1 KiB", 1024, DURABLE),
    Scenario("d64k", "durable, persistent, confirms, 64 KiB", 65536, DURABLE),
    Scenario("e16", "fanout to 10 queues, 16 B", 16, FANOUT, rate_at_least=10, cpu_at_most=SIXTH),
    Scenario("e1k", "fanout to 10 queues, 1 KiB", 1024, FANOUT),
    Scenario("f16", "topic, 1000 bindings, 16 B", 16, TOPIC, rate_at_least=10, cpu_at_most=SIXTH),
    Scenario("g16", "20 producers, consumers, queues, 16 B", 16, TWENTY, rate_at_least=4, cpu_at_most=SIXTH),
    Scenario("g1k", "20 producers, consumers, queues, 1 KiB", 1024, TWENTY),
    Scenario("props", "unique message_id, three headers, 64 B", 64, generator="propload", rate_at_least=4),
    Scenario("t1k", "5,000/s transient, 1 KiB", 1024, ("--rate", "5000"), kind="latency"),
    Scenario("h1k", "5,000/s durable, confirms, 1 KiB", 1024, (*DURABLE, "--rate", "5000"), kind="latency"),
    Scenario("mem", "1,000,000 messages of 100 B queued", 100, kind="memory"),
    Scenario("conns", "2,000 idle connections", 16, kind="connections"),
)
BY_ID = {scenario.id: scenario for scenario in ALL}
# Without --scenarios. The durable ones (d, h) are measured on demand until messages are kept on disk.
DEFAULT = tuple(scenario.id for scenario in ALL if not scenario.id.startswith(("d", "h")))

QUEUED_MESSAGES = 1_000_000
HELD_CONNECTIONS = 2_000
IDLE_RSS_MB = 60
QUEUED_RSS_MB = 500
CONNECTION_KB = 50
LATENCY_JUDGED = frozenset({"t1k"})  # p99 below RabbitMQ's


def chosen(names: str | None) -> list[Scenario]:
    """The scenarios of a comma-separated list; ValueError names what is unknown."""
    wanted = names.split(",") if names else list(DEFAULT)
    unknown = [name for name in wanted if name not in BY_ID]
    if unknown:
        raise ValueError(f"unknown scenarios: {', '.join(unknown)}; there are: {', '.join(BY_ID)}")
    return [BY_ID[name] for name in wanted]
