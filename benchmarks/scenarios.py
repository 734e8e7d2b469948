"""What is measured, and what is expected of it. The arguments are those of the load generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["rate", "latency", "memory", "backlog", "restart", "connections"]

ACK_MANY = ("--ack-multiple", "100", "--prefetch", "1000")
ACK_EACH = ("--ack-multiple", "1", "--prefetch", "200")
SAFE = ("--durable", "--persistent")
WINDOW_100 = (*SAFE, "--confirms", "100", "--ack-multiple", "10", "--prefetch", "500", "--producers", "20")
WINDOW_1 = (*SAFE, "--confirms", "1", "--ack-multiple", "1", "--prefetch", "500", "--batch", "1")
WINDOW_1_LATE = (*SAFE, "--confirms", "1", "--ack-multiple", "1000", "--prefetch", "2000", "--batch", "1")
DURABLE = ("--durable", "--persistent", "--confirms", "500", "--ack-multiple", "10", "--prefetch", "500")
FANOUT = ("--exchange", "fanout", "--queues", "10")
TOPIC = ("--exchange", "topic", "--bindings", "1000", "--queues", "10")
TWENTY = ("--producers", "20", "--consumers", "20", "--queues", "20")
PRIORITY = ("--load", "priority")
EXPIRATION = ("--load", "expiration")
DEAD_LETTER = ("--load", "dead-letter")
SHARDED = ("--load", "shards")
FULL = ("--load", "max-length")
REFUSING = ("--load", "reject")
SIXTH = 1 / 6


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to measure. Targets compare with RabbitMQ in the same run; none means: measured, not judged."""

    id: str
    title: str
    size: int
    arguments: tuple[str, ...] = ()
    kind: Kind = "rate"
    generator: Literal["amqpbench", "propload", "queueload", "rpcload", "celeryload"] = "amqpbench"
    counts: Literal["received", "sent"] = "received"  # what the rate is a rate of
    rabbitmq_plugins: tuple[str, ...] = ()  # without which RabbitMQ cannot do it
    rate_at_least: float | None = None  # times RabbitMQ's rate
    cpu_at_most: float | None = None  # part of RabbitMQ's CPU time per message
    us_at_most: float | None = None  # microseconds of CPU time per message
    p99_at_most: float = 1  # part of RabbitMQ's p99 of deliveries; that of confirms must be below RabbitMQ's

    @property
    def rate_key(self) -> str:
        """Where the generator's line has the rate."""
        return "recv_rate" if self.counts == "received" else "send_rate"

    def command(self, seconds: float) -> list[str]:
        """The arguments of the generator for one run."""
        return ["--size", str(self.size), *self.arguments, "--warmup", "1", "--seconds", f"{seconds:g}"]


