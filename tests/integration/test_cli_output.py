"""Where commands write: a disk that is full, a stream that is closed, a reader that has seen enough. S4-77."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leveret import Broker
from tests.support.broker_process import SRC
from tests.support.command_line import Cli
from tests.support.http_api import QUIET

FULL = Path("/dev/full")
POSIX = os.name == "posix"


def shell(line: str, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of sh in which ``leveret`` is ours."""
    environ = {**os.environ, "PYTHONPATH": str(SRC), "XDG_CONFIG_HOME": str(folder), "LEVERET_PASSWORD": "guest"}
    command = line.replace("leveret", f"{sys.executable} -m leveret.cli.main").replace("URL", f"--url {url}")
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=50, env=environ, check=False)


if FULL.exists():

    @pytest.mark.parametrize("command", ["queues list URL", "queues list --json URL", "config show"])
    def test_a_full_disk_behind_the_output_is_one_line(command: str, tmp_path: Path) -> None:
        with Broker(QUIET) as broker:
            Cli(broker.http_url, tmp_path).done("queues", "create", "q")
            done = shell(f"leveret {command} >{FULL}", broker.http_url, tmp_path)
        assert done.returncode == 1
        assert done.stderr == "leveret: cannot write to standard output: No space left on device\n"


if POSIX:

    def test_a_closed_output_is_no_trace_and_a_reader_may_leave(tmp_path: Path) -> None:
        with Broker(QUIET) as broker:
            cli = Cli(broker.http_url, tmp_path)
            for number in range(3):
                cli.done("queues", "create", f"q{number}")
            done = shell("leveret queues list URL >&-", broker.http_url, tmp_path)
            assert (done.returncode, done.stderr) == (0, "")
            done = shell("leveret queues list URL | head -1", broker.http_url, tmp_path)
            assert done.stdout.startswith("vhost  name")
            assert done.stderr == ""
            done = shell("leveret queues list --json URL | true", broker.http_url, tmp_path)
            assert done.stderr == ""

    def test_a_closed_input_is_an_empty_body_and_no_password(tmp_path: Path) -> None:
        with Broker(QUIET) as broker:
            Cli(broker.http_url, tmp_path).done("queues", "create", "q")
            done = shell("leveret publish q URL <&-", broker.http_url, tmp_path)
            assert (done.returncode, done.stderr) == (0, "")
            assert "published 0 bytes" in done.stdout
            done = shell(
                "unset LEVERET_PASSWORD; leveret status --username anna URL <&- 2>&1", broker.http_url, tmp_path
            )
        assert done.returncode == 2
        assert done.stdout.startswith("leveret: no password for user 'anna'")


def test_the_first_context_is_used_and_says_so(tmp_path: Path) -> None:
    cli = Cli("", tmp_path)
    assert "it is the current context" in cli.run("context", "add", "shop", url=None).stdout
    assert "leveret context use other" in cli.run("context", "add", "other", url=None).stdout
    rows = cli.run("context", "list", url=None).stdout.splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [["no", "other"], ["yes", "shop"]]
