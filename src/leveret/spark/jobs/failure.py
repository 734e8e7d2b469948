"""Why a job failed, without Spark's stack traces."""

from __future__ import annotations

import re

from leveret.errors import LeveretError

OURS = re.compile(r"^leveret\.[\w.]+: (.+)$", re.MULTILINE)
JAVA = re.compile(r"^: [\w.$]+: (.+)$", re.MULTILINE)


class JobFailed(LeveretError):
    """A query failed. The text is the cause, without Spark's stack traces."""


def cause_of(problem: BaseException) -> str:
    """The text of the original error of the source or sink, which Spark wraps in Python and Java stack traces."""
    text = str(problem)
    for pattern in (OURS, JAVA):
        found = pattern.findall(text)
        if found:
            return str(found[-1])
    return (text.splitlines() or [type(problem).__name__])[0]
