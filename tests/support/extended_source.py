"""The examples of docs/internals/extending.md, and a copy of the source with all of them applied.

A diff on the page has no line numbers: the old text of a hunk must occur exactly once in its file.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "internals" / "extending.md"


class Hunk(NamedTuple):
    path: str
    old: str
    new: str


class Example(NamedTuple):
    steps: dict[str, str]  # by file: what to do there
    hunks: list[Hunk]
    new_files: dict[str, str]

    @property
    def files(self) -> set[str]:
        return {*self.new_files, *(hunk.path for hunk in self.hunks)}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def example_of(section: str) -> Example:
    steps = dict(re.findall(r"^\d\. `([^`]+)`(.+(?:\n   .+)*)", section, flags=re.MULTILINE))
    hunks = [hunk for diff in _blocks(section, "diff") for hunk in hunks_of(diff)]
    absent = [path for path in steps if not (REPOSITORY / path).exists()]
    codes = [*_blocks(section, "python"), *_blocks(section, "js")]
    return Example(steps, hunks, dict(zip(absent, codes, strict=True)))


def _blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.+?)^```$", section, flags=re.DOTALL | re.MULTILINE)


def hunks_of(diff: str) -> list[Hunk]:
    hunks = []
    for part in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
        path, _, rest = part.partition("\n")
        for hunk in rest.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] != "+")
            hunks.append(Hunk(path, old, "".join(line[1:] for line in lines if line[0] != "-")))
    return hunks


def applied(hunk: Hunk, text: str) -> str:
    assert text.count(hunk.old) == 1, f"{hunk.path} has this text {text.count(hunk.old)} times, not once:\n{hunk.old}"
    return text.replace(hunk.old, hunk.new)


def extended_source(folder: Path) -> Path:
    """The directory for PYTHONPATH."""
    shutil.copytree(REPOSITORY / "src", folder / "src")
    for section in sections().values():
        example = example_of(section)
        for path, text in example.new_files.items():
            (folder / path).write_text(text, encoding="utf-8")
        for hunk in example.hunks:
            file = folder / hunk.path
            file.write_text(applied(hunk, file.read_text(encoding="utf-8")), encoding="utf-8")
    return folder / "src"
