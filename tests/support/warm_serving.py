"""``leveret serve`` as a process of its own that starts in a tenth of the time: forked where all is imported already.

For tests that start many brokers and are about what these do, not about how a Python begins (tests/support/warm_room.py
says what is the same and what is not). There are two rooms that take turns, each with its own seed of hashes, so that
what one life puts on disk is never read by one that sorts its sets in the same way.

With LEVERET_COLD_STARTS=1, and where there is no such fork, each is started like any program.
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
from typing import BinaryIO

from tests.support.serving import SRC, Serving

ROOT = SRC.parent
IS_COLD = sys.platform != "linux" or bool(os.environ.get("LEVERET_COLD_STARTS"))
turns = count()


class WarmRoom:
    def __init__(self, preloaded: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{ROOT}", "LD_PRELOAD": preloaded}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_room", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environ,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def start(self, arguments: Sequence[str], environ: Mapping[str, str], stdout: int, stderr: int) -> socket.socket:
        """The link to the new process."""
        ours, theirs = socket.socketpair()
        request = {"arguments": arguments, "environ": environ, "folder": os.getcwd()}
        with theirs:
            socket.send_fds(self._control, [json.dumps(request).encode()], [stdout, stderr, theirs.fileno()])
        return ours

    def close(self) -> None:
        self._control.close()
        self._process.wait(10)


@cache
def warm_room(turn: int, preloaded: str) -> WarmRoom:
    return WarmRoom(preloaded)


class WarmProcess:
    """As much of ``subprocess.Popen`` as tests use."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str], stderr: BinaryIO) -> None:
        self.args = [sys.executable, "-m", "leveret.cli.main", *arguments]
        self.returncode: int | None = None
        reading, writing = os.pipe()
        self.stdout: BinaryIO = os.fdopen(reading, "rb")
        try:
            room = warm_room(next(turns) % 2, environ.get("LD_PRELOAD", ""))
            self._link = room.start(arguments, environ, writing, stderr.fileno())
        finally:
            os.close(writing)
        self.pid = self._next_number(30)

    def _next_number(self, seconds: float) -> int:
        """A number is so short that it comes whole."""
        if not select.select([self._link], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired(self.args, seconds)
        told = b""
        while not told.endswith(b"\n"):
            part = self._link.recv(1)
            assert part, "the room has fallen in"
            told += part
        return int(told)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float) -> int:
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
        """As if this process had ended."""
        self._link.close()


class WarmServing(Serving):
    def begin(
        self, arguments: Sequence[str], log: BinaryIO, environ: Mapping[str, str], before: Callable[[], None] | None
    ) -> subprocess.Popen[bytes] | WarmProcess:
        if IS_COLD or before is not None:
            return super().begin(arguments, log, environ, before)
        return WarmProcess(arguments, environ, log)
