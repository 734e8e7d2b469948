"""Alarms and warnings are coloured in a terminal only."""

from __future__ import annotations

import io

import pytest

from leveret.cli.colours import coloured


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environ", "weight", "shown"),
    [
        (Terminal(), {}, "alarm", "\x1b[1;31mtext\x1b[0m"),
        (Terminal(), {"NO_COLOR": ""}, "warning", "\x1b[33mtext\x1b[0m"),
        (Terminal(), {"NO_COLOR": "1"}, "alarm", "text"),
        (Terminal(), {"TERM": "dumb"}, "alarm", "text"),
        (Terminal(), {}, "note", "text"),
        (io.StringIO(), {}, "alarm", "text"),
    ],
)
def test_colours_are_for_terminals(out: io.StringIO, environ: dict[str, str], weight: str, shown: str) -> None:
    assert coloured("text", weight, out, environ) == shown
