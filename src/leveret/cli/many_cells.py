"""``leveret serve --cells N``: this process is the first cell, and the others are processes of it.

A cell is added while the broker runs (docs/decisions/0101): its process is started, and connects to the first cell as
after any start. How many cells there are is kept in the data directory, so that a restart has them all.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from leveret.cells_node import CellNode, CellPlan, number_of
from leveret.cli.cell_processes import CellProcess, OtherCells, refuse_other_systems, run_cell, with_ports
from leveret.config import MOST_CELLS, Settings
from leveret.errors import ClusterError, PreconditionFailed
from leveret.logs import get_log
from leveret.server.initial_definitions import ShowFirstLogin
from leveret.server.settings_reload import Loading
from leveret.store.data_dir import cell_folder, is_removed, keep_cells, kept_cells, mark_removed, unmark_removed

log = get_log("cells")


def number_of_cells(settings: Settings) -> int:
    """That of the setting, or more if cells were added while the broker ran."""
    return max(settings.cells, 0 if settings.data_dir is None else kept_cells(settings.data_dir))


class ManyCells(CellNode):
    """The first cell, with the processes of the others."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], show_first_login: ShowFirstLogin | None) -> None:
        refuse_other_systems()
        self._all_settings = settings
        plan = CellPlan("c1", number_of_cells(settings), secrets.token_bytes(32))
        super().__init__(settings, plan, environ=environ, show_first_login=show_first_login)
        self.node.broker.cells.add = self.add_cell
        self._others = OtherCells()
        self._changes: set[asyncio.Task[None]] = set()  # cells that are being added, or whose processes are stopped

    async def start(self) -> None:
        if self.plan.number > self._all_settings.cells:
            remedy = f"set --cells {self.plan.number}"
            log.warning("there are more cells than --cells: they were added while the broker ran", remedy=remedy)
        await super().start()
        try:
            for name in self.plan.names[1:]:
                self._take_back(name)
            await self._others.start([CellProcess(name, self._main_of(name)) for name in self.plan.names[1:]])
        except BaseException:
            await self.stop()
            raise

    def _settings_of(self, name: str) -> Settings:
        """What a cell derives its settings from."""
        return with_ports(self._all_settings, self.endpoints)

    def _main_of(self, name: str) -> Callable[[Connection], None]:
        """The main function of the process of a cell."""
        return partial(run_cell, self._settings_of(name), self.plan._replace(name=name, first=self.address))

    # ---- adding

    async def add_cell(self) -> str:
        """Start one more cell; returns its name when it is ready. It is started even if the caller is cancelled."""
        if self._changes:
            raise PreconditionFailed("another cell is being added or removed: try again in a moment")
        running = [each.name for each in self._others.processes]
        name = next((each for each in self.plan.names[1:] if each not in running), f"c{self.plan.number + 1}")
        if number_of(name) > MOST_CELLS:
            raise PreconditionFailed(f"a broker can have {MOST_CELLS} cells")
        await asyncio.shield(self._change(self._add(name)))
        return name

    def _change(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        def over(task: asyncio.Task[None]) -> None:
            self._changes.discard(task)
            if not task.cancelled() and (problem := task.exception()) is not None:
                log.error("number of cells cannot be changed", reason=str(problem))

        task = asyncio.create_task(work)
        self._changes.add(task)
        task.add_done_callback(over)
        return task

    async def _add(self, name: str) -> None:
        await self.refuse_used_ports(self._all_settings, name)
        former = self.plan.number
        self._keep(max(former, number_of(name)))
        self._take_back(name)
        try:
            await self._others.start([CellProcess(name, self._main_of(name))])
        except ClusterError as problem:
            if name not in self.node.sharding.membership.cells:
                await self._give_up(name, former)
                raise PreconditionFailed(f"no cell was added: {problem}") from None
            self._others.keep(name)  # it may have queues by now
            raise PreconditionFailed(f"{problem}; it is started again and again, until it runs") from None
        log.info("cell added", cell=name)

    def _keep(self, number: int) -> None:
        """So many cells from now on, also after a restart."""
        if self._all_settings.data_dir is not None:
            keep_cells(self._all_settings.data_dir, number)
        self.resize(number)
        for process in self._others.processes:
            process.run = self._main_of(process.name)

    async def _give_up(self, name: str, former: int) -> None:
        await self._others.stop_one(name, self.settings.shutdown_timeout * 0.8)
        self._keep(former)
        folder = self._all_settings.data_dir
        if folder is not None and cell_folder(folder, name).is_dir():
            mark_removed(folder, name)

    def _take_back(self, cell: str) -> None:
        """A cell that was removed is started again, as a new one."""
        if (removals := self.node.broker.cells.removals) is not None:
            removals.removed.discard(cell)
        folder = self._all_settings.data_dir
        if folder is not None and is_removed(folder, cell):
            self.node.sharding.membership.rejoin(cell)
            unmark_removed(folder, cell)

    # ---- removing

    def remove_cell(self, cell: str) -> None:
        self._change(self._remove(cell))

    async def _remove(self, cell: str) -> None:
        """Its process ends, and its directory is marked, so that fewer cells can be started."""
        await self._others.stop_one(cell, self.settings.shutdown_timeout * 0.8)
        if self._all_settings.data_dir is not None:
            mark_removed(self._all_settings.data_dir, cell)
        log.info("cell removed", cell=cell)

    async def stop(self) -> None:
        for change in self._changes:
            change.cancel()
        seconds = self.settings.shutdown_timeout * 0.8
        await asyncio.gather(super().stop(), self._others.stop(seconds))

    async def reload(self, load: Callable[[], Settings]) -> str:
        loading = Loading(load)
        status = await super().reload(loading)
        self._all_settings = loading.applied_to(self._all_settings)
        self._others.reload(self._settings_of, self._main_of)
        return status
