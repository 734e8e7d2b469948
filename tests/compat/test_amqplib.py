"""amqplib, the client of Node: scripts in node/ do the work and print JSON, which is judged here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import leveret
from tests.support.programs import missing, require_program

NODE = Path(__file__).parent / "node"


def run_script(name: str, url: str) -> dict[str, Any]:
    node = require_program("node")
    if not (NODE / "node_modules" / "amqplib").is_dir():
        missing("amqplib is not installed (`make foreign` installs it)")
    done = subprocess.run([node, name, url], cwd=NODE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def check_round_trips(seen: dict[str, Any]) -> None:
    assert seen["confirmed"] == 500
    assert seen["returned"] == [312, "NO_ROUTE", "m-1", "lost"]
    assert seen["deliveries"] == [["ack", False], ["again", False], ["again", True], ["drop", False], ["last", False]]
    assert seen["left"] == 0
    assert seen["empty"] is False
    assert seen["got"] == ["one", 1, {"a": 1, "b": [True, None, "x"], "c": {"d": -1.5}}, 2]
    assert (seen["purged"], seen["deleted"]) == (1, 0)
    assert seen["replies"] == {f"id-{number}": number**2 for number in range(10)}
    assert (seen["all"], seen["any"]) == (1, 2)
    assert seen["large"] is True
    assert seen["cancelled"] is None


@pytest.mark.feature("S0-08", "S4-55", "S4-74", "S4-79")
def test_messages_go_there_and_back(leveret_broker: leveret.Broker) -> None:
    """Confirms, returns, consumers, get, direct reply-to, headers, cancel notice."""
    seen = run_script("round_trips.mjs", leveret_broker.amqp_url)
    check_round_trips(seen)
    assert seen["frameMax"] == 131072


def test_the_same_with_the_smallest_frames_there_are(leveret_broker: leveret.Broker) -> None:
    """amqplib ends the connection if a frame is larger than it agreed to."""
    seen = run_script("round_trips.mjs", leveret_broker.amqp_url + "?frameMax=4096")
    check_round_trips(seen)
    assert seen["frameMax"] == 4096


@pytest.mark.feature("S4-05", "S4-37", "S4-81")
def test_errors_reach_their_channel_and_no_other(leveret_broker: leveret.Broker) -> None:
    seen = run_script("errors.mjs", leveret_broker.amqp_url)
    assert (seen["missing"]["rejected"], seen["missing"]["event"][0]) == (404, 404)
    assert "no queue 'nowhere' in vhost '/'" in seen["missing"]["event"][1]
    assert (seen["differs"]["rejected"], seen["differs"]["event"][0]) == (406, 406)
    assert "inequivalent arg 'x-message-ttl'" in seen["differs"]["event"][1]
    assert seen["unknownTag"]["event"][0] == 406
    assert seen["noExchange"]["event"][0] == 404
    assert seen["steady"] == "strict"
    assert seen["connection"] == 530
    assert "ConnectionClose" in seen["vhost"]
