"""The ``leveret`` command as a process, and short ways to fill and empty brokers beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import SRC, BrokerProcess
from tests.support.forked_broker import ForkedBroker

SECONDS = 120  # for whatever is waited for


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "leveret.cli.main", *map(str, arguments)]
    environ = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


def leveret(*arguments: object) -> subprocess.CompletedProcess[str]:
    with started(*arguments) as process:
        out, err = process.communicate(timeout=SECONDS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def done(*arguments: object) -> str:
    """The output of a command that must succeed."""
    result = leveret(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments: object) -> str:
    """The one line of a command that must not succeed."""
    result = leveret(*arguments)
    assert result.returncode == 2, (result.stdout, result.stderr)
    assert result.stderr.startswith("leveret: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def checked(path: Path, code: int = 0) -> dict[str, Any]:
    result = leveret("check", path, "--json")
    assert result.returncode == code, (result.stdout, result.stderr)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@contextmanager
def talking(serving: BrokerProcess) -> Iterator[BlockingChannel]:
    """A channel with confirms; the broker must live until the end."""
    connection = pika.BlockingConnection(pika.URLParameters(serving.url()))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        connection.close()


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def fill(serving: BrokerProcess, *bodies: bytes, queue: str = "q") -> None:
    """Declare the queue, and have all of these confirmed."""
    with talking(serving) as channel:
        channel.queue_declare(queue, durable=True)
        publish(channel, queue, *bodies)


def drained(serving: BrokerProcess, queue: str = "q") -> list[tuple[bytes, bool]]:
    """Bodies, and whether they were marked redelivered."""
    found = []
    with talking(serving) as channel:
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append((got[2], got[0].redelivered))
    return found


def stop(serving: BrokerProcess) -> None:
    serving.terminate()
    assert serving.exit_code(15) == 0, serving.log()


def stopped_broker(folder: Path, *bodies: bytes) -> Path:
    """The data directory of a broker with a durable queue ``q`` that was stopped in good order."""
    with ForkedBroker(folder) as serving:
        fill(serving, *bodies)
        stop(serving)
    return folder / "data"
