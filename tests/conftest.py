"""For every test: hypothesis profiles, no silent skips, and the division among the workers of `make test`.

With LEVERET_REQUIRE_ALL=1 (as CI runs) a skip fails the run, unless its reason starts with `kernel:`, which is kept for
what this machine's kernel refuses (loop mounts, network namespaces).
"""

from __future__ import annotations

import os
import signal
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests.support.programs import everything_is_required
from tests.support.work_units import LongestFirst, longest_first, record_durations

KERNEL = "kernel:"

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("LEVERET_HYPOTHESIS_PROFILE", "default"))


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """End on SIGTERM as on Ctrl-C: with the failures so far and the summary."""
    if not is_worker(config):
        signal.signal(signal.SIGTERM, interrupt)


# ---- division among workers (pytest-xdist)


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_worker(config):
        longest_first(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    config.option.loadscopereorder = False  # the order of the collection is the order of the units
    return LongestFirst(config, log)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and os.environ.get("LEVERET_RECORD_DURATIONS") and not is_worker(config):
        reports = (report for reports in reporter.stats.values() for report in reports)
        record_durations(report for report in reports if isinstance(report, pytest.TestReport))


# ---- skips


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
