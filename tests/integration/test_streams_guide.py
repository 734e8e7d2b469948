"""The guide to streams runs as it stands, block by block."""

from __future__ import annotations

import re
import time
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "streams.md"


def test_every_example_of_the_guide_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    names: dict[str, object] = {}
    try:
        for number, block in enumerate(blocks):
            exec(compile(block, f"block {number} of {GUIDE.name}", "exec"), names)  # noqa: S102
        assert len(names["orders"]) == 30  # type: ignore[arg-type]
        deadline = time.monotonic() + 5
        while not names["seen"]:
            assert time.monotonic() < deadline
            names["broker"].call(lambda: None)  # type: ignore[attr-defined]
        assert [each.body for each in names["first"]] == [b"started"]  # type: ignore[attr-defined]
    finally:
        names["connection"].close()  # type: ignore[attr-defined]
        names["broker"].stop()  # type: ignore[attr-defined]
