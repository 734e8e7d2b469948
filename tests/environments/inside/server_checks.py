"""Run in each environment with the extra `server`: a broker in a process, its ports, and the command line."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.client.blocking import connect

LEVERET = str(Path(sys.executable).with_name("leveret"))
FLAGS = ("--amqp-port", "0", "--http-port", "0", "--https-port", "off", "--stomp-port", "off")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """By scheme, from the banner of a running broker."""
    data = tmp_path_factory.mktemp("data")
    command = [LEVERET, "serve", "--data-dir", str(data), *FLAGS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            banner = ""
            for line in process.stdout:
                banner += line
                if "Ctrl-C" in line:
                    break
            yield dict(re.findall(r"^  (amqp|http) +(\S+)$", banner, re.MULTILINE))
        finally:
            process.terminate()
    assert process.returncode == 0


def test_amqp_http_websocket_and_command_line_show_the_same_queue(urls: dict[str, str]) -> None:
    with connect(urls["amqp"]) as connection:
        channel = connection.channel()
        channel.declare_queue("orders", durable=True)
        channel.confirm_select()
        channel.publish(b"an order", routing_key="orders")
    with connect(urls["http"].replace("http://", "ws://guest:guest@")) as connection:
        assert connection.channel().declare_queue("orders", passive=True).message_count == 1
    login = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(f"{urls['http']}/api/queues/%2F", headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert [queue["name"] for queue in json.load(answer)] == ["orders"]
    done = subprocess.run(
        [LEVERET, "queues", "list", "--json", "--url", urls["http"]], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [queue["name"] for queue in json.loads(done.stdout)] == ["orders"]


def test_the_guide_is_part_of_the_package(urls: dict[str, str]) -> None:
    with urllib.request.urlopen(f"{urls['http']}/web/guide/queues.md", timeout=30) as answer:
        assert answer.read().startswith(b"# Queues")


def test_a_command_shows_its_help() -> None:
    done = subprocess.run([LEVERET, "queues", "list", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Usage: leveret" in done.stdout
