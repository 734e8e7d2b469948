"""docs/compat.md names tests that show each difference: they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "compat.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?(?:\[([^\]]+)\])?`", PAGE)))
STOMP_CASES = sorted(set(re.findall(r"`\[(\w+)\]`", PAGE)))
SECTIONS = ["AMQP", "Queues", "Streams", "STOMP", "HTTP API", "Management and security", "Limits"]


@pytest.mark.parametrize(("file", "test", "case"), NAMED, ids=lambda part: part or "-")
def test_a_named_test_exists(file: str, test: str, case: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not test or f"def {test}(" in text
    if case:
        nearby = "".join(each.read_text(encoding="utf-8") for each in (ROOT / file).parent.glob("*.py"))
        assert f'"{case}"' in text or f"def {case}(" in nearby


@pytest.mark.parametrize("case", STOMP_CASES)
def test_a_named_case_of_stomp_exists(case: str) -> None:
    assert f"def {case}(" in (ROOT / "tests" / "compat" / "stomp_differences.py").read_text(encoding="utf-8")


def test_every_difference_of_stomp_is_on_the_page() -> None:
    text = (ROOT / "tests" / "compat" / "stomp_differences.py").read_text(encoding="utf-8")
    played = re.findall(r"^def (\w+)\(stage: StompStage\)", text, re.MULTILINE)
    assert sorted(played) == STOMP_CASES


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_names_a_test(section: str) -> None:
    part = PAGE.split(f"\n### {section}\n")[1].split("\n### ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        *_, test, _ = row.replace(r"\|", "").split("|")
        assert re.fullmatch(r" `(tests/|\[)[^`]+`(, `\[\w+\]`)* ", test), row
