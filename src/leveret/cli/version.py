"""The installed version."""

from __future__ import annotations

from leveret.version import VERSION


def version() -> str:
    return VERSION
