"""`make bench-picture`: the newest results with Leveret and RabbitMQ as a picture, docs/pictures/benchmarks.svg.

Each row has the medians of one scenario, from the last run of the file that measured both. Bars are relative to the
longer one of their pair. The picture has a background of its own, so that it can be read on light and dark pages.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.report import Line, Results
from benchmarks.run import RESULTS
from benchmarks.scenarios import BY_ID

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "benchmarks.svg"
OURS, THEIRS = "leveret", "rabbitmq"
SHOWN = {
    "a16": "transient, 16 B",
    "a1k": "transient, 1 KiB",
    "a16b1": "transient, 16 B, one per send",
    "c16": "each acknowledged, 16 B",
    "e16": "fanout to 10 queues, 16 B",
    "d1k": "persistent, confirmed, 1 KiB",
    "d64k": "persistent, confirmed, 64 KiB",
}
WIDTH, LABELS, BAR, ROW, TOP = 960, 250, 230, 46, 76
COLUMNS = (LABELS, LABELS + BAR + 130)
INK, FAINT, OUR_COLOUR, THEIR_COLOUR = "#22302b", "#5f6b65", "#1f7a5c", "#b9b4a7"


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure of both brokers."""

    ours: float
    theirs: float
    unit: str

    def bars(self) -> Iterator[tuple[str, float, str]]:
        """Colour, share of the full length, and text of each."""
        longest = max(self.ours, self.theirs)
        for colour, value in ((OUR_COLOUR, self.ours), (THEIR_COLOUR, self.theirs)):
            yield colour, value / longest, f"{value:,.0f}{self.unit}" if value >= 100 else f"{value:,.1f}{self.unit}"


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    rate: Pair
    cpu: Pair


def runs_of(path: Path) -> list[tuple[Line, Results]]:
    """A file has a run for each line that names the machine."""
    runs: list[tuple[Line, Results]] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if "machine" in line:
            runs.append((line, Results(OURS, THEIRS)))
        elif runs and "label" in line and "not_counted" not in line:
            broker, _, rest = line["label"].partition(" ")
            runs[-1][1].add(rest.partition(" ")[0], broker, line)
    return runs


def row_of(runs: Sequence[tuple[Line, Results]], scenario: str) -> Row | None:
    """From the last run that measured both."""
    for _, results in reversed(runs):
        figures = [
            results.middle(scenario, broker, key)
            for key in (BY_ID[scenario].rate_key, "broker_cpu_s_per_M")
            for broker in (OURS, THEIRS)
        ]
        if all(figures):
            rate, their_rate, cpu, their_cpu = (figure or 0.0 for figure in figures)
            return Row(SHOWN[scenario], Pair(rate, their_rate, "/s"), Pair(cpu, their_cpu, " us"))
    return None


def newest(folder: Path) -> tuple[Line, list[Row]] | None:
    """The head of the newest run, and the rows, of the newest file that has some."""
    found = []
    for path in folder.glob("*.jsonl"):
        runs = runs_of(path)
        rows = [row for scenario in SHOWN if (row := row_of(runs, scenario)) is not None]
        if len(rows) > len(SHOWN) // 2:
            found.append((runs[-1][0], rows))
    return max(found, key=lambda each: str(each[0].get("date", "")), default=None)


def text(x: float, y: float, content: str, *, fill: str = INK, size: int = 14, anchor: str = "start") -> str:
    place = f'x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" text-anchor="{anchor}"'
    return f"  <text {place}>{escape(content)}</text>"


def drawn_row(row: Row, y: float) -> Iterator[str]:
    yield text(LABELS - 14, y + 20, row.title, anchor="end")
    for x, pair in zip(COLUMNS, (row.rate, row.cpu), strict=True):
        for number, (colour, share, shown) in enumerate(pair.bars()):
            top, width = y + number * 16, max(share * BAR, 1)
            yield f'  <rect x="{x}" y="{top:g}" width="{width:.1f}" height="13" rx="2" fill="{colour}"/>'
            yield text(x + width + 6, top + 11, shown, fill=FAINT, size=12)


def caption(head: Line) -> str:
    machine = head["machine"]
    return (
        f"{str(head.get('date', ''))[:10]}, {machine['cores']} virtual cores ({machine['processor']}), "
        f"{machine['memory_gb']} GB, {machine['system']}; both brokers with their defaults, each pair in one run"
    )


def svg(head: Line, rows: Sequence[Row]) -> str:
    height = TOP + ROW * len(rows) + 34
    described = "; ".join(
        f"{row.title}: {row.rate.ours:,.0f} and {row.rate.theirs:,.0f} messages per second" for row in rows
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="title description" font-family="system-ui, sans-serif">',
        '  <title id="title">Leveret and RabbitMQ: messages per second and CPU time per message</title>',
        f'  <desc id="description">{escape(described)}</desc>',
        f'  <rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        f'  <rect x="24" y="18" width="13" height="13" rx="2" fill="{OUR_COLOUR}"/>',
        text(44, 29, "Leveret"),
        f'  <rect x="112" y="18" width="13" height="13" rx="2" fill="{THEIR_COLOUR}"/>',
        text(132, 29, "RabbitMQ"),
        text(COLUMNS[0], 56, "Messages per second (longer is better)", fill=FAINT, size=13),
        text(COLUMNS[1], 56, "Broker CPU per message (shorter is better)", fill=FAINT, size=13),
    ]
    for number, row in enumerate(rows):
        lines += drawn_row(row, TOP + ROW * number)
    return "\n".join([*lines, text(24, height - 14, caption(head), fill=FAINT, size=12), "</svg>\n"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.picture", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--output", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
    found = newest(options.results)
    if found is None:
        print("no results with both brokers: run `make bench` where RabbitMQ is installed first", file=sys.stderr)
        return 2
    options.output.write_text(svg(*found), encoding="utf-8")
    print(f"{options.output}: {caption(found[0])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
