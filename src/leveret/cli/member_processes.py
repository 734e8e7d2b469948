"""``leveret serve --cluster URLS --cells N``: this process is a member of the first cell, and those of the others are
processes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection

from leveret.cli.cell_processes import (
    CellProcess,
    OtherCells,
    Reporting,
    refuse_other_systems,
    run_process,
    with_ports,
)
from leveret.cluster_node import ClusterNode
from leveret.config import Settings
from leveret.replicated_cell import cell_names, member_settings, placed_cells
from leveret.server.initial_definitions import ShowFirstLogin
from leveret.server.settings_reload import Loading


def new_member(settings: Settings, environ: Mapping[str, str], show: ShowFirstLogin | None) -> ClusterNode:
    """Of the cell that is named, or of all cells."""
    refuse_other_systems()
    placed = placed_cells(settings)
    if len(placed) > 1:
        return ManyMembers(settings, environ, show)
    return OneMember(settings, placed[0], environ, show)


class OneMember(ClusterNode):
    """The member of one cell, which the operator has chosen."""

    def __init__(
        self, settings: Settings, cell: str, environ: Mapping[str, str], show_first_login: ShowFirstLogin | None
    ) -> None:
        super().__init__(member_settings(settings, cell), environ=environ, show_first_login=show_first_login)
        self._cell_name = cell

    async def reload(self, load: Callable[[], Settings]) -> None:
        await super().reload(lambda: member_settings(load(), self._cell_name))


class ManyMembers(ClusterNode):
    """The member of the first cell, with the processes of the others."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], show_first_login: ShowFirstLogin | None) -> None:
        self._all_settings = settings
        self._names = cell_names(settings)
        first = member_settings(settings, self._names[0])
        super().__init__(first, environ=environ, show_first_login=show_first_login)
        self._others = OtherCells()

    async def start(self) -> None:
        await super().start()
        try:
            await self._others.start([CellProcess(name, self._main_of(name)) for name in self._names[1:]])
        except BaseException:
            await self.stop()
            raise

    def _settings_of(self, name: str) -> Settings:
        return member_settings(with_ports(self._all_settings, self.endpoints), name)

    def _main_of(self, name: str) -> Callable[[Connection], None]:
        return partial(run_member, self._settings_of(name))

    async def stop(self) -> None:
        seconds = self.settings.shutdown_timeout * 0.8
        await asyncio.gather(super().stop(), self._others.stop(seconds))

    async def reload(self, load: Callable[[], Settings]) -> None:
        loading = Loading(load)
        await super().reload(lambda: member_settings(loading(), self._names[0]))
        self._all_settings = loading.applied_to(self._all_settings)
        self._others.reload(self._settings_of, self._main_of)

    @property
    def cell_facts(self) -> dict[str, str]:
        number = len(self._names)
        return {**super().cell_facts, "cells": f"{number} processes, each a member of a cell; HTTP in {self._names[0]}"}


class ReportingMember(Reporting, ClusterNode):
    pass


def run_member(settings: Settings, pipe: Connection) -> None:
    """The main function of the process of a member."""
    run_process(ReportingMember(settings), settings, settings.cell, pipe)
