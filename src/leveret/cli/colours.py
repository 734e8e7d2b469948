"""Colours of alarms and warnings, in a terminal only, and not if NO_COLOR is set (https://no-color.org)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

ALARM, WARNING = "alarm", "warning"
CODES = {ALARM: "1;31", WARNING: "33"}  # bold red, yellow


def coloured(text: str, weight: str, out: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """``weight``: alarm or warning; any other text is returned unchanged."""
    stream = out or sys.stdout
    has_colours = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return f"\x1b[{CODES[weight]}m{text}\x1b[0m" if has_colours and weight in CODES else text
