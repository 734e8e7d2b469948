"""The examples of the client, each as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import leveret

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "request_reply.py": ["carrots: 2.50", "lettuce: 1.20", "dandelions: 0.80", "foxes: not for sale"],
    "transacted_session.py": [
        "no lettuce just now: roll back",
        "bill for carrots",
        "bill for lettuce",
        "no more",
    ],
}
PATIENCE = 50


def started(name: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> list[str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert err == ""
    return out.splitlines()


@pytest.mark.feature("S4-70")
def test_producer_and_consumers_are_processes_of_their_own(leveret_broker: leveret.Broker) -> None:
    """Two consumers that wait and select; each order reaches one of them."""
    consumers = [
        started("consumer.py", leveret_broker.amqp_url, "3", f"region = '{region}'") for region in ("eu", "us")
    ]
    assert printed(started("producer.py", leveret_broker.amqp_url, "6")) == [f"sent order {n}" for n in range(1, 7)]
    european, american = (printed(consumer) for consumer in consumers)
    assert european == [f"order {n}: {2 * n} carrots for eu" for n in (1, 3, 5)]
    assert american == [f"order {n}: {2 * n} carrots for us" for n in (2, 4, 6)]
    assert leveret_broker.vhost().message_count("orders") == 0


@pytest.mark.feature("S4-70")
def test_orders_wait_for_a_consumer_that_starts_later(leveret_broker: leveret.Broker) -> None:
    assert len(printed(started("producer.py", leveret_broker.amqp_url, "2"))) == 2
    assert leveret_broker.vhost().message_count("orders") == 2
    assert len(printed(started("consumer.py", leveret_broker.amqp_url, "2"))) == 2


@pytest.mark.parametrize("name", sorted(PRINTED))
@pytest.mark.feature("S3-01", "S4-70")
def test_an_example_runs_with_a_broker_of_its_own_and_with_one_that_is_there(
    name: str, leveret_broker: leveret.Broker
) -> None:
    """S3-01."""
    both = [started(name), started(name, leveret_broker.amqp_url)]
    assert [printed(process) for process in both] == [PRINTED[name]] * 2
