"""The processes of ``leveret serve --cells N`` (many_cells.py): the first cell's has those of the others as children.

For replicated cells see member_processes.py.

A cell that ends by itself is started again. The others end with this process, even if it is killed: each of them reads
a pipe whose other end is here.

A cell that hangs would go on to get its share of the connections, since the system accepts them for it. So this process
asks each of them over its pipe once per second, and kills one that has not answered for a minute. What is asked is
whether its event loop runs, nothing else: a lost connection, a full table of descriptors or a slow disk would not be
cured by a restart. Questions are counted and not seconds, and only while this process runs in time itself: if the
machine was suspended, or has no CPU left, nothing is killed. Neither is a process in a debugger.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from leveret.cells_node import CellNode, CellPlan
from leveret.config import Settings
from leveret.errors import ClusterError, ConfigError, LeveretError
from leveret.logs import configure_logs, get_log
from leveret.machine import keep_freed_memory

if TYPE_CHECKING:
    from leveret.cli.serve import NodeLike

    class ReportingNode(NodeLike, Protocol):
        pipe: Connection
        given: Settings


READY = "ready"
ALIVE = "alive"  # both the question and the answer
ASK_INTERVAL = 1.0  # seconds
MOST_UNANSWERED = 60
START_SECONDS = 600.0  # a long recovery takes minutes
RESTART_AFTER = 1.0  # seconds
SHARED_PORTS = ("amqp", "amqps", "stomp", "stomps")
log = get_log("cells")


class CellProcess:
    """One other cell: a process, which is started again when it ends. ``run`` is its main function, which gets a pipe
    for READY. It may be replaced."""

    def __init__(self, name: str, run: Callable[[Connection], None]) -> None:
        self.name = name
        self.run = run
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it is ready. Raises ClusterError with its reason if it cannot start."""
        await self._launch()
        self.watch()

    def watch(self) -> None:
        """Start it again whenever it ends."""
        self._watching = asyncio.create_task(self._watch())

    async def _launch(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self.run, args=(theirs,), name=f"leveret-{self.name}")
        self._process.start()
        theirs.close()
        report = await self._first_report()
        if report != READY:
            raise ClusterError(f"cell {self.name} cannot start: {report}")

    async def _first_report(self) -> str:
        """The first message of the process, or why there is none."""
        pipe = self._pipe
        assert pipe is not None
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(pipe.fileno(), readable.set)
        try:
            await asyncio.wait_for(readable.wait(), START_SECONDS)
            return str(pipe.recv())
        except (EOFError, OSError):
            return "it ended, see the log"
        except TimeoutError:
            return "it is not ready in time"
        finally:
            loop.remove_reader(pipe.fileno())

    async def _watch(self) -> None:
        while True:
            asking = asyncio.create_task(self._ask())
            try:
                await self._ended()
            finally:
                asking.cancel()
            assert self._process is not None
            log.error("cell ended, starting it again", cell=self.name, exit_code=self._process.exitcode)
            await asyncio.sleep(RESTART_AFTER)
            try:
                await self._launch()
                log.info("cell is ready again", cell=self.name)
            except (ClusterError, OSError) as problem:
                log.error("cell cannot be started again", cell=self.name, reason=str(problem))

    async def _ask(self) -> None:
        """Kill the process if it hangs."""
        pipe, process, loop = self._pipe, self._process, asyncio.get_running_loop()
        assert pipe is not None
        assert process is not None
        patience, is_answered = Patience(), True
        with suppress(EOFError, OSError):  # it has ended
            while not patience.is_over:
                if is_answered:
                    pipe.send(ALIVE)
                before = loop.time()
                await asyncio.sleep(ASK_INTERVAL)
                is_answered = pipe.poll()
                if is_answered:
                    pipe.recv()
                patience.asked(is_answered, loop.time() - before, is_traced(process.pid))
            log.error("cell does not answer, killing it", cell=self.name, pid=process.pid, questions=MOST_UNANSWERED)
            process.kill()

    async def _ended(self) -> None:
        assert self._process is not None
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        sentinel = self._process.sentinel
        loop.add_reader(sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(sentinel)

    def reload(self, settings: Settings) -> None:
        """Pass its settings on; it applies those that may change at runtime."""
        if self._pipe is not None:
            with suppress(OSError):  # it has ended
                self._pipe.send(settings)

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)

    async def stop(self, seconds: float) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._process is None:
            return
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._ended(), seconds)
        except TimeoutError:
            log.error("cell did not stop in time", cell=self.name, seconds=seconds)
            self._process.kill()
        self._process.join()
        if self._pipe is not None:
            self._pipe.close()


