"""The blocks of the guides with their headings, and the commands in their shells."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.guide_pages import PAGES as GUIDES
from tests.support.guide_pages import ROOT, SHELLS

PAGES = {**GUIDES, "README": ROOT / "README.md"}
PART = re.compile(r"^#+ (?P<heading>[^\n]+)$|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.M | re.S)


class Part(NamedTuple):
    """A block of a page, and the heading above it."""

    heading: str
    language: str
    text: str


class Typed(NamedTuple):
    """A command, and the lines that the page shows as its output."""

    prompt: str
    line: str
    shown: list[str]

    @property
    def name(self) -> str:
        """Commands of root keep their prompt."""
        return f"# {self.line}" if self.prompt == "#" else self.line


def parts(page: str) -> Iterator[Part]:
    heading = ""
    for found in PART.finditer(PAGES[page].read_text(encoding="utf-8")):
        heading = found["heading"] or heading
        if not found["heading"]:
            text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
            yield Part(heading, found["language"], text)


def commands(part: Part) -> list[Typed]:
    """Of a console, what stands behind a prompt. Of a script, each line; comments are its output."""
    if part.language not in SHELLS:
        return []
    found: list[Typed] = []
    lines = iter(part.text.splitlines())
    for line in lines:
        if part.language == "console" and line.startswith(("$ ", "# ")):
            found.append(Typed(line[0], _whole(line[2:], lines), []))
        elif part.language == "console":
            found[-1].shown.append(line)
        elif line.startswith("#"):
            found[-1].shown.append(line.removeprefix("# ").removeprefix("#"))
        elif line:
            found.append(_with_comment(_whole(line, lines)))
    return found


def _whole(line: str, more: Iterator[str]) -> str:
    """With continued lines, and those up to the closing quotation mark."""
    while line.endswith("\\") or not _is_closed(line):
        line += "\n" + next(more)
    return line


def _is_closed(line: str) -> bool:
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return False
    return True


def _with_comment(line: str) -> Typed:
    """Of a script: a comment behind the command is its output if it is JSON."""
    found = re.search(r"\s#\s*(\{.*\})$", line)
    return Typed("$", line, [found[1]] if found else [])
