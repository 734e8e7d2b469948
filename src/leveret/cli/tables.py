"""Tables and lists of facts: they fit the terminal, numbers are right-aligned, long names are shortened in the middle.

Without a terminal nothing is shortened and nothing is coloured: a pipe gets one whole line per row. Control characters
in names and bodies are escaped, so that they cannot control the terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

from leveret.cli.colours import coloured

GAP = 2  # spaces between columns
LEAST = 20  # width to which texts are shortened: with less, names are hard to distinguish
UNKNOWN = "-"
CUT = "…"


class Column(NamedTuple):
    """``path``: dotted path of the value in the row; ``shown`` formats it. ``weight``: its colour (colours.py)."""

    head: str
    path: str
    shown: Callable[[Any], str] = lambda value: text(value)
    weight: str = ""

    @property
    def is_number(self) -> bool:
        return self.shown in NUMBERS


def columns(*fields: str, shown: Callable[[Any], str] | None = None, **headed: str) -> list[Column]:
    """Columns with the names of their fields as headings; ``headed`` has the fields of other headings."""
    pairs = [*((field, field) for field in fields), *headed.items()]
    return [Column(head.replace("_", " "), path, shown or text) for head, path in pairs]


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
    """Like text, but an empty name is that of the default exchange, amq.default in API paths."""
    return "(AMQP default)" if value in ("", "amq.default") else text(value)


def numbered(number: int, things: str) -> str:
    """1 queue, 2 queues; 1 policy, 2 policies."""
    return f"{number} {single(things) if number == 1 else things}"


def single(things: str) -> str:
    """The singular."""
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
    """Seconds, in the two largest units."""
    if value is None:
        return UNKNOWN
    if value < 60:
        return f"{value:.0f} s"
    minutes = int(value // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def moment(value: Any) -> str:
    """A timestamp in UTC."""
    return _formatted_time(value, "seconds", "Z")


def precise_moment(value: Any) -> str:
    """A timestamp in UTC, with milliseconds."""
    return _formatted_time(value, "milliseconds", "")


def _formatted_time(value: Any, precision: str, zone: str) -> str:
    try:
        return datetime.fromtimestamp(value, UTC).replace(tzinfo=None).isoformat(" ", precision) + zone
    except (TypeError, ValueError, OverflowError, OSError):
        return UNKNOWN if value is None else str(value)


NUMBERS = (count, rate, size, traffic, duration)
RATES = columns(
    shown=rate, publish="message_stats.publish_details.rate", deliver="message_stats.deliver_get_details.rate"
)


def printable(value: str) -> str:
    """Escape control characters, including those that change the writing direction."""
    if value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode() for letter in value
    )


def value_at(row: Any, path: str) -> Any:
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def print_table(
    columns: Sequence[Column], rows: Iterable[dict[str, Any]], empty: str, out: TextIO | None = None
) -> None:
    """``empty``: the text if there are no rows."""
    out = out or sys.stdout
    width = shutil.get_terminal_size().columns if out.isatty() else None
    (heads, *lines), left_out = layout(columns, rows, width, CUT if "utf" in (out.encoding or "").lower() else "~", out)
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
        sys.stderr.write(f"Columns that do not fit: {', '.join(left_out)}\n")


def layout(
    columns: Sequence[Column],
    rows: Iterable[dict[str, Any]],
    width: int | None,
    mark: str = CUT,
    out: TextIO | None = None,
) -> tuple[list[str], list[str]]:
    """Headings and rows as lines of at most ``width`` cells (None: no limit), and the headings that do not fit.
    Cells with a weight are coloured for ``out``.

    Not done with rich: its tables take a millisecond per row, and there may be thousands.
    """
    from rich.cells import cell_len

    cells = [[column.shown(value_at(row, column.path)) for column in columns] for row in rows]
    widths = [max(map(cell_len, texts)) for texts in zip(*_with_heads(columns, cells), strict=True)]
    if width is not None:
        widths = fitted(widths, [column.is_number for column in columns], width)
        cells = [[cut(cell, room, mark) for cell, room in zip(row, widths, strict=False)] for row in cells]
    fitting = columns[: len(widths)]
    heads = [column.head for column in fitting]
    lines = [_line(fitting, heads, widths), *(_line(fitting, row, widths, out) for row in cells)]
    return lines, [column.head for column in columns[len(widths) :]]


def _with_heads(columns: Sequence[Column], cells: list[list[str]]) -> Iterator[list[str]]:
    yield [column.head for column in columns]
    yield from cells


def _line(columns: Sequence[Column], row: list[str], widths: list[int], out: TextIO | None = None) -> str:
    from rich.cells import cell_len

    parts = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        room = " " * (width - cell_len(cell))
        shown = cell if out is None or cell == UNKNOWN else coloured(cell, column.weight, out)
        parts.append(room + shown if column.is_number else shown + room)
    return (" " * GAP).join(parts).rstrip()


def fitted(widths: list[int], is_number: list[bool], whole: int) -> list[int]:
    """Widths that fit: the widest texts are shortened first, down to LEAST; then the last columns are left out.

    Numbers are never shortened.
    """
    least = [width if number else min(width, LEAST) for width, number in zip(widths, is_number, strict=True)]
    while len(least) > 1 and sum(least) + GAP * (len(least) - 1) > whole:
        least.pop()
    fitting = widths[: len(least)]
    excess = sum(fitting) + GAP * (len(fitting) - 1) - whole
    while excess > 0:
        widest = max(range(len(fitting)), key=lambda at: fitting[at] if fitting[at] > least[at] else 0)
        if fitting[widest] <= least[widest]:
            break  # a single column, on a very narrow terminal
        given = min(excess, fitting[widest] - least[widest], max(1, fitting[widest] - whole))
        fitting[widest] -= given
        excess -= given
    return fitting


def cut(value: str, width: int, mark: str = CUT) -> str:
    """At most ``width`` cells: the beginning and the end of the text, since long names may differ in either."""
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


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table for a report, of any width. Columns of numbers and percentages are right-aligned."""
    cells = [[*heads], *(["" if value is None else str(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_number = [bool(rows) and all(map(_is_number, column)) for column in zip(*rows, strict=True)] or [False] * len(
        heads
    )
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in cells
    ]


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and value.endswith("%"))


def print_facts(columns: Sequence[Column], row: dict[str, Any], out: TextIO | None = None) -> None:
    """One object: a line per column, with its heading and value."""
    width = max(len(column.head) for column in columns)
    lines = [f"{column.head:{width}}  {column.shown(value_at(row, column.path))}\n" for column in columns]
    (out or sys.stdout).write("".join(lines))
