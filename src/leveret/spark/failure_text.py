"""The error of a failed query in one line: the cause, and what to do next.

Spark passes the whole error as text, with its Python and Java stack traces. Errors of Leveret's source and sink name
their remedy; for other errors it is the stack trace, which only Spark's log has.
"""

from __future__ import annotations

import re

from leveret.spark.jobs.running_job import cause_of

LONGEST = 2_000  # characters; the limit of the broker (pipeline/query_report.py)
PYTHON = re.compile(r"^(\w+(?:Error|Exception|Exit|Interrupt): .+)$", re.MULTILINE)
SPARK = re.compile(r"^(?:[\w.$]+: )?(?:\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: )?")
STATE = re.compile(r" SQLSTATE: \w+\s*$")
REMEDY = "; see the stack trace in the log of the Spark driver"


def failure_text(error: str) -> str:
    cause = cause_of(RuntimeError(error))
    if error.startswith(cause):  # no error of Leveret in it
        found = PYTHON.findall(error)
        cause = STATE.sub("", found[-1] if found else SPARK.sub("", cause)).rstrip(".") + REMEDY
    return cause if len(cause) <= LONGEST else f"{cause[: LONGEST - 1]}…"
