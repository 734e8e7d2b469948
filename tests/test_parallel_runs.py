"""Runs of pytest with several workers, as `make test` starts them: order, exit status, skips, lost workers, SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.work_units import is_slow, longest_first, unit_of, unit_seconds

ROOT = Path(__file__).resolve().parents[1]
PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert 'expected' == 'actual'\n"
SKIPS = "import pytest\n\n\ndef test_skips():\n    pytest.skip({reason!r})\n"
ENDS_ITS_WORKER = "import os\n\n\ndef test_ends_its_worker():\n    os._exit(0)\n"
NEVER_ENDS = """
import pathlib
import threading


def test_never_ends():
    pathlib.Path("running").write_text("")
    threading.Event().wait()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:schemathesis -p no:cacheprovider\n")
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    return tmp_path


def start(folder: Path, *tests: str, **environ: str) -> subprocess.Popen[str]:
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--max-worker-restart=0"]
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LEVERET_"))}
    known |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **environ}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=known, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def run(folder: Path, *tests: str, **environ: str) -> tuple[int, str]:
    process = start(folder, *tests, **environ)
    output, _ = process.communicate(timeout=150)
    return process.returncode, output


def test_a_failure_in_one_worker_fails_the_run(folder: Path) -> None:
    status, output = run(folder, PASSES, FAILS, PASSES)
    assert status == 1
    assert "AssertionError: assert 'expected' == 'actual'" in output
    assert "1 failed, 2 passed in " in output


def test_a_lost_worker_fails_the_run(folder: Path) -> None:
    status, output = run(folder, ENDS_ITS_WORKER, PASSES)
    assert status != 0
    assert "crashed while running 'test_0.py::test_ends_its_worker'" in output


def test_skips_of_all_workers_are_counted(folder: Path) -> None:
    skips = (SKIPS.format(reason=reason) for reason in ("no node", "kernel: no loop mounts"))
    status, output = run(folder, PASSES, *skips, LEVERET_REQUIRE_ALL="1")
    assert status == 1
    assert "skips: 2, of them forced by the kernel: 1" in output
    assert "  1 x no node" in output
    assert "1 passed, 2 skipped in " in output


def test_a_run_that_is_terminated_prints_its_failures(folder: Path) -> None:
    os.mkfifo(folder / "running")
    process = start(folder, FAILS, NEVER_ENDS, PYTEST_ADDOPTS="-v", PYTHONUNBUFFERED="1")
    try:
        assert process.stdout is not None
        shown = b""
        while b"FAILED test_0.py::test_fails" not in shown:  # the line ends only when the next one begins
            part = os.read(process.stdout.fileno(), 1 << 16)
            assert part, shown
            shown += part
        (folder / "running").read_text()  # returns when the other test has opened it
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "AssertionError: assert 'expected' == 'actual'" in output
    assert "1 failed in " in output.splitlines()[-1]


# ---- the order


class Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def test_files_that_share_a_session_fixture_are_one_unit() -> None:
    assert (
        unit_of("tests/spark/test_queries.py::test_a[b::c]") == unit_of("tests/spark/test_sinks.py::test_a") == "spark"
    )
    assert unit_of("tests/compat/test_jms_on_rabbitmq.py::test_a") == "rabbitmq"
    assert unit_of("tests/unit/wire/test_frames.py::test_a") == "tests/unit/wire/test_frames.py"


def test_long_units_come_first_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(unit_seconds(), "long.py", 1_000_000.0)
    items = [Item(name) for name in ("b.py::2", "b.py::1", "long.py::2", "a.py::1", "long.py::1")]
    longest_first(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == ["long.py::2", "long.py::1", "a.py::1", "b.py::2", "b.py::1"]
    assert is_slow("long.py", {"1": True, "2": False})
    assert not is_slow("a.py", {"1": False})


def test_recorded_files_exist() -> None:
    unknown = [unit for unit in unit_seconds() if unit.endswith(".py") and not (ROOT / unit).exists()]
    assert not unknown, "tests/durations.json names files that do not exist"
