"""Comparison of two schemas, type by type: what schemas of all kinds have in common.

Pairs of named types are compared once. A pair counts as compatible while it is being compared, which makes recursive
types work. If it turns out not to be, everything that was found compatible meanwhile is forgotten, because it may have
relied on the pair. The number of comparisons is bounded, and so are the texts of the problems: names can be long, and
each problem has the path of its field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from leveret.schemas.errors import SchemaError

MOST_STEPS = 50_000
MOST_PROBLEMS = 20
DEEPEST = 64  # named types inside each other
LONGEST_PATH = 300  # characters
Pair = tuple[object, object]


def below(path: str, field: str) -> str:
    """The path of a field, shortened."""
    return f"{path}.{field}"[:LONGEST_PATH] if path else field[:LONGEST_PATH]


class Resolution:
    def __init__(self) -> None:
        self._steps = self._depth = 0
        self._good: dict[Pair, None] = {}
        self._bad: dict[Pair, list[str]] = {}

    def step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS or self._depth > DEEPEST:
            raise SchemaError("the schemas are too complex to be compared: use fewer types and smaller unions")

    def once(self, pair: Pair, compare: Callable[[], Iterator[str]]) -> list[str]:
        """The problems of a pair of named types."""
        if pair in self._good:
            return []
        if pair not in self._bad:
            mark = len(self._good)
            self._good[pair] = None
            self._depth += 1
            problems = list(islice(compare(), MOST_PROBLEMS))
            self._depth -= 1
            if problems:
                while len(self._good) > mark:
                    self._good.popitem()
                self._bad[pair] = problems
        return self._bad.get(pair, [])
