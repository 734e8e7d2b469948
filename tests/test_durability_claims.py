"""No guide contradicts docs/guide/durability.md: durable definitions and persistent messages are kept on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
TEXTS = [
    REPOSITORY / "README.md",
    REPOSITORY / "tools" / "generate_settings_page.py",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
CONTRADICTIONS = re.compile(
    r"(?:keeps?|stores?|writes?|saves?) nothing (?:in it|on disk|to disk|yet)"
    r"|nothing is (?:kept|stored|saved|written)(?: to| on)? (?:disk|yet)"
    r"|(?:everything|all messages|all queues) (?:lives?|is kept|are kept|is stored|are stored|stays?) in memory"
    r"|(?:does not|do not|cannot|will not) survive a restart yet"
    r"|not (?:yet )?persisted|(?:durability|persistence) is not (?:yet )?(?:there|implemented)",
    re.IGNORECASE,
)


def contradictions(text: str) -> list[str]:
    """A phrase may be broken over two lines, and have words in bold."""
    return CONTRADICTIONS.findall(" ".join(text.replace("*", "").split()))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_text_agrees_with_the_durability_guide(path: Path) -> None:
    assert contradictions(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "Leveret makes this folder, but **keeps nothing in\nit yet**: everything lives in memory.",
        "Queues do not survive a restart yet.",
        "Nothing is written to disk.",
    ],
)
def test_a_contradiction_is_found(text: str) -> None:
    assert contradictions(text)
