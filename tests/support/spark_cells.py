"""A broker of two cells for pipelines: partitions in both, and everything else in the second, which is killed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import CellClient, clients_by_cell
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.restartable_broker import STARTING, KillableBroker
from tests.support.spark_broker import SparkBroker, eventually
from tests.support.spark_pipelines import Pipeline

CELLS = ("c1", "c2")
READY = "cell is ready again"


class CellBroker:
    """``kill`` ends the process of the second cell, which the first one starts again."""

    def __init__(self, folder: Path, *endpoints: str) -> None:
        """``endpoints``: for Spark, before that of the first cell."""
        self.serving = BrokerProcess(folder, "--cells", "2", "--http-port", "0", "--log-level", "debug")
        try:
            self.serving.banner(STARTING)
        except BaseException:
            self.serving.__exit__(None, None, None)
            raise
        self.amqp, self.http = self.serving.url("amqp"), self.serving.url("http").rstrip("/")
        self.endpoint = ",".join([*endpoints, self.http])
        self._killed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.serving.__exit__(kind, error, trace)
        if error is None:
            log = self.serving.log()
            assert "Traceback" not in log, log[-6000:]

    def kill(self) -> None:
        (second,) = cell_processes(self.serving)
        self._killed += 1
        kill_cell(second)

    def start(self) -> None:
        eventually(lambda: self.serving.log().count(READY) == self._killed, 60)

    def connect(self) -> SparkBroker:
        return SparkBroker(self.amqp, self.http)

    def ask(self, path: str, **query: object) -> dict[str, Any]:
        return self.connect().ask("GET", f"%2F/{path}", **query)

    def reads(self, queue: str) -> set[tuple[str, bool]]:
        """The cells that have read messages of the queue for Spark, and whether another cell had passed it on."""
        found: set[tuple[str, bool]] = set()
        for line in self.serving.log().splitlines():
            if "pipeline messages read" in line and f"queue={queue} " in line:
                node = line.partition("node=")[2].split()[0]
                found.add(("c2" if node.endswith("-c2") else "c1", "passed_on=True" in line))
        return found


class CellPipeline(Pipeline):
    """Partition 0 of a stream lives in the first cell. Partition 1, a classic queue and the output live in the
    second."""

    def declare(self, broker: KillableBroker) -> None:
        with clients_by_cell(broker.connect().amqp, *CELLS) as clients:
            second = clients["c2"].channel
            second.exchange_declare(self.name, "fanout", durable=True)
            second.queue_declare(self.output, durable=True)
            second.queue_bind(self.output, self.name)
            if self.kind == "classic":
                second.queue_declare(self.input, durable=True)
                return
            declare_super_stream(self.input, clients)


def declare_super_stream(name: str, clients: dict[str, CellClient]) -> None:
    """With a partition in each cell."""
    clients["c2"].channel.exchange_declare(name, "direct", durable=True, arguments={"x-super-stream": True})
    for shard, cell in enumerate(CELLS):
        queue, channel = f"{name}-{shard}", clients[cell].channel
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind(queue, name, str(shard))
