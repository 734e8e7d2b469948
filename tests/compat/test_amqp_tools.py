"""Debian's amqp-tools: librabbitmq from the shell."""

from __future__ import annotations

import subprocess

import pytest

import leveret
from tests.support.programs import require_program


class Tools:
    """Runs amqp-NAME against one broker."""

    def __init__(self, url: str) -> None:
        self._url = url

    def run(self, name: str, *arguments: str, body: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [require_program(f"amqp-{name}"), f"--url={self._url}", *arguments]
        return subprocess.run(command, input=body, capture_output=True, timeout=120)

    def __call__(self, name: str, *arguments: str, body: bytes = b"") -> bytes:
        done = self.run(name, *arguments, body=body)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


@pytest.fixture
def amqp(leveret_broker: leveret.Broker) -> Tools:
    return Tools(leveret_broker.amqp_url)


def test_declare_publish_get_and_delete(amqp: Tools) -> None:
    assert amqp("declare-queue", "--queue=shell") == b"shell\n"
    amqp("publish", "--routing-key=shell", "--body=hello", "--content-type=text/plain", "--persistent")
    amqp("publish", "--routing-key=shell", body=b"from stdin\x00\xff")
    assert amqp("get", "--queue=shell") == b"hello"
    assert amqp("get", "--queue=shell") == b"from stdin\x00\xff"
    assert amqp.run("get", "--queue=shell").returncode == 2
    amqp("publish", "--routing-key=shell", "--body=left")
    assert amqp("delete-queue", "--queue=shell").strip() == b"1"


def test_every_line_becomes_a_message(amqp: Tools) -> None:
    amqp("declare-queue", "--queue=lines")
    amqp("publish", "--routing-key=lines", "--line-buffered", body=b"one\ntwo\nthree\n")
    assert [amqp("get", "--queue=lines").strip() for _ in range(3)] == [b"one", b"two", b"three"]


def test_consume_runs_a_command_for_every_message(amqp: Tools) -> None:
    amqp("declare-queue", "--queue=work")
    for body in ("a", "b", "c"):
        amqp("publish", "--routing-key=work", f"--body={body}")
    seen = amqp("consume", "--queue=work", "--count=3", "--prefetch-count=1", "--", "sh", "-c", "cat; echo")
    assert seen == b"a\nb\nc\n"
    assert amqp.run("get", "--queue=work").returncode == 2


@pytest.mark.feature("S4-55", "S4-61")
def test_a_command_that_fails_leaves_its_message_in_the_queue(amqp: Tools) -> None:
    amqp("declare-queue", "--queue=fragile")
    amqp("publish", "--routing-key=fragile", "--body=hot")
    amqp.run("consume", "--queue=fragile", "--count=1", "--", "sh", "-c", "cat >/dev/null; exit 1")
    assert amqp("get", "--queue=fragile") == b"hot"


def test_a_body_of_many_frames_passes(amqp: Tools) -> None:
    amqp("declare-queue", "--queue=large")
    body = bytes(range(256)) * 4096
    amqp("publish", "--routing-key=large", body=body)
    assert amqp("get", "--queue=large") == body


@pytest.mark.feature("S4-37", "S4-46", "S4-81")
def test_errors_are_told(amqp: Tools) -> None:
    done = amqp.run("get", "--queue=nowhere")
    assert done.returncode not in (0, 2)
    assert b"404" in done.stderr
    assert b"no queue 'nowhere' in vhost '/'" in done.stderr
