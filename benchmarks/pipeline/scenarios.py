"""What is measured of the pipeline, and what is expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["streams", "keys", "headers", "queue", "publish", "rabbitmq"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to measure. Scenarios of a group that follow each other share a started broker.

    The figure is in rows per second, or in `unit`. Without a target it is shown only.
    """

    id: str
    title: str
    group: Group
    rows: int
    at_least: float | None = None
    below: float | None = None
    unit: str = "rows/s"
    faster_than: tuple[str, float] | None = None  # another scenario, and how many times


ALL = (
    Scenario(
        "noop",
        "super stream of 4, keys in runs of 256 -> noop",
        "streams",
        8_000_000,
        at_least=800_000,
        faster_than=("pika-s", 20),
    ),
    Scenario("parquet", "super stream of 4 -> Parquet", "streams", 8_000_000, at_least=350_000),
    Scenario("alo", "stream -> exchange, at least once, classic queue", "streams", 4_000_000, at_least=350_000),
    Scenario("exact", "stream -> exchange, exactly once, classic queue", "streams", 4_000_000, at_least=250_000),
    Scenario("alo-s", "stream -> exchange, at least once, stream", "streams", 4_000_000),
    Scenario("exact-s", "stream -> exchange, exactly once, stream", "streams", 4_000_000),
    Scenario("probe", "p99 of 1,000 msg/s over AMQP beside 4 fetches", "streams", 8_000_000, below=50, unit="ms"),
    Scenario("keys", "noop, another routing key in every message", "keys", 200_000),
    Scenario("headers", "noop, three headers, includeHeaders", "headers", 1_000_000, at_least=100_000),
    Scenario(
        "leases",
        "classic queue by leases -> noop",
        "queue",
        4_000_000,
        at_least=300_000,
    ),
    Scenario("batch", "batch read of a classic queue, the first of a session", "queue", 1_000_000, below=5, unit="s"),
    Scenario("pika-s", "RabbitMQ stream queues by pika -> noop", "rabbitmq", 240_000),
    Scenario("pika-q", "RabbitMQ classic queue by pika -> noop", "rabbitmq", 180_000),
    Scenario("publish", "AMQP publish into a stream, confirms", "publish", 0, faster_than=("publish-r", 4)),
)
BY_ID = {scenario.id: scenario for scenario in ALL}


def chosen(names: str | None) -> list[Scenario]:
    """The scenarios of a comma-separated list, in their own order; ValueError names what is unknown."""
    wanted = names.split(",") if names else list(BY_ID)
    unknown = [name for name in wanted if name not in BY_ID]
    if unknown:
        raise ValueError(f"unknown scenarios: {', '.join(unknown)}; there are: {', '.join(BY_ID)}")
    return [scenario for scenario in ALL if scenario.id in wanted]
