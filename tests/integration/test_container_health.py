"""The health check of the container file, run against brokers that answer and that do not."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.broker_process import BrokerProcess

CONTAINER = Path(__file__).parents[2] / "packaging" / "container" / "Containerfile"


def health_check(port: int, timeout: str = "5") -> int:
    """The exit code of its command, with the port of the variable and no long wait."""
    found = re.search(r"CMD (\[\"python\".*\])$", CONTAINER.read_text(), re.MULTILINE)
    assert found is not None
    _, flag, code = json.loads(found[1])
    assert "timeout=5" in code
    code = code.replace("timeout=5", f"timeout={timeout}")
    environ = {**os.environ, "LEVERET_HTTP_PORT": str(port)}
    done = subprocess.run([sys.executable, flag, code], capture_output=True, timeout=30, check=False, env=environ)
    return done.returncode


def test_a_broker_that_answers_is_told_from_one_that_does_not(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--http-port", "0") as serving:
        found = re.search(r"http +http://127\.0\.0\.1:(\d+)", serving.banner())
        assert found is not None
        assert health_check(int(found[1])) == 0
    assert health_check(int(found[1])) == 1
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections and never answers, as a loop that hangs
        assert health_check(mute.getsockname()[1], timeout="0.2") == 1
