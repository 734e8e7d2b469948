"""What commands say: JSON as the API gave it, one line for what was done, how far a long work is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import typer

from leveret.cli.api_client import Answer
from leveret.cli.tables import Column, cut, draw

LONGEST = 24  # letters before a bar: it shall fit beside them


def print_json(answer: Answer) -> None:
    """The very bytes of the answer, and the end of the line."""
    typer.echo(answer.body.rstrip(b"\n"))


def print_list(answer: Answer, columns: Sequence[Column], empty: str, as_json: bool) -> None:
    """As a table, or as it was answered; ``empty`` is what to tell a person when there is nothing."""
    if as_json:
        print_json(answer)
    else:
        draw(columns, answer.rows, empty)


def say(line: str) -> None:
    typer.echo(line)


def made(what: str, answer: Answer) -> None:
    """What a PUT has done: 201 is new, 204 was there before."""
    say(f"{what} {'created' if answer.status == 201 else 'is there as asked'}")


class Moved(Protocol):
    def __call__(self, done: int, of: int | None) -> None:
        """So much is done, of so much if that is known."""


@contextmanager
def progress(what: str) -> Iterator[Moved]:
    """A bar on standard error for whoever sits at a terminal; for all others nothing."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(cut(what, LONGEST), total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
