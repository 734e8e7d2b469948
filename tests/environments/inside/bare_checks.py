"""Run without the extra `server`: each error says what to install."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import leveret
from leveret.client.blocking import connect
from leveret.client.errors import AddressError
from leveret.errors import ConfigError

LEVERET = str(Path(sys.executable).with_name("leveret"))
OF_THE_SERVER = ("h11", "rich", "starlette", "typer", "uvicorn", "websockets")


def test_the_packages_of_the_server_are_not_installed() -> None:
    assert [name for name in OF_THE_SERVER if find_spec(name) is not None] == []


@pytest.mark.parametrize("command", [[LEVERET, "serve"], [sys.executable, "-m", "leveret", "--help"]])
def test_the_command_says_what_to_install(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "leveret: the command line needs typer: pip install 'leveret[server]'\n"


def test_a_broker_with_an_http_port_says_what_to_install() -> None:
    broker = leveret.Broker(leveret.Settings(amqp_port=0, http_port=0))
    with pytest.raises(ConfigError, match=r"need h11, starlette, uvicorn, websockets: pip install 'leveret\[server\]'"):
        broker.start()
    with leveret.Broker(leveret.Settings(amqp_port=0, http_port=None, stomp_port=None)) as quiet:
        assert quiet.amqp_url


@pytest.mark.parametrize(("scheme", "package"), [("ws", "websockets"), ("http", "h11")])
def test_the_client_says_what_a_transport_needs(scheme: str, package: str) -> None:
    with pytest.raises(AddressError, match=rf"needs {package}: pip install 'leveret\[server\]'"):
        connect(f"{scheme}://guest:guest@127.0.0.1:1")
