"""The comparison: what RabbitMQ gives to Spark through pika, and what it takes into a stream queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.brokers import Broker, RabbitMQ
from benchmarks.generator import Generators, spoiled
from benchmarks.pipeline.bodies import sums
from benchmarks.pipeline.filling import Target, fill
from benchmarks.pipeline.job import Job, Line, Pass, Sink, Source
from benchmarks.pipeline.measures import BATCHES, CheckFailed, figures_of, must_equal, observed
from benchmarks.pipeline.provisions import declare_queue, wait_for_messages
from benchmarks.pipeline.scenarios import Scenario
from benchmarks.pipeline.spark_runs import run_job

CONSUMERS = 2  # one for each core of Spark; a stream queue can give to one reader only as fast as it is read
PUBLISH = ("--mode", "publish", "--durable", "--persistent", "--qtype", "stream", "--confirms", "1000", "--size", "100")


def by_pika(broker: RabbitMQ, scenario: Scenario, kind: str, folder: Path, say: Callable[[str], None]) -> Line:
    """Two stream queues with a consumer each, or one classic queue with two consumers."""
    names = [f"pika.{kind}.{place}" for place in range(CONSUMERS if kind == "stream" else 1)]
    share = scenario.rows // len(names)
    for place, name in enumerate(names):
        say(f"  filling {name} with {share:,} messages")
        declare_queue(broker, name, {"x-queue-type": kind})
        fill(broker.port, Target("", name), place * share, (place + 1) * share)
    wait_for_messages(broker, names, share * len(names))
    expected = sums(0, share * len(names))
    options = {"port": str(broker.port), "queues": ",".join(names), "kind": kind, "consumers": str(CONSUMERS)}
    options["rowsPerBatch"] = str(-(-expected.rows // BATCHES))
    say("  running Spark")
    measured = Pass("measure", Source("rabbitmq-pika", options), Sink("noop"), True)
    found = run_job(Job(scenario.id, str(folder / f"{scenario.id}-spark"), broker.pid, (measured,)))
    must_equal(scenario.id, observed(found["passes"][0]), expected)
    return figures_of(found, expected)


def publish_alternately(brokers: list[Broker], generators: Generators, rounds: int, seconds: float) -> dict[str, Line]:
    """By name of the broker: the median rate of confirmed publishes by one connection."""
    lines: dict[str, list[Line]] = {broker.name: [] for broker in brokers}
    for number in range(1, rounds + 1):
        for broker in brokers if number % 2 else reversed(brokers):
            label = f"{broker.name} publish round {number}"
            line = generators.run("amqpbench", broker, [*PUBLISH, "--seconds", f"{seconds:g}"], label)
            if not line["ok"] or line["confirmed"] != line["queue_depth_end"]:
                raise CheckFailed(f"{label}: not every confirmed message is in the stream: {line}")
            lines[broker.name].append(line)
    return {
        name: {
            "figure": median(line["confirm_rate"] for line in found),
            "from": "amqpbench",
            "rows": sum(line["sent"] for line in found),
            "broker_cpu_s": round(sum(line["broker_cpu_s"] for line in found), 2),
            "note": "; ".join(dict.fromkeys(reason for line in found if (reason := spoiled(line)))),
            "raw": found,
        }
        for name, found in lines.items()
    }
