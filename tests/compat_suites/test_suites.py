"""The quick suites of other clients; ``make compat-suites`` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat_suites.runner import run
from tests.compat_suites.sources import Source
from tests.compat_suites.suites import SUITES, Suite
from tests.support.programs import missing

QUICK = [suite for suite in SUITES if suite.quick]


@pytest.mark.compat
@pytest.mark.parametrize("suite", QUICK, ids=lambda suite: suite.package)
def test_a_client_passes_its_own_suite(suite: Suite, tmp_path: Path) -> None:
    if not Source(suite).is_fetched():
        missing(f"the test suite of {suite.package} {suite.version} is not there (`make foreign` fetches it)")
    outcome = run(suite, tmp_path)
    assert not outcome.problems, f"{outcome}\n" + "\n".join(outcome.problems) + f"\n{outcome.output}"
    assert outcome.passed
