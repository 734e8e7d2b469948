"""Notifies the service manager: ready, reloading, stopping, and watchdog keep-alives.

The protocol is systemd's: datagrams of ``NAME=value`` lines to the socket that NOTIFY_SOCKET names. Without that
variable nothing is sent, and a manager that cannot be reached does not affect the broker. The watchdog is fed from the
event loop: if the loop is stuck, the manager restarts the broker.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping

from leveret.logs import get_log

log = get_log("readiness")


class Readiness:
    """Notifies the manager of this process, if ``environ`` names one; an embedded broker passes an empty one."""

    def __init__(
        self, environ: Mapping[str, str], monotonic_ns: Callable[[], int] = time.monotonic_ns, pid: int | None = None
    ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._monotonic_ns = monotonic_ns
        self.watchdog = _watchdog_seconds(environ, os.getpid() if pid is None else pid)
        self._feeding: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """Notify that the start, or a reload, is complete."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Includes the time, which the manager uses to match this notice to the reload that it requested."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={self._monotonic_ns() // 1000}", _status("reloading"))

    def stopping(self) -> None:
        self._send("STOPPING=1", _status("stopping"))

    def status(self, text: str) -> None:
        """One line of text, as ``systemctl status`` shows it. May be called from any thread."""
        self._send(_status(text))

    def feed_watchdog(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send keep-alives twice per watchdog interval, until ``leave``."""
        if self.watchdog is not None and self._address is not None:
            self._send("WATCHDOG=1")
            self._feeding = loop.call_later(self.watchdog / 2, self.feed_watchdog, loop)

    def leave(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
            self._feeding = None

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)  # a manager that does not read must not block the loop
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError as problem:
            log.warning("service manager cannot be notified", notification=lines[0], reason=problem)


def _address(given: str) -> str | None:
    """``@name`` is an abstract socket; anything that is neither that nor a path is ignored."""
    if not given:
        return None
    if given[0] not in "/@" or not hasattr(socket, "AF_UNIX"):
        log.warning("NOTIFY_SOCKET is invalid, expected a path or @name", address=given)
        return None
    return "\0" + given[1:] if given[0] == "@" else given


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """None also if the watchdog is for another process: the environment may be inherited."""
    given, meant_for = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not given.isdecimal() or int(given) == 0 or (meant_for and meant_for != str(pid)):
        return None
    return int(given) / 1_000_000


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())  # a line break would begin another field