class Patience:
    """Counts the questions that a cell has not answered."""

    def __init__(self) -> None:
        self._unanswered = 0

    @property
    def is_over(self) -> bool:
        return self._unanswered >= MOST_UNANSWERED

    def asked(self, is_answered: bool, seconds: float, is_traced: bool) -> None:
        """``seconds``: that this process has taken to look for the answer. If it was late itself, the machine was
        suspended or has no CPU left, and the other process had no chance either."""
        if is_answered:
            self._unanswered = 0
        elif seconds < 2 * ASK_INTERVAL and not is_traced:
            self._unanswered += 1


def is_traced(pid: int | None) -> bool:
    """Whether a debugger holds the process."""
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")


class OtherCells:
    """The processes of all cells but the first."""

    def __init__(self) -> None:
        self.processes: list[CellProcess] = []

    async def start(self, processes: list[CellProcess]) -> None:
        """Besides those that run already."""
        self.processes = [*self.processes, *processes]
        await asyncio.gather(*(each.start() for each in processes))

    async def stop(self, seconds: float) -> None:
        await asyncio.gather(*(each.stop(seconds) for each in self.processes))

    def keep(self, name: str) -> None:
        """Start this one again until it runs, although its first start has failed."""
        for each in self.processes:
            if each.name == name:
                each.watch()

    async def stop_one(self, name: str, seconds: float) -> None:
        for each in [each for each in self.processes if each.name == name]:
            self.processes.remove(each)
            await each.stop(seconds)

    def reload(
        self, settings_of: Callable[[str], Settings], main_of: Callable[[str], Callable[[Connection], None]]
    ) -> None:
        """The settings of cells have changed: now, and when their processes are started again."""
        for each in self.processes:
            each.run = main_of(each.name)
            each.reload(settings_of(each.name))


def refuse_other_systems() -> None:
    if sys.platform != "linux":
        raise ConfigError("--cells needs Linux, which spreads the connections of one port over several processes")


def with_ports(settings: Settings, endpoints: Mapping[str, str]) -> Settings:
    """The ports for clients that the first cell listens on."""
    ports = {f"{scheme}_port": urlsplit(url).port for scheme, url in endpoints.items() if scheme in SHARED_PORTS}
    return replace(settings, **ports)  # type: ignore[arg-type]


class Reporting:
    """A node that reports to the first cell when it is ready, answers it while it runs, applies the settings that it
    passes on, and stops when it ends."""

    pipe: Connection
    given: Settings  # the last ones of the first cell

    async def start(self) -> None:
        asyncio.get_running_loop().add_reader(self.pipe.fileno(), self._answer)
        try:
            await super().start()  # type: ignore[misc]
        except (LeveretError, OSError) as problem:
            self.pipe.send(str(problem))
            raise
        self.pipe.send(READY)

    def _answer(self) -> None:
        try:
            message = self.pipe.recv()
            if isinstance(message, Settings):
                self.given = message
                signal.raise_signal(signal.SIGHUP)
            else:
                self.pipe.send(ALIVE)
        except (EOFError, OSError):  # the first cell has ended
            asyncio.get_running_loop().remove_reader(self.pipe.fileno())
            signal.raise_signal(signal.SIGTERM)


class ReportingCell(Reporting, CellNode):
    pass


class NoTerminal:
    """The first cell prints the banner of all."""

    def show_banner(self, node: object) -> None: ...


def run_cell(settings: Settings, plan: CellPlan, pipe: Connection) -> None:
    """The main function of the process of a cell."""
    run_process(ReportingCell(settings, plan), settings, plan.name, pipe)


def run_process(node: ReportingNode, settings: Settings, cell: str, pipe: Connection) -> None:
    from leveret.cli.serve import collect_garbage_rarely, raise_file_limit, run

    node.pipe, node.given = pipe, settings
    configure_logs(settings.log_format, settings.log_level)
    collect_garbage_rarely()
    keep_freed_memory()
    raise_file_limit()
    try:
        sys.exit(run(node, NoTerminal(), lambda: node.given))
    except (LeveretError, OSError) as problem:
        log.error("cell cannot start", cell=cell, reason=str(problem))
        sys.exit(1)
