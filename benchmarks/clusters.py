"""Clusters to measure: three nodes on loopback, of Leveret with three servers of NATS, and of RabbitMQ."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.brokers import RABBITMQ_SERVER, Broker, BrokerFailed, RabbitMQ, free_port
from tests.support.cell_node import Cell, CellNode
from tests.support.nats_servers import NatsServers

NODES = ("a", "b", "c")
CTL_SECONDS = 120
ENGINE_LOG_SIZE = "2GiB"


class LeveretCell(Broker):
    """Clients connect to the leader."""

    name = "leveret"
    login = ("--user", "admin", "--pass", "admin")
    queue: tuple[str, ...] = ()  # arguments of the generator

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.servers = NatsServers(self.directory)
        self.servers.start()
        size = ("--cluster-log-size", ENGINE_LOG_SIZE, "--stomp-port", "off")
        self.cell = Cell(self.directory, self.servers, "bench", *size)
        self.cell.start()
        self.find_leader()

    def find_leader(self) -> CellNode:
        leader = self.cell.leader(60)
        self.port = leader.port
        return leader

    @property
    def pids(self) -> str:
        nodes = [node.process.pid for node in self.cell.nodes if node.process is not None]
        return ",".join(str(pid) for pid in (*nodes, *self.servers.pids))

    def stop(self) -> None:
        if hasattr(self, "cell"):
            self.cell.end()
        if hasattr(self, "servers"):
            self.servers.stop()


class RabbitNode(RabbitMQ):
    """One of a cluster: ``names_port`` is that of the epmd that all nodes share, and so is their cookie in ``home``."""

    def __init__(self, directory: Path, home: Path, node: str, names_port: int) -> None:
        super().__init__(directory)
        self.node = node
        self.environment = {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": node,
        }

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "plugins").write_text("[].\n")
        self.port = free_port()
        self._serve(self.environment | self._settings())

    def call(self, *command: str) -> None:
        """rabbitmqctl"""
        program = RABBITMQ_SERVER.with_name("rabbitmqctl")
        done = subprocess.run(
            [program, "-q", "-n", self.node, *command],
            env=os.environ | self.environment | {"RABBITMQ_CONF_ENV_FILE": "/dev/null"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CTL_SECONDS,
            check=False,
        )
        if done.returncode:
            raise BrokerFailed(f"rabbitmqctl {' '.join(command)}: {done.stderr or done.stdout}")


class RabbitCluster(Broker):
    """Clients connect to the first node, where the quorum queue that they declare has its leader."""

    name = "rabbitmq"
    login = ("--user", "guest", "--pass", "guest")
    queue = ("--qtype", "quorum")

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text("BENCHMARKSOFLEVERET")
        cookie.chmod(0o400)
        names_port = free_port()
        self._launch(["epmd", "-port", str(names_port), "-address", "127.0.0.1"], {})
        name = f"bench{os.getpid()}p{names_port}"
        self.nodes = [
            RabbitNode(self.directory / each, self.directory, f"{name}{each}@localhost", names_port) for each in NODES
        ]
        for node in self.nodes:
            node.start()
        for node in self.nodes[1:]:
            node.call("stop_app")
            node.call("join_cluster", self.nodes[0].node)
            node.call("start_app")
        self.port = self.nodes[0].port

    @property
    def pids(self) -> str:
        return ",".join(str(node.pid) for node in self.nodes)

    def stop(self) -> None:
        for node in getattr(self, "nodes", ()):
            node.stop()
        super().stop()
