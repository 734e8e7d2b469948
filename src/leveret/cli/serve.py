"""``leveret serve``: the only module that changes the process itself (signals, limits, garbage collection, logs).

Signal handlers are installed with ``signal.signal`` and not by the event loop: they also run while the loop is stuck,
so that a second signal always ends the process.

SIGHUP reloads the settings, where it exists. It is also sent when the terminal of the broker is closed; then it stops
the broker, which could no longer be stopped by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TextIO

from leveret.cli.banner import banner, first_login, ready_facts
from leveret.cli.event_loop import loop_factory
from leveret.cli.settings import mistyped
from leveret.config import Settings
from leveret.config_sources import Loaded, load_settings, load_with_sources
from leveret.errors import ClusterError, ConfigError, StoreError
from leveret.logs import configure_logs, get_log
from leveret.machine import keep_freed_memory, trim_heap
from leveret.store.data_dir import kept_cells, refuse_fewer_cells
from leveret.version import VERSION

COLLECT_EVERY = 60.0  # seconds
COLLECT_BELOW = 8 << 20  # bytes used by messages
WORTH_TRIMMING = 10_000  # objects: those of about 300 connections
log = get_log(__name__)

MOST_FILES = 1 << 20
"""Enough for any broker; some systems report an infinite hard limit and then refuse to set it."""


class StartedNode(Protocol):
    """What the banner and the log show of a node."""

    @property
    def settings(self) -> Settings: ...

    @property
    def endpoints(self) -> Mapping[str, str]: ...

    @property
    def url_user(self) -> str: ...

    @property
    def cell_facts(self) -> Mapping[str, str]:
        """For the banner: the cell of this node, its role and its cluster port. Empty for a single node."""

    @property
    def recovered(self) -> Mapping[str, object]:
        """What the start has read from the data directory: messages, queues, and the state. Empty if it was new."""


class NodeLike(StartedNode, Protocol):
    """The interface of a node to ``serve``. A ``start`` that fails or is cancelled releases everything it acquired."""

    @property
    def message_memory(self) -> int:
        """Bytes used by messages."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def reload(self, load: Callable[[], Settings]) -> object: ...


class TerminalLike(Protocol):
    def show_banner(self, node: StartedNode) -> None: ...


class Terminal:
    """Standard output of the broker: the banner and, at the first start, a generated password.

    Without a terminal, a log line has the same facts as the banner. With logs in JSON there is no banner: programs read
    the output.
    """

    def __init__(self, out: TextIO, environ: Mapping[str, str], log_format: str = "human") -> None:
        self._out = out
        self._environ = environ
        self._has_banner = log_format != "json"
        self._has_shown_login_of = ""

    def show_first_login(self, user: str, password: str) -> None:
        """Refused if standard output is the systemd journal, which stores it and which other users can read."""
        if _is_journal(self._out, self._environ):
            raise ConfigError(
                "a broker that listens on a network address needs an initial password, and a generated one would be "
                "stored in the systemd journal: set default_user and default_password in the config file, or "
                "LEVERET_DEFAULT_USER and LEVERET_DEFAULT_PASSWORD"
            )
        self._out.write(first_login(user, password))
        self._out.flush()
        self._has_shown_login_of = user

    def show_banner(self, node: StartedNode) -> None:
        if not self._has_banner or not self._out.isatty():
            log.info("ready", **ready_facts(node.settings, node.endpoints, VERSION, node.recovered, node.cell_facts))
        if not self._has_banner:
            return
        text = banner(
            node.settings, node.endpoints, VERSION, node.url_user, self._has_shown_login_of, cell=node.cell_facts
        )
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as problem:  # standard output is closed: start anyway
            log.warning("banner cannot be written", reason=problem)


