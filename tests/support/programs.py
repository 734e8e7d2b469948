"""Third-party programs that some tests need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

FETCHED = Path(__file__).resolve().parents[2] / "build" / "foreign"


def everything_is_required() -> bool:
    """True where a missing program must fail the run (CI) instead of skipping a test."""
    return os.environ.get("LEVERET_REQUIRE_ALL") == "1"


def require_program(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails where everything is required."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not installed (`make foreign` installs it)")
    return path


def require_script(name: str) -> str:
    """The same for a script that `make foreign` has fetched, or that is installed."""
    fetched = FETCHED / name
    return str(fetched) if fetched.is_file() else require_program(name)


def require_java() -> None:
    """For Spark."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        missing("java is not installed: Spark needs Java 17 (Debian: apt install openjdk-17-jre-headless)")


def missing(what: str) -> NoReturn:
    """A third-party program is missing: skip, or fail where everything is required."""
    if everything_is_required():
        pytest.fail(what, pytrace=False)
    pytest.skip(what)
