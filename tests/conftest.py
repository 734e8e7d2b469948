"""For every test: hypothesis profiles, and no silent skips.

With LEVERET_REQUIRE_ALL=1 (as CI runs) a skip fails the run, unless its reason starts with `kernel:`, which is kept for
what this machine's kernel refuses (loop mounts, network namespaces).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.programs import everything_is_required

KERNEL = "kernel:"

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("LEVERET_HYPOTHESIS_PROFILE", "default"))


def skip_reasons(reporter: pytest.TerminalReporter) -> list[str]:
    """Why each skipped test was skipped."""
    reasons = []
    for report in reporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons.append(text.removeprefix("Skipped: "))
    return reasons


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not everything_is_required():
        return
    if session.exitstatus == 0 and any(not reason.startswith(KERNEL) for reason in skip_reasons(reporter)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = skip_reasons(terminalreporter)
    refused = [reason for reason in reasons if not reason.startswith(KERNEL)]
    terminalreporter.write_line(f"skips: {len(reasons)}, of them forced by the kernel: {len(reasons) - len(refused)}")
    if refused and everything_is_required():
        terminalreporter.write_line("LEVERET_REQUIRE_ALL=1 allows no other skips:", red=True)
        for reason in sorted(set(refused)):
            terminalreporter.write_line(f"  {refused.count(reason)} x {reason}", red=True)
