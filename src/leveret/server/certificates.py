"""Certificates that are renewed while the broker runs: asked for by a reload, or noticed when their files change.

New files become a new context, tried whole before anybody meets it; then the listener is told to receive new peers with
it. A context that peers have met is never changed, so no handshake sees half of a change, and neither the authorities
nor the tickets of earlier contexts live on in it. Files that cannot be used leave everything as it was; they are looked
at again once they change, which they do when a renewal that had written one of two files writes the other.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from leveret.broker.timers import Timer, Timers
from leveret.errors import ConfigError
from leveret.logs import get_log
from leveret.server.tls import server_context

T = TypeVar("T")
INTERVAL = 60.0  # seconds between two looks at the files
Seen = tuple[tuple[int, int, int] | None, ...]

log = get_log("tls")


class Certificates:
    """The files of one node. ``context()`` at the start; later contexts go to ``renew``."""

    def __init__(
        self,
        files: tuple[Path, Path | None, Path | None],
        timers: Timers,
        renew: Callable[[ssl.SSLContext], Awaitable[None]],
    ) -> None:
        self._files = files  # certificate, key, authorities
        self._timers = timers
        self._renew = renew
        self._seen: Seen = ()
        self._one_at_a_time = asyncio.Lock()
        self._timer: Timer | None = None
        self._looking: asyncio.Task[None] | None = None

    def context(self) -> ssl.SSLContext:
        """Reads the files; ConfigError names the one that cannot be used."""
        self._seen = self._look_at_files()  # before they are read: a later change is then seen later
        return server_context(*self._files)

    def watch(self) -> None:
        self._timer = self._timers.at(self._timers.clock.now() + INTERVAL, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    async def reload(self) -> bool:
        """Whether new peers now meet what the files say; if not, the log has the reason."""
        async with self._one_at_a_time:
            return await self._reload()

    def _due(self) -> None:
        self.watch()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._reload_if_changed())

    async def _reload_if_changed(self) -> None:
        async with self._one_at_a_time:
            if await _in_thread(self._look_at_files) != self._seen:
                await self._reload()

    async def _reload(self) -> bool:
        try:
            context = await _in_thread(self.context)
            await self._renew(context)
        except (ConfigError, OSError) as problem:
            log.error("certificate not renewed, the old one stays", certificate=self._files[0], reason=problem)
            return False
        log.info("certificate renewed", certificate=self._files[0])
        return True

    def _look_at_files(self) -> Seen:
        return tuple(_look(path) for path in self._files)


def _look(path: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file is written or another put in its place, also behind a symbolic link."""
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def _in_thread(job: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, job)
