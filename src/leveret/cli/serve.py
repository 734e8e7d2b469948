"""``leveret serve``: the one place that may change the process itself (signals, limits, garbage collection, logs).

Signals are taken with ``signal.signal`` on every system rather than by the loop: the handler then also runs while
the loop is stuck, so that a second signal always ends the process.

SIGHUP, where there is one, reloads. It also comes when the terminal goes away that the broker was started in; then it
ends the broker, which nobody could stop by Ctrl-C any more.
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

from leveret.cli.banner import banner, first_login
from leveret.cli.event_loop import loop_factory
from leveret.cli.settings import mistyped
from leveret.cli.version import version
from leveret.config import Settings
from leveret.config_sources import Loaded, load_settings, load_with_sources
from leveret.errors import ConfigError, StoreError
from leveret.logs import configure_logs, get_log

COLLECT_EVERY = 60.0  # seconds
COLLECT_BELOW = 8 << 20  # bytes that messages use
log = get_log(__name__)

MOST_FILES = 1 << 20
"""Enough for any broker; some systems call their hard limit infinite and then refuse to set that."""


class NodeLike(Protocol):
    """What ``serve`` needs of a node. ``start`` that fails or is cancelled has undone what it did."""

    settings: Settings
    endpoints: dict[str, str]

    @property
    def url_user(self) -> str: ...

    @property
    def message_memory(self) -> int:
        """Bytes that messages use."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def reload(self, load: Callable[[], Settings]) -> None: ...


class Terminal:
    """Where the operator reads: the banner, and once in a broker's life a password."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self._environ = environ
        self._has_shown_login_of = ""

    def show_first_login(self, user: str, password: str) -> None:
        """Not into a journal, which is kept and read by others: then there must be a password of the operator's."""
        if _is_journal(self._out, self._environ):
            raise ConfigError(
                "a broker that is open to a network needs a first password, and a made-up one would be kept in the "
                "journal: set default_password in the config file or LEVERET_DEFAULT_PASSWORD, and default_user with it"
            )
        self._out.write(first_login(user, password))
        self._out.flush()
        self._has_shown_login_of = user

    def show_banner(self, node: NodeLike) -> None:
        text = banner(node.settings, node.endpoints, version(), node.url_user, self._has_shown_login_of)
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as problem:  # nobody reads our output: no reason not to serve
            log.warning("banner cannot be written", reason=problem)


