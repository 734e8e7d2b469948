"""Tables and facts for people: they fit the terminal, numbers stand to the right, long names lose their middle.

Without a terminal nothing is cut and nothing is coloured: whoever reads the pipe gets it all, a line for each row. What
others have put into names and bodies cannot steer the terminal: control characters are shown by their codes.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TextIO

GAP = 2  # spaces between columns
LEAST = 20  # of a text that is cut: below it, names are no longer told apart
UNKNOWN = "-"
CUT = "…"


class Column(NamedTuple):
    """``path`` goes into the row by dots; ``shown`` makes the text."""

    head: str
    path: str
    shown: Callable[[Any], str] = lambda value: text(value)

    @property
    def is_number(self) -> bool:
        return self.shown in NUMBERS


def text(value: Any) -> str:
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return printable(", ".join(value)) or UNKNOWN
    if isinstance(value, dict | list):
        return printable(json.dumps(value, ensure_ascii=False)) if value else UNKNOWN
    return printable(str(value))


def name(value: Any) -> str:
    """Like text, but an empty name is a name: that of the default exchange, which paths call amq.default."""
    return "(default)" if value in ("", "amq.default") else text(value)


def numbered(number: int, things: str) -> str:
    """1 queue, 2 queues; 1 policy, 2 policies."""
    return f"{number} {single(things) if number == 1 else things}"


def single(things: str) -> str:
    """One of them."""
    return f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")


def count(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def rate(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:.1f}/s"


def size(value: Any) -> str:
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def traffic(value: Any) -> str:
    return UNKNOWN if value is None else f"{size(value)}/s"


def duration(value: Any) -> str:
    """Seconds, in the two largest units that tell something."""
    if value is None:
        return UNKNOWN
    if value < 60:
        return f"{value:.0f} s"
    minutes = int(value // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


NUMBERS = (count, rate, size, traffic, duration)


def printable(value: str) -> str:
    """Control characters, also those that change the direction of the script, by their codes."""
    if value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode() for letter in value
    )


def at(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def draw(columns: Sequence[Column], rows: Iterable[dict[str, Any]], empty: str, out: TextIO | None = None) -> None:
    """``empty``: what to tell a person when there is no row."""
    out = out or sys.stdout
    width = shutil.get_terminal_size().columns if out.isatty() else None
    (heads, *lines), left_out = laid_out(columns, rows, width, CUT if "utf" in (out.encoding or "").lower() else "~")
    if not lines:
        sys.stderr.write(f"{empty}\n")
        return
    if width is None:
        out.write(f"{heads}\n")
    else:
        from rich.console import Console
        from rich.text import Text

        console = Console(file=out, force_terminal=True, markup=False, highlight=False, emoji=False)
        console.print(Text(heads, style="bold"), soft_wrap=True)
    out.write("".join(f"{line}\n" for line in lines))
    if left_out:
        sys.stderr.write(f"Not shown for lack of room: {', '.join(left_out)}\n")


def laid_out(
    columns: Sequence[Column], rows: Iterable[dict[str, Any]], width: int | None, mark: str = CUT
) -> tuple[list[str], list[str]]:
    """Heads and rows as lines of at most ``width`` cells, and the heads that found no room; None: nothing is cut.

    The lines are made here: tables of rich take a millisecond a row, and there may be thousands.
    """
    from rich.cells import cell_len

    cells = [[column.shown(at(row, column.path)) for column in columns] for row in rows]
    widths = [max(map(cell_len, texts)) for texts in zip(*_with_heads(columns, cells), strict=True)]
    if width is not None:
        widths = fitted(widths, [column.is_number for column in columns], width)
        cells = [[cut(cell, room, mark) for cell, room in zip(row, widths, strict=False)] for row in cells]
    fitting = columns[: len(widths)]
    lines = [_line(fitting, row, widths) for row in _with_heads(fitting, cells)]
    return lines, [column.head for column in columns[len(widths) :]]


def _with_heads(columns: Sequence[Column], cells: list[list[str]]) -> Iterator[list[str]]:
    yield [column.head for column in columns]
    yield from cells


def _line(columns: Sequence[Column], row: list[str], widths: list[int]) -> str:
    from rich.cells import cell_len

    parts = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        room = " " * (width - cell_len(cell))
        parts.append(room + cell if column.is_number else cell + room)
    return (" " * GAP).join(parts).rstrip()


def fitted(widths: list[int], is_number: list[bool], whole: int) -> list[int]:
    """Widths that fit: the widest text gives first, down to LEAST; then columns at the end are left out.

    A number is never cut: it would be another one.
    """
    least = [width if number else min(width, LEAST) for width, number in zip(widths, is_number, strict=True)]
    while len(least) > 1 and sum(least) + GAP * (len(least) - 1) > whole:
        least.pop()
    fitting = widths[: len(least)]
    excess = sum(fitting) + GAP * (len(fitting) - 1) - whole
    while excess > 0:
        widest = max(range(len(fitting)), key=lambda at: fitting[at] if fitting[at] > least[at] else 0)
        if fitting[widest] <= least[widest]:
            break  # a single column, on a terminal of a few letters
        given = min(excess, fitting[widest] - least[widest], max(1, fitting[widest] - whole))
        fitting[widest] -= given
        excess -= given
    return fitting


def cut(value: str, width: int, mark: str = CUT) -> str:
    """At most ``width`` cells, with the beginning and the end of the text: long names differ at both."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(value) <= width:
        return value
    room = width - len(mark)
    head = set_cell_size(value, room - room // 2).rstrip()
    tail = ""
    for letter in reversed(value):
        if cell_len(letter + tail) > room // 2:
            break
        tail = letter + tail
    return f"{head}{mark}{tail}"


def facts(columns: Sequence[Column], row: dict[str, Any], out: TextIO | None = None) -> None:
    """One object: a line for each column, what it is, then what is known of it."""
    width = max(len(column.head) for column in columns)
    lines = [f"{column.head:{width}}  {column.shown(at(row, column.path))}\n" for column in columns]
    (out or sys.stdout).write("".join(lines))
