"""Queues move between the cells of ``leveret serve --cells`` under load, and cells are killed in the middle of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError, NackError, UnroutableError

from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import CellClient, clients_by_cell, until
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.management_api import ManagementApi

CELLS = ("c1", "c2", "c3")
FLAGS = ("--cells", "3", "--http-port", "0")
PERSISTENT = pika.BasicProperties(delivery_mode=2)
PLACE = "queues/%2F/q"


class History:
    """What publishers know to be stored, and what a consumer has received."""

    def __init__(self) -> None:
        self.confirmed: list[bytes] = []
        self.received: list[tuple[bytes, bool]] = []
        self.is_over = False
        self.deadline = float("inf")

    def check(self) -> None:
        bodies = [body for body, _ in self.received]
        assert set(self.confirmed) <= set(bodies), sorted(set(self.confirmed) - set(bodies))[:20]
        first: dict[bytes, None] = {}
        for body, redelivered in self.received:
            assert body not in first or redelivered, body
            first[body] = None
        for publisher in {body.split()[0] for body in first}:
            numbers = [int(body.split()[1]) for body in first if body.split()[0] == publisher]
            assert numbers == sorted(numbers), publisher


def connect(url: str, cell: str) -> CellClient:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(AMQPError, OSError):
            client = CellClient(pika.BlockingConnection(pika.URLParameters(url)))
            if client.cell == cell:
                return client
            client.connection.close()
    raise AssertionError(cell)


@contextmanager
def connected(url: str, cell: str) -> Iterator[CellClient]:
    client = connect(url, cell)
    try:
        yield client
    finally:
        with suppress(AMQPError, OSError):  # its cell may be gone
            client.connection.close()


def publish(history: History, url: str, cell: str) -> None:
    """With confirms, one by one, until the end; connects again when the cell is lost."""
    number = 0
    while not history.is_over:
        with suppress(AMQPError, OSError), connected(url, cell) as client:
            channel = client.publisher()
            while not history.is_over:
                number += 1
                body = b"%s %d" % (cell.encode(), number)
                with suppress(NackError, UnroutableError):
                    channel.basic_publish("", "q", body, PERSISTENT, mandatory=True)
                    history.confirmed.append(body)


def consume(history: History, url: str, cell: str) -> None:
    """Until everything that was confirmed is received."""
    while True:
        with suppress(AMQPError, OSError), connected(url, cell) as client:
            channel = client.channel
            channel.basic_qos(prefetch_count=50)
            for method, _, body in channel.consume("q", inactivity_timeout=0.5):
                if method is not None:
                    history.received.append((body, method.redelivered))
                    channel.basic_ack(method.delivery_tag)
                elif history.is_over and set(history.confirmed) <= {body for body, _ in history.received}:
                    return
                if time.monotonic() > history.deadline:
                    return


class Load:
    """Publishers in all cells and one consumer, in threads."""

    def __init__(self, url: str, consumer: str) -> None:
        self.history = History()
        jobs: list[tuple[Callable[..., None], str]] = [(publish, cell) for cell in CELLS]
        jobs.append((consume, consumer))
        self._threads = [threading.Thread(target=job, args=(self.history, url, cell)) for job, cell in jobs]

    def __enter__(self) -> History:
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.history.received) > 50)
        return self.history

    def __exit__(self, *problem: object) -> None:
        self.history.deadline = time.monotonic() + 30
        self.history.is_over = True
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def begin(api: ManagementApi, to: str) -> str:
    status, answer = api.post(f"{PLACE}/move", {"to": to})
    assert status == 202, answer
    return str(answer["id"])


def move(api: ManagementApi, to: str) -> dict[str, Any]:
    id_ = begin(api, to)
    until(lambda: api.get(f"queue-moves/{id_}")[1]["state"] in ("done", "failed"))
    row: dict[str, Any] = api.get(f"queue-moves/{id_}")[1]
    assert row["state"] == "done", row
    return row


def declare(broker: BrokerProcess, home: str) -> None:
    with connected(broker.url(), home) as client:
        client.channel.queue_declare("q", durable=True)


@pytest.mark.parametrize("consumer", CELLS)
def test_a_queue_moves_under_load(tmp_path: Path, consumer: str) -> None:
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        api = ManagementApi(broker.url("http"))
        declare(broker, "c1")
        with Load(broker.url(), consumer) as history:
            for to in ("c2", "c3", "c1", "c3", "c2", "c1"):
                before = len(history.received)
                move(api, to)
                assert api.get(PLACE)[1]["home"] == to
                until(lambda before=before: len(history.received) > before + 50)
        history.check()


def process_of(broker: BrokerProcess, cell: str) -> int:
    """The cells are started in the order of their numbers."""
    return sorted(cell_processes(broker))[int(cell[1:]) - 2]


@pytest.mark.parametrize(("killed", "delay"), [("c2", 0.05), ("c3", 0.0)])
def test_a_cell_is_killed_during_a_move_under_load(tmp_path: Path, killed: str, delay: float) -> None:
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        api = ManagementApi(broker.url("http"))
        declare(broker, "c2")
        fill(broker.url(), 3_000)
        with Load(broker.url(), "c1") as history:
            history.confirmed += backlog(3_000)
            id_ = begin(api, "c3")
            time.sleep(delay)
            kill_cell(process_of(broker, killed))
            until(lambda: "cell is ready again" in broker.log(), 30)
            until(lambda: api.get(f"queue-moves/{id_}")[1]["state"] in ("done", "failed"), 30)
            row = api.get(f"queue-moves/{id_}")[1]
            home = api.get(PLACE)[1]["home"]
            assert home == ("c3" if row["state"] == "done" else "c2"), row
            before = len(history.received)
            until(lambda: len(history.received) > before + 50)
            move(api, "c1")  # and nothing is left of the other move
        history.check()


def backlog(number: int) -> list[bytes]:
    return [b"backlog %d" % n for n in range(number)]


def fill(url: str, number: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel: Any = connection.channel()
    channel.tx_select()
    for body in backlog(number):
        channel.basic_publish("", "q", body, PERSISTENT)
    channel.tx_commit()
    connection.close()


@pytest.mark.parametrize(("home", "to", "delay"), [("c1", "c2", 0.05), ("c2", "c1", 0.2), ("c2", "c3", 0.0)])
def test_all_cells_are_killed_during_a_move(tmp_path: Path, home: str, to: str, delay: float) -> None:
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        declare(broker, home)
        fill(broker.url(), 5_000)
        begin(ManagementApi(broker.url("http")), to)
        time.sleep(delay)
        for pid in [*cell_processes(broker), broker.process.pid]:
            os.kill(pid, signal.SIGKILL)
        broker.exit_code(20)
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        api = ManagementApi(broker.url("http"))
        assert api.get(PLACE)[1]["home"] in (home, to)
        until(lambda: api.get(PLACE)[1]["messages"] == 5_000)
        with clients_by_cell(broker.url(), "c1", "c3") as clients:
            clients["c1"].publisher().basic_publish("", "q", b"last", PERSISTENT, mandatory=True)
            bodies: list[bytes] = []
            channel = clients["c3"].channel
            for _, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=10):
                bodies.append(body)
                if body == b"last" or body is None:
                    break
            assert bodies == [*backlog(5_000), b"last"]
            assert channel.queue_declare("q", passive=True).method.message_count == 0


def run_cli(broker: BrokerProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "leveret.cli.main", *arguments, "--url", broker.url("http")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_cell_is_taken_out_of_service_and_fewer_are_started(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        with connected(broker.url(), "c3") as client:
            for number in range(4):
                client.channel.queue_declare(f"in c3 {number}", durable=True)
                for body in backlog(20):
                    client.publisher().basic_publish("", f"in c3 {number}", body, PERSISTENT)
        assert run_cli(broker, "cells", "remove", "c3", "--yes") == "cell c3 removed\n"
        until(lambda: len(cell_processes(broker)) == 1)
        assert "removed" in run_cli(broker, "cells", "list")
        assert [row["cell"] for row in ManagementApi(broker.url("http")).get("nodes")[1]] == ["c1", "c2"]
        broker.terminate()
        assert broker.exit_code(20) == 0
        assert "another cell cannot be reached" not in broker.log()
    with BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0") as broker:
        api = ManagementApi(broker.url("http"))
        assert sorted(row["home"] for row in api.get("queues")[1]) == ["c1", "c1", "c2", "c2"]
        assert [(row["name"], row["state"]) for row in api.get("cells")[1]] == [("c1", "running"), ("c2", "running")]
        with clients_by_cell(broker.url(), "c1", "c2") as clients:
            for number in range(4):
                channel = clients["c2"].channel
                bodies = [channel.basic_get(f"in c3 {number}", auto_ack=True)[2] for _ in range(20)]
                assert bodies == backlog(20)
        broker.terminate()
        assert broker.exit_code(20) == 0
    with BrokerProcess(tmp_path, *FLAGS) as broker, clients_by_cell(broker.url(), "c1", "c3") as clients:
        clients["c3"].channel.queue_declare("again", durable=True)  # the cell is a new one
        api = ManagementApi(broker.url("http"))
        assert api.get("queues/%2F/again")[1]["home"] == "c3"


def test_queues_are_moved_and_rebalanced_by_commands(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        with connected(broker.url(), "c1") as client:
            for number in range(6):
                client.channel.queue_declare(f"q{number}", durable=True)
        moved = run_cli(broker, "queues", "move", "q5", "--to", "c3")
        assert moved == "queue 'q5' moved from cell c1 to cell c3 with 0 messages\n"
        plan = run_cli(broker, "queues", "rebalance", "--dry-run")
        assert plan.count("c1 has 83% of the load") == 1
        api = ManagementApi(broker.url("http"))
        homes = Counter(row["home"] for row in api.get("queues")[1])
        assert homes == {"c1": 5, "c3": 1}  # a dry run changes nothing
        assert run_cli(broker, "queues", "rebalance").count("moved from cell c1") == 3
        assert Counter(row["home"] for row in api.get("queues")[1]) == {"c1": 2, "c2": 2, "c3": 2}
        assert (
            run_cli(broker, "queues", "rebalance")
            == "No moves needed: queues and messages are spread evenly over the cells.\n"
        )
