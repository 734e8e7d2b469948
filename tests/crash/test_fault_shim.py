"""The shim itself, under a small program: what is ordered happens to files below its root, and to no others."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fault_shim import EIO, ENOSPC, Shim

WRITER = """
import os, sys
def say(kind, call):
    try:
        print(kind, call())
    except OSError as problem:
        print(kind, -problem.errno)
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
say("write", lambda: os.write(fd, b"0123456789"))
say("writev", lambda: os.writev(fd, [b"abcd", b"", b"efgh", b"i"]))
say("pwrite", lambda: os.pwrite(fd, b"0123456789", 0))
say("pwritev", lambda: os.pwritev(fd, [b"abc", b"defghi"], 0))
say("fsync", lambda: os.fsync(fd))
say("fdatasync", lambda: os.fdatasync(fd))
print("has", os.pread(fd, 100, 0).decode())
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def outcomes(shim: Shim, path: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)],
        env=shim.environ,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


GOOD = {"write": "10", "writev": "9", "pwrite": "10", "pwritev": "9", "fsync": "None", "fdatasync": "None"}
GOOD["has"] = "abcdefghi9abcdefghi"


def test_without_an_order_everything_passes_and_is_noted(shim: Shim, data: Path) -> None:
    assert outcomes(shim, data / "f") == GOOD
    calls = shim.calls()
    assert [call.kind for call in calls] == ["write"] * 4 + ["sync"] * 2
    assert [call.outcome for call in calls] == [10, 9, 10, 9, 0, 0]
    assert {call.path for call in calls} == {str(data / "f")}
    assert not any(call.forged for call in calls)
    assert shim.written() == 38


def test_other_files_are_left_alone(shim: Shim, data: Path, tmp_path: Path) -> None:
    shim.fail("write", EIO)
    assert outcomes(shim, tmp_path / "f") == GOOD
    assert outcomes(shim, tmp_path / "database") == GOOD  # begins like the root, and is not below it
    assert shim.calls() == []


@pytest.mark.parametrize("code", [EIO, ENOSPC])
def test_writes_fail(shim: Shim, data: Path, code: int) -> None:
    shim.fail("write", code)
    told = outcomes(shim, data / "f")
    assert [told[name] for name in ("write", "writev", "pwrite", "pwritev")] == [str(-code)] * 4
    assert told["fdatasync"] == "None"
    assert told["has"] == ""
    assert len(shim.failures()) == 4


def test_syncs_fail(shim: Shim, data: Path) -> None:
    shim.fail("sync", errno.EIO)
    assert outcomes(shim, data / "f") == GOOD | {"fsync": str(-EIO), "fdatasync": str(-EIO)}
    assert shim.failures() == [4, 5]


def test_one_call_of_many_fails(shim: Shim, data: Path) -> None:
    shim.fail("write", EIO, first=2, times=1)
    told = outcomes(shim, data / "f")
    assert told == GOOD | {"writev": str(-EIO), "has": "abcdefghi9"}
    assert shim.failures() == [1]


def test_a_part_of_the_path_picks_the_files(shim: Shim, data: Path) -> None:
    shim.fail("write", EIO, part="one")
    assert outcomes(shim, data / "two") == GOOD
    assert outcomes(shim, data / "one")["write"] == str(-EIO)


def test_writes_fall_short(shim: Shim, data: Path) -> None:
    shim.shorten()
    told = outcomes(shim, data / "f")
    assert told == GOOD | {"write": "3", "writev": "3", "pwrite": "3", "pwritev": "3", "has": "abcabc"}


def test_syncs_take_their_time(shim: Shim, data: Path) -> None:
    shim.slow("sync", 0.4, times=1)
    begun = time.monotonic()
    assert outcomes(shim, data / "f") == GOOD
    assert 0.4 <= time.monotonic() - begun < 10
