"""Faults of links between three cells, c1 to c3, and what each of them may interrupt.

    report = asyncio.run(FaultedLinks(machines, cells, Random(1)).run(FAULTS, 5.0))

Every fault lasts for a given time and is healed before the next. Messages must go on, without a long pause, on all
paths that a fault does not concern, and on all of them after it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from tests.support.link_load import DRAIN_SECONDS, PAUSE, LinkLoad, Path
from tests.support.linked_cells import LinkedCells
from tests.support.machines import Machines
from tests.support.operation_history import Report
from tests.support.slow_link import Slowness

LONGEST_PAUSE = 3.0  # seconds without a confirm, on a path that a fault does not concern
HEAL_SECONDS = 90.0
LOST_SECONDS = 90.0  # in which a link is lost at the latest
SLOW = Slowness(delay=0.05, loss=0.05, rate=1e6)


class Site(NamedTuple):
    machines: Machines
    cells: LinkedCells
    load: LinkLoad

    def cut(self, source: str, target: str) -> None:
        self.machines.cut(self.cells.place(source), self.cells.place(target))


@contextmanager
def _cut(site: Site, *directions: tuple[str, str]) -> Iterator[None]:
    for source, target in directions:
        site.cut(source, target)
    try:
        yield
    finally:
        site.machines.heal()


def cut_both_ways(site: Site) -> object:
    return _cut(site, ("c1", "c2"), ("c2", "c1"))


def cut_from_first(site: Site) -> object:
    return _cut(site, ("c1", "c2"))


def cut_to_first(site: Site) -> object:
    return _cut(site, ("c2", "c1"))


@contextmanager
def slow(site: Site) -> Iterator[None]:
    site.machines.slow(0, 1, SLOW)
    site.machines.slow(1, 0, SLOW)
    try:
        yield
    finally:
        site.machines.heal()


@contextmanager
def stop(site: Site) -> Iterator[None]:
    site.cells["c2"].signal(signal.SIGSTOP)
    try:
        yield
    finally:
        site.cells["c2"].signal(signal.SIGCONT)


@contextmanager
def kill(site: Site) -> Iterator[None]:
    site.cells["c2"].kill()
    try:
        yield
    finally:
        site.cells["c2"].start()


class Fault(NamedTuple):
    """``concerns``: the paths that it may interrupt. ``loses_links``: if it lasts longer than links may be silent."""

    make: Callable[[Site], object]
    concerns: Callable[[Path], bool]
    loses_links: bool

    @property
    def name(self) -> str:
        return self.make.__name__


def between(path: Path) -> bool:
    return path.uses("c1", "c2")


def _of_second(path: Path) -> bool:
    return "c2" in path


FAULTS = (
    Fault(cut_both_ways, between, loses_links=True),
    Fault(cut_from_first, between, loses_links=True),
    Fault(cut_to_first, between, loses_links=True),
    Fault(slow, lambda path: False, loses_links=False),
    Fault(stop, _of_second, loses_links=True),
    Fault(kill, _of_second, loses_links=False),
)


class FaultedLinks:
    def __init__(self, machines: Machines, cells: LinkedCells, random: Random, *, rate: float = 12.0) -> None:
        self.load = LinkLoad(cells, random, rate=rate)
        self._cells = cells
        self._site = Site(machines, cells, self.load)

    async def run(
        self,
        faults: Sequence[Fault],
        seconds: float,
        meanwhile: Callable[[Site], object] | None = None,
        notify: Callable[[str], None] = lambda text: None,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> Report:
        """``meanwhile``: a coroutine function that is called during each fault, and may last longer than it.
        ``drain_seconds``: to wait at the end for messages that are missing."""
        await self.load.start()
        for fault in faults:
            notify(await self.make(fault, seconds, meanwhile))
        return await self.finish(drain_seconds)

    async def finish(self, drain_seconds: float = DRAIN_SECONDS) -> Report:
        await self.load.stop()
        await self.load.drain(drain_seconds)
        assert not self._cells.tracebacks(), self._cells.tracebacks()[0][-5000:]
        return self.load.history.check()

    async def make(self, fault: Fault, seconds: float, meanwhile: Callable[[Site], object] | None = None) -> str:
        """Returns how long messages paused. A pause on a path that the fault does not concern may be one of the whole
        machine, but not twice on the same path."""
        note, paused = await self._make(fault, seconds, meanwhile)
        if paused:
            note, again = await self._make(fault, seconds, None)
            twice = [path for path in paused if path in again]
            assert not twice, f"{fault.name}: no confirm on {twice} for {LONGEST_PAUSE} s"
        return note

    async def _make(
        self, fault: Fault, seconds: float, meanwhile: Callable[[Site], object] | None
    ) -> tuple[str, list[Path]]:
        begun, lost = time.monotonic(), len(self._cells.lost_links())
        with fault.make(self._site):  # type: ignore[attr-defined]
            lasting = asyncio.create_task(asyncio.sleep(seconds))
            if meanwhile is not None:
                await meanwhile(self._site)  # type: ignore[misc]
            await lasting
            while fault.loses_links and len(self._cells.lost_links()) == lost:
                assert time.monotonic() < begun + LOST_SECONDS, f"{fault.name}: no link was lost\n{self._cells.logs()}"
                await asyncio.sleep(PAUSE)
        healed = time.monotonic()
        await self.load.flows(self.load.paths, HEAL_SECONDS)
        ended = time.monotonic()
        lost = len(self._cells.lost_links()) - lost
        assert bool(lost) == fault.loses_links, f"{fault.name}: {lost} links were lost\n{self._cells.logs()}"
        others = {
            path: self.load.longest_wait(path, begun, ended) for path in self.load.paths if not fault.concerns(path)
        }
        note = f"{fault.name}: {healed - begun:.1f} s, flows again after {ended - healed:.1f} s"
        paused = [path for path, pause in others.items() if pause >= LONGEST_PAUSE]
        return f"{note}, others {max(others.values()):.2f} s", paused
