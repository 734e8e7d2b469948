"""Runs a suite by its own pytest configuration, in a process and a network namespace of its own.

Some suites connect to fixed ports, and some to hosts on the Internet unless told otherwise: in the namespace the
standard ports are free and nothing else can be reached. Needs root, as the namespace does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.compat_suites.sources import Source
from tests.compat_suites.suites import AMQP_PORT, AMQPS_PORT, HTTP_PORT, Suite
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import CertificateFiles
from tests.support.network import Network

SECONDS = 1200  # for the longest suite, on a slow machine


@dataclass(frozen=True, slots=True)
class Outcome:
    passed: int
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    deselected: int
    output: str
    problems: tuple[str, ...]  # why the run does not count as a success; empty if it does

    def __str__(self) -> str:
        total = self.passed + len(self.failed) + len(self.skipped) + self.deselected
        return (
            f"{self.passed} of {total} passed, {len(self.failed)} failed, {len(self.skipped)} skipped, "
            f"{self.deselected} deselected"
        )


def run(suite: Suite, folder: Path) -> Outcome:
    """Runs the fetched suite against a new broker, whose data, log and certificates are in the folder."""
    certificates = CertificateFiles(folder)
    _issue_client_certificate(certificates, folder)
    tls = (
        "--amqps-port",
        str(AMQPS_PORT),
        "--tls-cert",
        str(certificates.certificate),
        "--tls-key",
        str(certificates.key),
    )
    network = Network()
    try:
        with network.inside():
            with BrokerProcess(folder, *tls, "--http-port", str(HTTP_PORT), port=str(AMQP_PORT)) as broker:
                broker.banner()
                done = _run_pytest(suite, folder)
                survived = broker.process.poll() is None
    finally:
        network.close()
    crash = () if survived else (f"the broker ended during the suite:\n{broker.log()[-2000:]}",)
    return read_outcome(suite, folder / "report.xml", done, crash)


def _issue_client_certificate(certificates: CertificateFiles, folder: Path) -> None:
    issued = certificates.authority.issue_cert(common_name="guest")
    (folder / "client.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    (folder / "client.key").write_bytes(issued.private_key_pem.bytes())


def _run_pytest(suite: Suite, folder: Path) -> subprocess.CompletedProcess[str]:
    source = Source(suite)
    for path, certificate in suite.certificates.items():
        (source.files / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / certificate, source.files / path)
    command = [sys.executable, "-m", "pytest", "-c", suite.config, "-q", "-p", "no:cacheprovider"]
    command += ["--junitxml", str(folder / "report.xml")]
    command += [part for node in suite.deselected for part in ("--deselect", node)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "PYTEST_"))}
    environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(source.packages)}
    environ |= {name: value.format(certificates=folder) for name, value in suite.environ.items()}
    return subprocess.run(
        [*command, *suite.tests],
        cwd=source.files,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS,
    )


def read_outcome(
    suite: Suite, report: Path, done: subprocess.CompletedProcess[str], problems: tuple[str, ...] = ()
) -> Outcome:
    """Counts the tests in pytest's report; ``problems`` are those that are known already."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = tuple(_name(case) for case in cases if _has(case, "failure") or _has(case, "error"))
    skipped = tuple(_name(case) for case in cases if _has(case, "skipped"))
    passed = len({_name(case) for case in cases} - {*failed, *skipped})
    counted = re.search(r"(\d+) deselected", done.stdout)
    deselected = int(counted[1]) if counted else 0
    if done.returncode not in (0, 1):
        problems += (f"pytest ended with exit code {done.returncode}",)
    problems += tuple(f"failed: {name}" for name in failed)
    problems += tuple(f"skipped, but not listed as deselected: {name}" for name in skipped)
    if deselected != len(suite.deselected):
        problems += (f"{len(suite.deselected)} tests are listed as deselected, but pytest deselected {deselected}",)
    return Outcome(passed, failed, skipped, deselected, done.stdout, problems)


def _has(case: ElementTree.Element, kind: str) -> bool:
    return case.find(kind) is not None


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"
