"""Output of commands: JSON as the API returned it, result lines, progress bars."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import typer

from leveret.cli.api_client import Answer, Row
from leveret.cli.tables import Column, cut, print_facts, print_table

Details = Callable[[Row], Iterable[tuple[Sequence[Column], list[Row] | None]]]
LONGEST = 24  # characters of the label of a progress bar


def print_json(answer: Answer) -> None:
    """The response body unchanged, followed by a newline."""
    typer.echo(answer.body.rstrip(b"\n"))


def print_list(answer: Answer, columns: Sequence[Column], empty: str, as_json: bool, key: str | None = None) -> None:
    """Print a table, or the JSON of the response. ``empty``: the text without rows; ``key``: the field of the rows."""
    if as_json:
        print_json(answer)
    else:
        print_table(columns, answer.rows if key is None else answer.value[key], empty)


def print_object(answer: Answer, columns: Sequence[Column], as_json: bool, details: Details = lambda row: ()) -> None:
    """Print one object as facts and the tables of its ``details``, or the JSON of the response."""
    if as_json:
        print_json(answer)
        return
    print_facts(columns, answer.value)
    for heads, rows in details(answer.value):
        if rows:
            print_line("")
            print_table(heads, rows, "")


def print_line(line: str) -> None:
    typer.echo(line)


def print_created(what: str, answer: Answer, existing: str = "already exists") -> None:
    """The result of a PUT: 201 if the object is new, 204 if it existed."""
    print_line(f"{what} {'created' if answer.status == 201 else existing}")


def encoded_payload(body: bytes) -> dict[str, str]:
    """As in the HTTP API: a body that is not UTF-8 is base64."""
    try:
        return {"payload": body.decode(), "payload_encoding": "string"}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(body).decode(), "payload_encoding": "base64"}


class Advance(Protocol):
    def __call__(self, done: int, of: int | None) -> None:
        """``done`` of ``of`` are processed; ``of`` may be unknown."""


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A progress bar on standard error, if it is a terminal."""
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
