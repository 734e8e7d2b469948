"""The guide to the JMS face runs as it stands, block by block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "client-jms.md"


@pytest.mark.feature("S3-01")
def test_every_example_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    try:
        for number, block in enumerate(blocks):
            exec(compile(block, f"block {number} of {GUIDE.name}", "exec"), names)  # noqa: S102
    finally:
        names["connection"].close()  # type: ignore[attr-defined]
        names["broker"].stop()  # type: ignore[attr-defined]
    assert capsys.readouterr().out.splitlines() == [
        "two carrots",
        "one lettuce",
        "100",
        "7 eu 7 1",
        "prices.carrots 2.50",
        "received hello",
        "CARROTS",
        "['four radishes']",
    ]
