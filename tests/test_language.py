"""The words of the project: those of RabbitMQ and AMQP, and no dialect.

`tests/unit/test_webui_language.py` checks the management UI in the same way.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SRC = REPOSITORY / "src" / "leveret"
TEXTS = [
    *sorted(SRC.rglob("*.py")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *(REPOSITORY / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
]
# Programs are not people; words that had a meaning here only.
DIALECT = re.compile(
    r"\b(nobody|somebody|whoever|everybody|doorman|hearer|exhume[ds]?|bury|buried|buries|choosy|errands?|biograph\w*"
    r"|verdicts?|surroundings|earlier life|lapsed)\b",
    re.IGNORECASE,
)
NAMES_OF_THINGS = {"sharding", "tracing", "consumer_ring", "blocking", "routing"}


def test_texts_use_no_dialect() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {match.group()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := DIALECT.search(line))
    ]
    assert not found, "\n  " + "\n  ".join(found)


def test_modules_are_named_by_nouns() -> None:
    activities = [str(path.relative_to(SRC)) for path in SRC.rglob("*ing.py") if path.stem not in NAMES_OF_THINGS]
    assert not activities, activities


@pytest.mark.parametrize("text", ["Nobody consumes.", "an errand", "in an earlier life"])
def test_the_check_sees(text: str) -> None:
    assert DIALECT.search(text)