def serve(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Run a node until a signal; gives the exit code. ConfigError passes through to ``main``."""
    loaded = load_with_sources(config, environ, flags)
    configure_logs(loaded.settings.log_format, loaded.settings.log_level)
    for notice in loaded.notices:
        log.warning("setting renamed", notice=notice)
    for name, near in mistyped(environ).items():
        log.warning("environment variable is not a setting", variable=name, nearest=near)
    look_for_cycles_seldom()
    raise_file_limit()
    terminal = Terminal(sys.stdout, environ)
    try:
        return run(_node(loaded, environ, terminal), terminal, lambda: load_settings(config, environ, flags))
    except (OSError, StoreError) as problem:
        sys.stderr.write(f"leveret: cannot start: {problem}\n")
        return 1


def _node(loaded: Loaded, environ: Mapping[str, str], terminal: Terminal) -> NodeLike:
    from leveret.node import Node  # only now: a wrong flag should not wait for the whole house to be imported

    has_password = loaded.sources["default_password"] != "default"  # noqa: S105  # a source, no password
    show = None if has_password else terminal.show_first_login
    return Node(loaded.settings, environ=environ, show_first_login=show)


def run(
    node: NodeLike, terminal: Terminal, load: Callable[[], Settings], exit_now: Callable[[int], object] = os._exit
) -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_live(node, terminal, load, exit_now))


async def _live(
    node: NodeLike, terminal: Terminal, load: Callable[[], Settings], exit_now: Callable[[int], object]
) -> int:
    """Start, wait for a signal, stop. A signal during a long start (recovery) cuts the start short."""
    stopping, hung_up = asyncio.Event(), asyncio.Event()
    with stop_signals(stopping, exit_now), hangup_signal(stopping, hung_up):
        told = asyncio.ensure_future(stopping.wait())
        starting = asyncio.ensure_future(node.start())
        try:
            await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                settle_garbage()
                terminal.show_banner(node)
                beside = {
                    asyncio.ensure_future(reload_when(hung_up, node, load)),
                    asyncio.ensure_future(collect_when_small(node)),
                }
                await told
                for task in beside:
                    task.cancel()
                await asyncio.wait(beside)
            else:
                starting.cancel()
                await asyncio.wait({starting})
        finally:
            told.cancel()
        return await _stop(node, node.settings.shutdown_timeout, exit_now)


async def reload_when(hung_up: asyncio.Event, node: NodeLike, load: Callable[[], Settings]) -> None:
    """One reload at a time; signals that come during one make one more."""
    while True:
        await hung_up.wait()
        hung_up.clear()
        try:
            await node.reload(load)
        except Exception:
            log.exception("internal error during reload")
        configure_logs(node.settings.log_format, node.settings.log_level)


async def _stop(node: NodeLike, seconds: float, exit_now: Callable[[int], object]) -> int:
    """A stop that hangs must not outlive its time: not the task, nor the threads that an orderly exit would join."""
    stop = asyncio.ensure_future(node.stop())
    await asyncio.wait({stop}, timeout=seconds * 0.95)  # the rest is for leaving the interpreter
    if not stop.done():
        log.error("shutdown timed out, exiting", seconds=seconds)
        exit_now(1)
        return 1
    stop.result()
    log.info("stopped")
    return 0


@contextmanager
def stop_signals(stopping: asyncio.Event, exit_now: Callable[[int], object]) -> Iterator[None]:
    """While inside: the first SIGTERM, SIGINT (or Ctrl-Break) sets ``stopping``, the next one leaves at once."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def heard(signum: int, _frame: object) -> None:
        if seen:
            exit_now(128 + signum)
            return
        seen.append(signum)
        loop.call_soon_threadsafe(_begin, signum)

    def _begin(signum: int) -> None:
        log.info("stopping", signal=signal.Signals(signum).name)
        stopping.set()

    names = [name for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name)]
    before = [(number, signal.signal(number, heard)) for number in (getattr(signal, name) for name in names)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def hangup_signal(stopping: asyncio.Event, hung_up: asyncio.Event) -> Iterator[None]:
    """While inside: SIGHUP sets ``hung_up``, or ``stopping`` if it came because our terminal is gone."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    loop = asyncio.get_running_loop()
    had_terminal = os.isatty(0)

    def heard() -> None:
        if had_terminal and not os.isatty(0):
            log.info("stopping", reason="terminal closed")
            stopping.set()
        else:
            hung_up.set()

    before = signal.signal(signal.SIGHUP, lambda _signum, _frame: loop.call_soon_threadsafe(heard))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _is_journal(out: TextIO, environ: Mapping[str, str]) -> bool:
    """systemd says by number which stream of ours is its journal."""
    try:
        found = os.fstat(out.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def look_for_cycles_seldom() -> None:
    """A broker makes few cycles and many objects. Objects that survive their first collection are not scanned again: a
    million waiting messages would hold the event loop for 0.1 s. For the cycles among them see ``collect_when_small``.
    """
    gc.set_threshold(200_000, 1 << 30, 1 << 30)


def settle_garbage() -> None:
    """What exists after the start stays: never scan it again."""
    gc.collect()
    gc.freeze()


async def collect_when_small(node: NodeLike) -> None:
    """Collect cycles while the broker holds so little that it takes a few milliseconds. Where it holds much, memory
    that stays high has the same done in a worker (server/periodic_checks.py)."""
    while True:
        await asyncio.sleep(COLLECT_EVERY)
        if node.message_memory < COLLECT_BELOW:
            gc.collect()


def raise_file_limit() -> None:
    """Every connection is a file: take all that the system grants. Windows has no such limit."""
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
