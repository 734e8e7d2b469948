"""Every example runs as it stands, with a broker of its own and against one that is there already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import leveret

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "first_message.py": ["Hello, Leveret!"],
    "embedded.py": ["eu.paid: two carrots", "us.paid: one lettuce", "offers left: 0"],
    "rpc.py": ["3 squared is 9", "7 squared is 49", "12 squared is 144"],
    "work_queue.py": [
        "task 1 done at the second attempt",
        "task 2 done",
        "task 3 done",
        "task 4 done",
        "task 5 done",
        "task 6 done",
    ],
}
OF_THE_CLIENT = {"producer.py", "consumer.py", "request_reply.py", "transacted_session.py", "failover.py"}
"""Run by test_examples_client.py, and by the tests of failover."""
TAKES_A_URL = sorted(PRINTED.keys() - {"embedded.py"})


def run(*command: str) -> list[str]:
    done = subprocess.run([sys.executable, "-W", "error", *command], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - OF_THE_CLIENT == PRINTED.keys()


@pytest.mark.parametrize("name", sorted(PRINTED))
@pytest.mark.feature("S4-62")
def test_an_example_runs_with_a_broker_of_its_own(name: str) -> None:
    assert run(str(EXAMPLES / name)) == PRINTED[name]


@pytest.mark.parametrize("name", TAKES_A_URL)
@pytest.mark.feature("S4-56")
def test_an_example_runs_against_a_broker_that_is_there(name: str, leveret_broker: leveret.Broker) -> None:
    """It leaves nothing behind, so it can run again."""
    for _ in range(2 if name == "first_message.py" else 1):
        assert run(str(EXAMPLES / name), leveret_broker.amqp_url) == PRINTED[name]
    assert leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues)) == []


def test_the_first_message_takes_about_ten_lines() -> None:
    text = (EXAMPLES / "first_message.py").read_text(encoding="utf-8")
    body = text.partition("def main")[2].partition("if __name__")[0]
    assert len(body.strip().splitlines()) <= 10
