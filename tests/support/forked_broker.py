"""``leveret serve`` as a separate process that starts in a tenth of the time: forked from a process with all imports.

For tests that start many brokers and do not test how Python starts; tests/support/fork_server.py says what differs.
Two fork servers alternate, each with its own hash seed, so that the files of one broker process are never read by a
process that iterates over sets in the same order.

With LEVERET_COLD_STARTS=1, and on systems without such a fork, each broker starts as an ordinary program.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from tests.support.broker_process import SRC, BrokerProcess
from tests.support.fork_server import LEVERET

ROOT = SRC.parent
IS_COLD = sys.platform != "linux" or bool(os.environ.get("LEVERET_COLD_STARTS"))
turns = count()


class ForkServer:
    def __init__(self, preloaded: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}", "LD_PRELOAD": preloaded}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environ,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def start(self, request: Mapping[str, Any], stdout: int, stderr: int, network: str) -> socket.socket:
        """Start a process and return the link to it."""
        ours, theirs = socket.socketpair()
        with theirs, open(network, "rb") as namespace:
            files = [stdout, stderr, namespace.fileno(), theirs.fileno()]
            socket.send_fds(self._control, [json.dumps(request).encode()], files)
        return ours

    def close(self) -> None:
        self._control.close()
        self._process.wait(10)


@cache
def fork_server(turn: int, preloaded: str) -> ForkServer:
    return ForkServer(preloaded)


class ForkedProcess:
    """The part of ``subprocess.Popen`` that the tests use."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        stdout: int,
        stderr: int,
        *,
        folder: Path | None = None,
        network: str = "",
    ) -> None:
        """``network``: a file that is a network namespace; by default that of this thread."""
        self.args = [sys.executable, "-m", module, *arguments]
        self.returncode: int | None = None
        self.stdout: BinaryIO | None = None
        request = {"module": module, "arguments": arguments, "environ": environ, "folder": str(folder or Path.cwd())}
        server = fork_server(next(turns) % 2, environ.get("LD_PRELOAD", ""))
        self._link = server.start(request, stdout, stderr, network or "/proc/thread-self/ns/net")
        self.pid = self._next_number(120)

    @classmethod
    def piped(
        cls, module: str, arguments: Sequence[str], environ: Mapping[str, str], stderr: BinaryIO
    ) -> ForkedProcess:
        """``stdout`` is the end of a pipe."""
        reading, writing = os.pipe()
        try:
            process = cls(module, arguments, environ, writing, stderr.fileno())
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        process.stdout = os.fdopen(reading, "rb")
        return process

    def _next_number(self, seconds: float | None) -> int:
        """Read one line with a number."""
        if not select.select([self._link], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired(self.args, seconds or 0)
        line = b""
        while not line.endswith(b"\n"):
            part = self._link.recv(1)
            assert part, "the fork server ended"
            line += part
        return int(line)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._next_number(timeout)
            self._link.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def abandon(self) -> None:
        """Close the link, as the end of this process would."""
        self._link.close()


class ForkedBroker(BrokerProcess):
    def begin(
        self, arguments: Sequence[str], log: BinaryIO, environ: Mapping[str, str], before: Callable[[], None] | None
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        if IS_COLD or before is not None:
            return super().begin(arguments, log, environ, before)
        return ForkedProcess.piped(LEVERET, arguments, environ, log)
