"""Debian's RabbitMQ with its plugin for STOMP, on free ports and with files of its own."""

from __future__ import annotations

import socket
from pathlib import Path

from benchmarks.brokers import RabbitMQ, free_port
from tests.support.raw_client import eventually

STARTING = 30.0  # seconds


class RabbitMQWithStomp(RabbitMQ):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory, ["rabbitmq_stomp"])
        self.stomp_port = free_port()

    def start(self) -> None:
        """Its settings are read from a file beside its data, whose name the class above gives."""
        ports = f'[{{rabbitmq_stomp, [{{tcp_listeners, [{{"127.0.0.1", {self.stomp_port}}}]}}]}}].\n'
        (self.directory / "none.config").write_text(ports)
        super().start()
        eventually(self._listens_for_stomp, STARTING)

    def _listens_for_stomp(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.stomp_port), 5).close()
        except OSError:
            return False
        return True

    @property
    def amqp_url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    @property
    def stomp_url(self) -> str:
        return f"stomp://127.0.0.1:{self.stomp_port}"
