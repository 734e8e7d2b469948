"""The container file, as a list of instructions."""

from __future__ import annotations

import re
from pathlib import Path

CONTAINER = Path(__file__).parents[2] / "packaging" / "container" / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """In order, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", CONTAINER.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def stages() -> list[list[tuple[str, str]]]:
    """Each begins with FROM; what is before the first one is left out."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


def last_stage() -> list[tuple[str, str]]:
    return stages()[-1]
