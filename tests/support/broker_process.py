"""``leveret serve`` as a separate process. Every wait is bounded, and the process ends with its test."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

if TYPE_CHECKING:
    from tests.support.forked_broker import ForkedProcess

SRC = Path(__file__).parents[2] / "src"
OFF = ("--http-port", "off", "--https-port", "off", "--stomp-port", "off")


class BrokerProcess:
    """A running broker; ``url("amqp")`` is read from its banner, ``log()`` is its log so far."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environ: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        port: str | None = "0",
    ) -> None:
        chosen = () if port is None else ("--amqp-port", port)
        if "--cells" in flags and "--queue-leader-locator" not in flags:  # tests of links choose the cell of a queue
            flags = (*flags, "--queue-leader-locator", "client-local")
        given = ("--data-dir", str(folder / "data"), *chosen, *OFF, *flags)
        self._log = folder / "log"
        self._heard = ""
        self.begun = time.monotonic()
        with self._log.open("wb") as log:
            self.process = self.begin(
                ["serve", *given], log, {**_clean_environment(), "PYTHONPATH": str(SRC), **(environ or {})}, before
            )

    def begin(
        self, arguments: Sequence[str], log: BinaryIO, environ: Mapping[str, str], before: Callable[[], None] | None
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        return subprocess.Popen(
            [sys.executable, "-m", "leveret.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environ,
            preexec_fn=before,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def banner(self, seconds: float = 120.0) -> str:
        """The whole banner, as soon as it is complete."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while "Ctrl-C" not in self._heard:
            ready, _, _ = select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert part, f"no banner; the log says: {self.log()}"
            self._heard += part.decode()
        return self._heard

    def ready_line(self, seconds: float = 120.0) -> dict[str, Any]:
        """With logs in JSON: the line that takes the place of the banner."""
        deadline = time.monotonic() + seconds
        while True:
            lines = [json.loads(line) for line in self.log().splitlines(keepends=True) if line.endswith("\n")]
            found: list[dict[str, Any]] = [line for line in lines if line["event"] == "ready"]
            if found:
                return found[0]
            assert time.monotonic() < deadline, f"not ready: {self.log()}"
            time.sleep(0.05)

    def url(self, scheme: str = "amqp") -> str:
        found = re.search(rf"^  {scheme} +({scheme}://\S+)$", self.banner(), re.MULTILINE)
        assert found is not None, self.banner()
        return found[1]

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
