"""What counts as the success of a suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat_suites.runner import read_outcome
from tests.compat_suites.suites import Suite

PASSES = "def test_a():\n    pass\n"


@pytest.mark.parametrize(
    ("code", "deselected", "passed", "problems"),
    [
        (PASSES, (), 1, ()),
        (PASSES + "def test_b():\n    assert False\n", (), 1, ("failed: test_client::test_b",)),
        (PASSES + "def test_b():\n    assert False\n", ("test_b",), 1, ()),
        (PASSES + "def test_b(unknown):\n    pass\n", (), 1, ("failed: test_client::test_b",)),
        (
            PASSES + "import pytest\ndef test_b():\n    pytest.skip()\n",
            (),
            1,
            ("skipped, but not listed as deselected: test_client::test_b",),
        ),
        (PASSES, ("test_gone",), 1, ("1 tests are listed as deselected, but pytest deselected 0",)),
        ("", (), 0, ("pytest ended with exit code 5",)),
    ],
    ids=["passes", "fails", "fails but is deselected", "error", "skipped", "deselected test is gone", "no tests"],
)
def test_a_suite_succeeds_only_if_every_test_passes_or_is_listed(
    code: str, deselected: tuple[str, ...], passed: int, problems: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "test_client.py").write_text(code, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    suite = Suite("client", (".",), "pytest.ini", deselected={f"test_client.py::{name}": "-" for name in deselected})
    left_out = [part for node in suite.deselected for part in ("--deselect", node)]
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "--junitxml", "report.xml", *left_out]
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    outcome = read_outcome(suite, tmp_path / "report.xml", done)
    assert (outcome.passed, outcome.problems) == (passed, problems)
