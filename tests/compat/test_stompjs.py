"""@stomp/stompjs, the client of browsers and Node, over WebSocket: a script in node/ prints JSON, judged here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import leveret
from leveret import Settings
from tests.support.programs import missing, require_program

NODE = Path(__file__).parent / "node"
QUIET = Settings(amqp_port=None, http_port=0, stomp_port=None, shutdown_timeout=0.5, login_failure_delay=0.0)


@pytest.mark.feature("S3-03")
def test_messages_go_there_and_back_over_websocket() -> None:
    """STOMP through the HTTP port."""
    node = require_program("node")
    if not (NODE / "node_modules" / "@stomp" / "stompjs").is_dir() or not (NODE / "node_modules" / "ws").is_dir():
        missing("stompjs and ws are not installed (`make foreign` installs them)")
    with leveret.Broker(QUIET) as broker:
        url = broker.http_url.replace("http://", "ws://") + "/ws"
        command = [node, "stomp_round_trips.mjs", url]
        done = subprocess.run(command, cwd=NODE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    body = "grüße \N{RABBIT}"
    assert (seen["version"], seen["receipt"]) == ("1.2", "r-1")
    assert seen["deliveries"] == [[body, "false", "a:b\nc"], [body, "true", "a:b\nc"]]
    assert seen["binary"] == [0, 1, 255, 0, 10]
    assert (seen["committed"], seen["refused"]) == ("in", "Bad CONNECT")