ALL = (
    Scenario("a16", "transient, auto-ack, 16 B", 16, rate_at_least=6, cpu_at_most=SIXTH),
    Scenario("a1k", "transient, auto-ack, 1 KiB", 1024, rate_at_least=6, cpu_at_most=SIXTH),
    Scenario("a64k", "transient, auto-ack, 64 KiB", 65536, rate_at_least=2),
    Scenario(
        "a16b1", "a16, one message per send", 16, ("--batch", "1"), rate_at_least=6, cpu_at_most=SIXTH, us_at_most=2.5
    ),
    Scenario("b16", "ack every 100, prefetch 1000, 16 B", 16, ACK_MANY, rate_at_least=4, cpu_at_most=SIXTH),
    Scenario("b1k", "ack every 100, prefetch 1000, 1 KiB", 1024, ACK_MANY),
    Scenario("c16", "ack each, prefetch 200, 16 B", 16, ACK_EACH, rate_at_least=4, cpu_at_most=SIXTH),
    Scenario("c1k", "ack each, prefetch 200, 1 KiB", 1024, ACK_EACH),
    Scenario("d16", "durable, persistent, confirms, 16 B", 16, DURABLE, rate_at_least=4),
    Scenario("d1k", "durable, persistent, confirms, 1 KiB", 1024, DURABLE, rate_at_least=4),
    Scenario("d64k", "durable, persistent, confirms, 64 KiB", 65536, DURABLE, rate_at_least=2),
    Scenario("d20", "20 producers, window 100, 1 KiB", 1024, WINDOW_100, rate_at_least=4),
    Scenario("dw1", "one producer that waits for each confirm, 16 B", 16, WINDOW_1, rate_at_least=2),
    Scenario("dn1", "dw1 with acks of 1,000: confirms wait for the disk", 16, WINDOW_1_LATE),
    Scenario("e16", "fanout to 10 queues, 16 B", 16, FANOUT, rate_at_least=10, cpu_at_most=SIXTH),
    Scenario("e1k", "fanout to 10 queues, 1 KiB", 1024, FANOUT),
    Scenario("f16", "topic, 1000 bindings, 16 B", 16, TOPIC, rate_at_least=10, cpu_at_most=SIXTH),
    Scenario("g16", "20 producers, consumers, queues, 16 B", 16, TWENTY, rate_at_least=4, cpu_at_most=SIXTH),
    Scenario("g1k", "20 producers, consumers, queues, 1 KiB", 1024, TWENTY),
    Scenario("props", "unique message_id, three headers, 64 B", 64, generator="propload", rate_at_least=4),
    Scenario("prio16", "priority queue, 10 priorities, 64 B", 64, PRIORITY, generator="queueload", rate_at_least=4),
    Scenario("ttl16", "TTL on every message, 64 B", 64, EXPIRATION, generator="queueload", rate_at_least=4),
    Scenario(
        "dlx16", "every message dead-lettered once, 64 B", 64, DEAD_LETTER, generator="queueload", rate_at_least=4
    ),
    Scenario(
        "sh16",
        "16 shards, 1,000 routing keys, 64 B",
        64,
        SHARDED,
        generator="queueload",
        rabbitmq_plugins=("rabbitmq_sharding",),
        rate_at_least=4,
    ),
    Scenario("maxlen16", "published to a full queue, drop-head, 64 B", 64, FULL, generator="queueload", counts="sent"),
    Scenario("reject16", "refused by a full queue, confirms, 64 B", 64, REFUSING, generator="queueload"),
    Scenario("rpc", "calls over direct reply-to, one at a time", 16, generator="rpcload", rate_at_least=3),
    Scenario(
        "celery", "no-op tasks of Celery, one worker", 16, generator="celeryload", rate_at_least=1, cpu_at_most=0.6
    ),
    Scenario("t1k", "5,000/s transient, 1 KiB", 1024, ("--rate", "5000"), kind="latency"),
    Scenario(
        "h1k",
        "5,000/s durable, confirms, 1 KiB",
        1024,
        (*DURABLE, "--rate", "5000"),
        kind="latency",
        cpu_at_most=0.5,
        us_at_most=100,
        p99_at_most=0.2,
    ),
    Scenario("mem", "1,000,000 messages of 100 B queued", 100, kind="memory"),
    Scenario("pmem", "1,000,000 persistent messages of 100 B queued", 100, kind="backlog"),
    Scenario("restart", "kill -9 with 1,000,000 x 1 KiB, to the first delivery", 1024, kind="restart"),
    Scenario("conns", "2,000 idle connections", 16, kind="connections"),
)
BY_ID = {scenario.id: scenario for scenario in ALL}
DEFAULT = tuple(scenario.id for scenario in ALL)

QUEUED_MESSAGES = 1_000_000
HELD_CONNECTIONS = 2_000
IDLE_RSS_MB = 60
QUEUED_RSS_MB = 500
CONNECTION_KB = 50
LATENCY_JUDGED = frozenset({"t1k", "h1k"})  # their p99
BACKLOG_MESSAGES = 10_000_000
PERSISTENT_RSS_MB = 300
BACKLOG_RSS_MB = 1024
BACKLOG_RATE = 0.8  # of the rate into an empty queue
RESTART_SECONDS = 10


def chosen(names: str | None) -> list[Scenario]:
    """The scenarios of a comma-separated list; ValueError names what is unknown."""
    wanted = names.split(",") if names else list(DEFAULT)
    unknown = [name for name in wanted if name not in BY_ID]
    if unknown:
        raise ValueError(f"unknown scenarios: {', '.join(unknown)}; there are: {', '.join(BY_ID)}")
    return [BY_ID[name] for name in wanted]
