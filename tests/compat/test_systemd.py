"""The unit file as systemd reads it: nothing wrong with it, and the service well confined."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.programs import require_program

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "leveret.service"
PROGRAM = "/opt/leveret/bin/leveret"
MOST_EXPOSED = 2.0  # of 10; systemd calls it OK


def analyzed(text: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    copy = folder / UNIT.name
    copy.write_text(text.replace(PROGRAM, sys.executable))  # verify wants a program that exists
    command = [require_program("systemd-analyze"), *arguments, str(copy)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    done = analyzed(UNIT.read_text(), tmp_path, "verify", "--man=no")
    assert (done.returncode, done.stdout) == (0, "")
    assert "leveret.service" not in done.stderr


def test_systemd_would_tell_a_setting_that_it_does_not_know(tmp_path: Path) -> None:
    """Or the test above could never fail."""
    text = UNIT.read_text().replace("LimitNOFILE=", "LimitFiles=").replace("Type=notify", "Type=notified")
    told = analyzed(text, tmp_path, "verify", "--man=no").stderr
    assert "LimitFiles" in told
    assert "notified" in told


def test_systemd_thinks_the_service_well_confined(tmp_path: Path) -> None:
    done = analyzed(UNIT.read_text(), tmp_path, "security", "--offline=true", "--no-pager")
    assert done.returncode == 0, done.stderr
    exposure = re.search(r"exposure level for leveret.service: ([\d.]+)", done.stdout)
    assert exposure is not None, done.stdout
    assert float(exposure[1]) <= MOST_EXPOSED
