"""A node of a cell as a process: ``python -m tests.support.cell_node NAME FOLDER PORT LEASE_SECONDS CELL URL...``.

Prints a line "leads" and its port when it leads, and "follows" when it no longer does. SIGTERM stops it in good order.
``CellNode`` starts and kills it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from leveret.cluster.cell_member import CellMember, Identity
from leveret.cluster.cell_stream import CellStream, bucket_configuration, prepare_stream
from leveret.cluster.engine import Engine, EngineOptions
from leveret.config import Settings
from leveret.logs import configure_logs
from leveret.node import Node
from leveret.replication.journal_replicator import JournalReplicator

REPOSITORY = Path(__file__).parents[2]


class LeadingBroker:
    """A node of Leveret as the leader of a cell."""

    def __init__(self, folder: Path, port: int) -> None:
        self._node = Node(Settings(data_dir=folder, amqp_port=port, http_port=None, shutdown_timeout=2.0))

    async def start(self, replicator: JournalReplicator) -> None:
        assert self._node.store is not None
        self._node.store.replicator = replicator
        await self._node.start()

    async def stop(self) -> None:
        await self._node.stop()


async def run(name: str, folder: Path, port: int, lease_seconds: int, cell: str, urls: list[str]) -> None:
    engine, stream = Engine(EngineOptions(tuple(urls)), name), CellStream.of(cell)
    connection = await engine.connect_within(20)
    await prepare_stream(connection, stream.configuration(3, 64 << 20))
    await prepare_stream(connection, bucket_configuration(3))
    await connection.close()
    identity = Identity(name, os.urandom(8).hex())
    member = CellMember(
        engine, stream, folder, identity, lambda: LeadingBroker(folder, port), lease_seconds=lease_seconds
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, member.stop)
    running = asyncio.create_task(member.run())
    while not running.done():
        leading = asyncio.create_task(member.leads.wait())
        await asyncio.wait((running, leading), return_when=asyncio.FIRST_COMPLETED)
        leading.cancel()
        if member.leads.is_set():
            print("leads", flush=True)
        while member.leads.is_set() and not running.done():
            await asyncio.sleep(0.02)
    running.result()


class CellNode:
    def __init__(self, folder: Path, name: str, port: int, cell: str, urls: list[str], lease_seconds: int) -> None:
        self.name = name
        self.port = port
        self.data = folder / name
        self._log = folder / f"{name}.log"
        self._arguments = [name, str(self.data), str(port), str(lease_seconds), cell, *urls]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.cell_node", *self._arguments],
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
            )

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str, seconds: float = 20.0) -> None:
        """Until this is in the log."""
        deadline = time.monotonic() + seconds
        while text not in self.log():
            assert time.monotonic() < deadline, self.log()[-2000:]
            time.sleep(0.02)

    @property
    def times_leading(self) -> int:
        return self.log().splitlines().count("leads")

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = 20.0) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait_for_leader(nodes: list[CellNode], before: dict[str, int], seconds: float = 30.0) -> CellNode:
    """The node that leads for one time more than ``before``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for node in nodes:
            if node.times_leading > before.get(node.name, 0):
                return node
        time.sleep(0.02)
    raise AssertionError("no node leads:\n" + "\n".join(node.log()[-2000:] for node in nodes))


if __name__ == "__main__":
    configure_logs()
    name, folder, port, lease_seconds, cell, *urls = sys.argv[1:]
    asyncio.run(run(name, Path(folder), int(port), int(lease_seconds), cell, urls))
