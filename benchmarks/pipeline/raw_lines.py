"""The raw lines of a benchmark, in a file of benchmarks/results that is named for the day and the commit."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.run import RESULTS, commit


class RawLines:
    """``kind``: the end of the name of the file."""

    def __init__(self, kind: str, folder: Path = RESULTS) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / f"{datetime.date.today().isoformat()}-{commit()}-{kind}.jsonl"

    def keep(self, line: Mapping[str, object]) -> None:
        with self.path.open("a", encoding="utf-8") as raw:
            raw.write(json.dumps(line) + "\n")
