"""A limit on the memory of regular expressions. The ``regex`` module has none: it compiles ``(a{1000}){1000}`` to a
million copies of ``a``, and a pattern that calls itself fills the memory while it is matched, faster than a timeout."""

from __future__ import annotations

import re
from math import prod

MOST_COPIES = 100_000  # of the characters of a pattern; each takes up to 240 bytes
ESCAPED = re.compile(r"\\.", re.DOTALL)
LEAST = re.compile(r"(\)\s*)?\{(\d+)(?:,\d*)?\}")  # repetitions with a minimum, and whether they are of a group
CALLS = re.compile(r"\(\?(?:R|&|P>|[+-]?\d)")  # of a group, or of the whole pattern
VERBOSE = re.compile(r"\(\?[A-Za-z0-9]*x")  # white space and comments are ignored, also inside a repetition


def refuse_large(pattern: str) -> None:
    """ValueError: the pattern could take much memory. This is an upper bound, as if each group that is repeated were
    inside all others."""
    plain = ESCAPED.sub("_", pattern)
    if CALLS.search(plain):
        raise ValueError("it calls a group, or itself, which can take any amount of memory")
    if "{" in plain and VERBOSE.search(plain):
        raise ValueError("it has the flag x and a repetition with braces: write it without the flag")
    groups, others = [1], [1]
    for group, least in LEAST.findall(plain):
        (groups if group else others).append(max(int(least), 1))
    if len(pattern) * sum(others) * prod(groups) > MOST_COPIES:
        raise ValueError(
            f"it is too large: its length, times the sum of its repetitions, times those of groups, is above "
            f"{MOST_COPIES}"
        )
