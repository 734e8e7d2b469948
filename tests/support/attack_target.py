"""A broker as a separate process that is attacked while a bystander uses it, and what must hold afterwards: memory
within the watermark and a fifth, the bystander served, and a broker that is healthy without a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from leveret.wire.methods import BasicGet, BasicGetOk, QueueDeclare, QueueDeclareOk
from tests.support.broker_process import BrokerProcess
from tests.support.bystander import Bystander, Latencies
from tests.support.http_api import HttpApi
from tests.support.raw_client import RawClient, eventually

WATERMARK = 200 << 20
LONGEST_WAIT = 1.0  # seconds of the bystander, on a machine with two cores that also runs the attacker
P99 = 0.1  # seconds


class AttackTarget(BrokerProcess):
    def __init__(
        self,
        folder: Path,
        *flags: str,
        watermark: int = WATERMARK,
        before: Callable[[], None] | None = None,
        with_bystander: bool = True,
    ) -> None:
        given = ("--http-port", "0", "--memory-high-watermark", str(watermark), "--login-failure-delay", "0.2", *flags)
        super().__init__(folder, *given, before=before)
        self.watermark = watermark
        self.bystander: Bystander | None = None
        try:
            self.api = HttpApi(self.url("http"))
            if with_bystander:
                self.bystander = Bystander(self.url())
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bystander is not None:
            self.bystander.kill()
        super().__exit__(kind, error, trace)

    def peak_memory(self) -> int:
        """Bytes: the largest resident size since the start."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))

    def check(self) -> Latencies:
        """When the attack is over (its connections closed): what must hold."""
        assert self.bystander is not None
        served = self.bystander.stop()
        self.bystander = None
        assert self.process.poll() is None, self.log()
        assert self.peak_memory() <= 1.2 * self.watermark, f"{self.peak_memory() >> 20} MiB resident"
        assert served.longest <= LONGEST_WAIT, served
        assert served.p99 <= P99, served
        self.check_health()
        return served

    def check_health(self) -> None:
        """A new connection publishes and gets, the HTTP API answers, no alarm stays."""
        with RawClient.open(self.url()) as client:
            queue = client.call(QueueDeclare(exclusive=True), QueueDeclareOk).queue
            client.publish("", queue, b"after")
            client.send(BasicGet(queue, no_ack=True))
            assert client.expect_content(BasicGetOk).body == b"after"
        assert self.api.get("/api/whoami")[0] == 200
        eventually(lambda: self.api.get("/api/health/checks/alarms")[0] == 200)
