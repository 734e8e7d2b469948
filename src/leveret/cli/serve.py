"""``leveret serve``: the one place that may change the process itself (signals, limits, garbage collection, logs).

Signals are taken with ``signal.signal`` on every system rather than by the loop: the handler then also runs while
the loop is stuck, so that a second signal always ends the process.
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

from leveret.cli.banner import banner
from leveret.cli.version import version
from leveret.config import Settings, load_settings
from leveret.errors import StoreError
from leveret.logs import configure_logs, get_log

log = get_log(__name__)

MOST_FILES = 1 << 20
"""Enough for any broker; some systems call their hard limit infinite and then refuse to set that."""


class NodeLike(Protocol):
    """What ``serve`` needs of a node. ``start`` that fails or is cancelled has undone what it did."""

    endpoints: dict[str, str]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def serve(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> int:
    """Run a node until a signal; gives the exit code. ConfigError passes through to ``main``."""
    settings = load_settings(config, environ, flags)
    configure_logs(settings.log_format, settings.log_level)
    raise_file_limit()
    from leveret.node import Node  # only now: a wrong flag should not wait for the whole house to be imported

    try:
        return run(settings, Node(settings))
    except (OSError, StoreError) as problem:
        sys.stderr.write(f"leveret: cannot start: {problem}\n")
        return 1


def run(settings: Settings, node: NodeLike, exit_now: Callable[[int], object] = os._exit) -> int:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_live(settings, node, sys.stdout, exit_now))


async def _live(settings: Settings, node: NodeLike, out: TextIO, exit_now: Callable[[int], object]) -> int:
    """Start, wait for a signal, stop. A signal during a long start (recovery) cuts the start short."""
    stopping = asyncio.Event()
    with stop_signals(stopping, exit_now):
        told = asyncio.ensure_future(stopping.wait())
        starting = asyncio.ensure_future(node.start())
        try:
            await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                settle_garbage()
                _show(out, banner(settings, node.endpoints, version()))
                await told
            else:
                starting.cancel()
                await asyncio.wait({starting})
        finally:
            told.cancel()
        return await _stop(node, settings.shutdown_timeout, exit_now)


async def _stop(node: NodeLike, seconds: float, exit_now: Callable[[int], object]) -> int:
    """A stop that hangs must not outlive its time: not the task, nor the threads that an orderly exit would join."""
    stop = asyncio.ensure_future(node.stop())
    await asyncio.wait({stop}, timeout=seconds * 0.95)  # the rest is for leaving the interpreter
    if not stop.done():
        log.error("stop took too long, leaving at once", seconds=seconds)
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


def settle_garbage() -> None:
    """What exists after the start stays: never scan it again, and look for cycles seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


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
        log.warning("file limit stays", files=soft, wanted=wanted, reason=problem)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _show(out: TextIO, text: str) -> None:
    try:
        out.write(text)
        out.flush()
    except OSError as problem:  # nobody reads our output: no reason not to serve
        log.warning("banner not shown", reason=problem)
