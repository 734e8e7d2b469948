"""A clock that jumps must not matter: only what is shown to people comes from the time of day."""

from __future__ import annotations

import ast
from pathlib import Path

import leveret

SOURCE = Path(leveret.__file__).parent
MODULES = [SOURCE / "cluster_node.py", *(SOURCE / "cluster").rglob("*.py"), *(SOURCE / "replication").rglob("*.py")]
SHOWN = {"status_collector.py": 2, "succession.py": 1}  # when this node started, was seen, and took over
OF_THE_DAY = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow")}


def reads_of_the_time_of_day(source: str) -> int:
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name in ("time", "time_ns")
    }
    return sum(
        (isinstance(call, ast.Name) and call.id in named)
        or (isinstance(call, ast.Attribute) and (ast.unparse(call.value).split(".")[-1], call.attr) in OF_THE_DAY)
        for call in calls
    )


def test_leases_proofs_and_grants_use_the_monotonic_clock() -> None:
    found = {path.name: reads_of_the_time_of_day(path.read_text()) for path in MODULES}
    assert {name: number for name, number in found.items() if number} == SHOWN


def test_reads_of_the_time_of_day_are_found() -> None:
    assert reads_of_the_time_of_day("import time\ntime.time()\ntime.monotonic()") == 1
    assert reads_of_the_time_of_day("from time import time_ns as now\nnow()") == 1
    assert reads_of_the_time_of_day("import datetime\ndatetime.datetime.now()") == 1
