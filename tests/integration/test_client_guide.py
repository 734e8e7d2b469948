"""What the guide to the client shows does run."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest

import leveret

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "client.md"
LOW_LEVEL = GUIDE.read_text(encoding="utf-8").partition("## AMQP API")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```python\n(.*?)```", LOW_LEVEL, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs(number: int, broker: leveret.Broker) -> None:
    names: dict[str, object] = {}
    exec(compile(BLOCKS[number], f"block {number} of {GUIDE.name}", "exec"), names)  # noqa: S102
    main = names["main"]
    assert callable(main)
    outcome = main(broker.amqp_url)
    if inspect.isawaitable(outcome):
        asyncio.run(asyncio.wait_for(outcome, 20))


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 3
