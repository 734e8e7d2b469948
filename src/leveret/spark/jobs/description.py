"""What a ready pipeline does, in short texts for the broker's management UI: its steps and its sink.

Spark reports only the classes of a query. The step of a job is its name, a colon, and those of its options that no
other job has. An option that may hold a secret is left out, by its name; logins and parameters of addresses are
removed from the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leveret.spark.jobs.job import Job

LONGEST_STEP = 500  # the limit of the broker (pipeline/query_report.py)
LONGEST_OPTION = 120
TABLE = "table "
SECRET = re.compile(
    r"pass|secret|token|credential|salt|key|url|uri|dsn|user|database|catalog|connection", re.IGNORECASE
)
LOGIN = re.compile(r"(?<=://)\S*@")
PARAMETERS = re.compile(r"(://[^\s?;]*)[?;]\S*")  # of an address
ASSIGNED = re.compile(r"\b\w*(?:pass|pwd|secret|token)\w*\s*[=:]\s*\S+", re.IGNORECASE)


def description_of(job: Job, options: Any) -> dict[str, object]:
    """Fields of the reports of the job's query (spark/listener.py)."""
    given = {name: getattr(options, name) for name in job.options.__annotations__ if name in vars(options)}
    sink = _sink(vars(options))
    is_table = sink is not None and sink.startswith(TABLE)
    shown = [
        _option(name, value)
        for name, value in given.items()
        if _is_shown(name, value) and not (is_table and name == "table")
    ]
    step = f"{job.name}: {', '.join(shown)}" if shown else job.name
    described: dict[str, object] = {"steps": [_short(step, LONGEST_STEP)]}
    return described if sink is None else {**described, "sink": sink}


def _is_shown(name: str, value: object) -> bool:
    return name != "path" and value not in (None, False, "", (), {}) and not SECRET.search(name)


def _option(name: str, value: object) -> str:
    shown = name.replace("_", " ")
    return _short(shown if value is True else f"{shown} {_text(value)}", LONGEST_OPTION)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _sink(options: Mapping[str, object]) -> str | None:
    if options.get("exchange"):
        return _short(f"exchange {options['exchange']}", LONGEST_STEP)
    if options.get("table"):
        return _short(f"{TABLE}{options['table']}", LONGEST_STEP)
    return _short(str(options["path"]), LONGEST_STEP) if options.get("path") else None


def _short(text: str, longest: int) -> str:
    line = ASSIGNED.sub("…", PARAMETERS.sub(r"\1", LOGIN.sub("", " ".join(text.split()))))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
