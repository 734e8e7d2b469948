"""A broker that is killed and started again on the same ports with the same data."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from tests.support.broker_process import BrokerProcess
from tests.support.spark_broker import SparkBroker


class KillableBroker(Protocol):
    """One broker, or a cell: what pipelines use, and what a test does to it."""

    @property
    def endpoint(self) -> str:
        """For Spark."""

    def kill(self) -> None: ...

    def start(self) -> None:
        """Returns when it serves again."""

    def connect(self) -> SparkBroker:
        """For a while: a connection does not outlive its broker."""

    def ask(self, path: str, **query: object) -> dict[str, Any]: ...


STARTING = 120.0  # seconds, on a machine where Spark works beside it


class RestartableBroker:
    """A broker that comes back on the same ports with the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._serving = BrokerProcess(folder, "--http-port", "0")
        try:
            self._serving.banner(STARTING)
        except BaseException:
            self._serving.__exit__(None, None, None)
            raise
        self.amqp, self.endpoint = self._serving.url("amqp"), self._serving.url("http").rstrip("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.__exit__(kind, error, trace)
        if error is None:
            self._assert_without_bugs()

    def kill(self) -> None:
        self._serving.process.kill()
        self._serving.__exit__(None, None, None)
        self._assert_without_bugs()

    def start(self) -> None:
        port, http_port = (str(urlsplit(url).port) for url in (self.amqp, self.endpoint))
        self._serving = BrokerProcess(self._folder, "--http-port", http_port, port=port)
        self._serving.banner(STARTING)

    def connect(self) -> SparkBroker:
        """For a while: a connection does not outlive its broker."""
        return SparkBroker(self.amqp, self.endpoint)

    def ask(self, path: str, **query: object) -> dict[str, Any]:
        return self.connect().ask("GET", f"%2F/{path}", **query)

    def _assert_without_bugs(self) -> None:
        log = self._serving.log()
        assert "Traceback" not in log, log