def serve(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Run a node until a signal, and return the exit code. ConfigError is handled by ``main``."""
    loaded = load_with_sources(config, environ, flags)
    configure_logs(loaded.settings.log_format, loaded.settings.log_level)
    for notice in loaded.notices:
        log.warning("setting renamed", notice=notice)
    for name, near in mistyped(environ).items():
        log.warning("environment variable is not a setting", variable=name, nearest=near)
    collect_garbage_rarely()
    keep_freed_memory()
    raise_file_limit()
    terminal = Terminal(sys.stdout, environ, loaded.settings.log_format)
    try:
        return run(_node(loaded, environ, terminal), terminal, lambda: load_settings(config, environ, flags))
    except (OSError, StoreError, ClusterError) as problem:
        sys.stderr.write(f"leveret: cannot start: {problem}\n")
        return 1


def _node(loaded: Loaded, environ: Mapping[str, str], terminal: Terminal) -> NodeLike:
    has_password = loaded.sources["default_password"] != "default"  # noqa: S105  # a source, not a password
    show = None if has_password else terminal.show_first_login
    folder, cells = loaded.settings.data_dir, loaded.settings.cells
    if folder is not None:
        if not loaded.settings.cluster:
            cells = max(cells, kept_cells(folder))
        refuse_fewer_cells(folder, cells)
    if loaded.settings.cluster:
        return _cluster_node(loaded.settings, environ, show)
    if cells > 1:
        from leveret.cli.many_cells import ManyCells

        return ManyCells(loaded.settings, environ, show)
    from leveret.node import Node  # slow to import: invalid flags are reported without it

    return Node(loaded.settings, environ=environ, show_first_login=show)


def _cluster_node(settings: Settings, environ: Mapping[str, str], show: Callable[[str, str], None] | None) -> NodeLike:
    try:
        from leveret.cli.member_processes import new_member
        from leveret.cluster_node import ClusterNode
    except ModuleNotFoundError as problem:
        if problem.name != "nats":
            raise
        raise ConfigError("--cluster needs nats-py, the NATS client: pip install 'leveret[cluster]'") from problem
    if settings.cells > 1:
        return new_member(settings, environ, show)
    return ClusterNode(settings, environ=environ, show_first_login=show)


def run(
    node: NodeLike, terminal: TerminalLike, load: Callable[[], Settings], exit_now: Callable[[int], object] = os._exit
) -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_live(node, terminal, load, exit_now))


async def _live(
    node: NodeLike, terminal: TerminalLike, load: Callable[[], Settings], exit_now: Callable[[int], object]
) -> int:
    """Start, wait for a signal, stop. A signal during a long start (recovery) aborts it."""
    stopping, hung_up = asyncio.Event(), asyncio.Event()
    with stop_signals(stopping, exit_now), hangup_signal(stopping, hung_up):
        stop = asyncio.ensure_future(stopping.wait())
        starting = asyncio.ensure_future(node.start())
        try:
            await asyncio.wait({starting, stop}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                freeze_garbage()
                terminal.show_banner(node)
                background = {
                    asyncio.ensure_future(reload_when(hung_up, node, load)),
                    asyncio.ensure_future(collect_when_small(node)),
                }
                await stop
                for task in background:
                    task.cancel()
                await asyncio.wait(background)
            else:
                starting.cancel()
                await asyncio.wait({starting})
        finally:
            stop.cancel()
        return await _stop(node, node.settings.shutdown_timeout, exit_now)


async def reload_when(hung_up: asyncio.Event, node: NodeLike, load: Callable[[], Settings]) -> None:
    """One reload at a time; signals during a reload cause one more."""
    while True:
        await hung_up.wait()
        hung_up.clear()
        try:
            await node.reload(load)
        except Exception:
            log.exception("internal error during reload")
        configure_logs(node.settings.log_format, node.settings.log_level)


async def _stop(node: NodeLike, seconds: float, exit_now: Callable[[int], object]) -> int:
    """Exit after ``seconds`` even if the stop hangs, without waiting for its task or threads."""
    stop = asyncio.ensure_future(node.stop())
    await asyncio.wait({stop}, timeout=seconds * 0.95)  # the rest is for the exit of the interpreter
    if not stop.done():
        log.error("shutdown timed out, exiting", seconds=seconds)
        exit_now(1)
        return 1
    stop.result()
    log.info("stopped")
    return 0


@contextmanager
def stop_signals(stopping: asyncio.Event, exit_now: Callable[[int], object]) -> Iterator[None]:
    """The first SIGTERM, SIGINT or Ctrl-Break sets ``stopping``, the next one exits immediately."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def handle(signum: int, _frame: object) -> None:
        if seen:
            exit_now(128 + signum)
            return
        seen.append(signum)
        loop.call_soon_threadsafe(_begin, signum)

    def _begin(signum: int) -> None:
        log.info("stopping", signal=signal.Signals(signum).name)
        stopping.set()

    names = [name for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name)]
    before = [(number, signal.signal(number, handle)) for number in (getattr(signal, name) for name in names)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def hangup_signal(stopping: asyncio.Event, hung_up: asyncio.Event) -> Iterator[None]:
    """SIGHUP sets ``hung_up``, or ``stopping`` if the terminal was closed."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    loop = asyncio.get_running_loop()
    had_terminal = os.isatty(0)

    def handle() -> None:
        if had_terminal and not os.isatty(0):
            log.info("stopping", reason="terminal closed")
            stopping.set()
        else:
            hung_up.set()

    before = signal.signal(signal.SIGHUP, lambda _signum, _frame: loop.call_soon_threadsafe(handle))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _is_journal(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether ``out`` is the stream that systemd names in JOURNAL_STREAM."""
    try:
        found = os.fstat(out.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def collect_garbage_rarely() -> None:
    """A broker creates few cycles and many objects. Objects that survive one collection are not scanned again: a
    million ready messages would block the event loop for 0.1 s. For the cycles among them see ``collect_when_small``.
    One collection takes up to 46 ms. With 150,000 it takes 30, and messages up to 5 % more CPU: what is on its way is
    collected more often.
    """
    gc.set_threshold(200_000, 1 << 30, 1 << 30)


def freeze_garbage() -> None:
    """Objects that exist after the start are permanent: do not scan them again."""
    gc.collect()
    gc.freeze()


async def collect_when_small(node: NodeLike) -> None:
    """Collect cycles while there are few messages, which takes a few milliseconds. With many messages, a worker does it
    when memory stays high (server/periodic_checks.py). Closed connections are cycles: their memory is returned."""
    while True:
        await asyncio.sleep(COLLECT_EVERY)
        if node.message_memory < COLLECT_BELOW and gc.collect() > WORTH_TRIMMING:
            await asyncio.get_running_loop().run_in_executor(None, trim_heap)


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum: each connection needs one. Windows has no such limit."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as problem:
        log.warning("file descriptor limit cannot be raised", files=soft, wanted=wanted, reason=problem)
