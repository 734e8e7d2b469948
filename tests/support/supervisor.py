"""The side of systemd of a service: a socket that receives its notifications. Every wait is bounded."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 60.0


class Supervisor:
    """``environ`` is for the service; ``told()`` is the next notification, as a dictionary."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        self._socket.settimeout(SECONDS)
        self.environ = {"NOTIFY_SOCKET": str(self._path)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def told(self) -> dict[str, str]:
        lines = self._socket.recv(65536).decode().split("\n")
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def wait_for(self, name: str) -> dict[str, str]:
        """The next notification that has this field."""
        while name not in (told := self.told()):
            pass
        return told
