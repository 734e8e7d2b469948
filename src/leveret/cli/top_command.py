"""``leveret top``: the busiest queues and connections, refreshed periodically.

If the broker becomes unreachable, the screen shows the error until it is reachable again.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from leveret.cli.api_client import Api, CommandProblem, Misuse
from leveret.cli.broker_options import ANY_VHOST, at_broker, single_command
from leveret.cli.name_completion import choices
from leveret.cli.output import print_line
from leveret.cli.top_screen import OLD_SORTS, SORTS, ScreenSize, screen

app = single_command()

KEYS = "q quit   s change sort order"
HEAD_LINES = 11  # lines of a screen besides the rows
LEAST_ROWS = 3
WHOLE = ScreenSize(None, 20, 10)
WaitKey = Callable[[float], str]


@app.command()
@at_broker
def top(
    api: Api,
    sort: str = typer.Option(
        "messages", "--sort", metavar="WHAT", help=f"Sort queues by {', '.join(SORTS)}.", autocompletion=choices(*SORTS)
    ),
    interval: float = typer.Option(2.0, "--interval", metavar="SECONDS", min=0.1, help="Refresh interval."),
    once: bool = typer.Option(False, "--once", help="Print once and exit (default when not a terminal)."),
    vhost: str | None = ANY_VHOST,
) -> None:
    """Show rates, the busiest queues and connections, live. Keys: q quits, s changes the sort order."""
    sort = OLD_SORTS.get(sort, sort)
    if sort not in SORTS:
        raise Misuse(f"invalid --sort {sort!r}: choose one of {', '.join(SORTS)}")
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        print_line("\n".join(screen(api, sort, vhost, WHOLE)))
        return
    screen(api, sort, vhost, WHOLE)  # an error of the first request ends the command
    try:
        _watch(api, sort, vhost, interval)
    except KeyboardInterrupt:
        return


def _watch(api: Api, sort: str, vhost: str | None, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    sorts = list(SORTS)
    with Live(console=Console(), screen=True, auto_refresh=False) as live, _keys() as wait_key:
        while True:
            lines = _lines(api, sort, vhost)
            text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
            text.highlight_regex(r"ALARM: [^,]+, publishers are blocked", "bold red")
            live.update(text, refresh=True)
            key = wait_key(interval)
            if key in ("q", "Q"):
                return
            if key in ("s", "S"):
                sort = sorts[(sorts.index(sort) + 1) % len(sorts)]


def _lines(api: Api, sort: str, vhost: str | None) -> list[str]:
    columns, height = shutil.get_terminal_size()
    rows = max(height - HEAD_LINES, 2 * LEAST_ROWS)
    try:
        lines = screen(api, sort, vhost, ScreenSize(columns, rows - rows // 3, rows // 3))
    except CommandProblem as problem:
        lines = [str(problem)]
    return [*lines[: height - 2], "", KEYS]


@contextmanager
def _keys() -> Iterator[WaitKey]:
    """A function that waits for a key, without Return and without echo."""
    try:
        import select
        import termios
        import tty
    except ImportError:  # Windows: Ctrl-C quits
        yield _wait_only
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def wait_key(seconds: float) -> str:
        ready, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 1).decode(errors="replace") if ready else ""

    tty.setcbreak(terminal)
    try:
        yield wait_key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _wait_only(seconds: float) -> str:
    time.sleep(seconds)
    return ""
