"""The former name of ``leveret.spark.errors``."""

from __future__ import annotations

from typing import Any
from warnings import warn

from leveret.spark import errors


def __getattr__(name: str) -> Any:
    value = getattr(errors, name)
    warn("leveret.spark.problems is now leveret.spark.errors", DeprecationWarning, stacklevel=2)
    return value
