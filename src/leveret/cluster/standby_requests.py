"""Requests of the command line to a standby (store/request_files.py). It refuses them: only a leader makes backups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from leveret.logs import LogInterval, get_log
from leveret.store.request_files import FAILED, answer, next_request

LOOK_EVERY = 0.5  # seconds
BETWEEN_WARNINGS = 60.0


class StandbyRequests:
    def __init__(self, folder: Path, leads: Callable[[], bool], leader: Callable[[], str]) -> None:
        """``leads``: whether this node does, and its broker serves the requests. ``leader``: the name of the leader."""
        self._folder = folder
        self._leads = leads
        self._leader = leader
        self._warnings = LogInterval(BETWEEN_WARNINGS)

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._leads():
                continue
            try:
                await loop.run_in_executor(None, self._refuse)
            except OSError as problem:
                if self._warnings.is_due(loop.time()):
                    get_log("cluster").warning("requests of the command line cannot be read", reason=str(problem))

    def _refuse(self) -> None:
        request = next_request(self._folder)
        if request is not None and not self._leads():
            leader = self._leader()
            where = f"node {leader!r}" if leader else "none at present"
            answer(
                self._folder,
                request.id,
                FAILED,
                error=f"this node is a standby: run the command on the machine of the leader ({where})",
            )
