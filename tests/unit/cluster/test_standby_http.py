"""Which requests a standby answers itself, and how."""

from __future__ import annotations

import json

import pytest

from leveret.cluster.standby_http import LONGEST_LINE, StandbyState, is_undecided, own_path, response

READY = StandbyState("", 3)
IN_SERVICE = "/api/health/checks/is-in-service"


def head(target: str, method: str = "GET", version: str = "HTTP/1.1") -> bytes:
    return f"{method} {target} {version}\r\nHost: a\r\n\r\n".encode()


def answered(target: str, state: StandbyState = READY, method: str = "GET") -> tuple[str, list[str], bytes]:
    path = own_path(head(target, method))
    assert path is not None
    lines, _, body = response(head(target, method), path, state).partition(b"\r\n\r\n")
    status, *headers = lines.decode().split("\r\n")
    return status, headers, body


def test_a_standby_that_relays_is_ready() -> None:
    status, headers, body = answered(IN_SERVICE)
    assert status == "HTTP/1.1 200 OK"
    assert json.loads(body) == {"status": "ok"}
    assert {"Connection: close", f"Content-Length: {len(body)}", "Content-Type: application/json"} <= set(headers)


def test_a_standby_that_does_not_relay_gives_the_reason() -> None:
    state = StandbyState("the cell has no leader", 0)
    status, _, body = answered(IN_SERVICE, state)
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert json.loads(body) == {"status": "failed", "reason": "the cell has no leader"}
    assert answered("/api/health/checks/local-alarms", state)[0] == "HTTP/1.1 200 OK"


@pytest.mark.parametrize("reason", ["", "the cell has no leader"])
def test_probes_give_no_reason(reason: str) -> None:
    state = StandbyState(reason, 0)
    assert (answered("/health/live", state)[0], answered("/health/live", state)[2]) == (
        "HTTP/1.1 200 OK",
        b'{"status":"ok"}',
    )
    status, _, body = answered("/health/ready", state)
    assert status.split()[1] == ("503" if reason else "200")
    assert json.loads(body) == {"status": "failed" if reason else "ok"}


def test_the_metrics_are_those_of_the_standby() -> None:
    body = answered("/metrics?x=1")[2].decode()
    assert "\nleveret_standby_relayed_connections 3\n" in body
    assert "\nleveret_standby_ready 1\n" in body
    assert "\nleveret_standby_ready 0\n" in answered("/metrics", StandbyState("no", 0))[2].decode()


def test_an_answer_to_head_has_no_body() -> None:
    _, headers, body = answered(IN_SERVICE, method="HEAD")
    assert body == b""
    assert "Content-Length: 15" in headers


@pytest.mark.parametrize(
    "begin",
    [
        head("/"),
        head("/api/queues"),
        head(IN_SERVICE + "/"),
        head(IN_SERVICE, "PUT"),
        head(IN_SERVICE, version="HTTP/2.0"),
        head("/ws"),
        b"\n",
        b"\x16\x03\x01 \n",
        b"\xff\xfe /metrics\n",
        b"x" * LONGEST_LINE,
    ],
)
def test_everything_else_is_relayed(begin: bytes) -> None:
    assert not is_undecided(begin)
    assert own_path(begin) is None


def test_a_request_line_is_awaited_up_to_its_end() -> None:
    assert is_undecided(b"")
    assert is_undecided(b"GET /metrics HTTP/1.1\r")
    assert not is_undecided(b"GET /metrics HTTP/1.1\r\n")
    assert own_path(b"GET /metrics HTTP/1.1\r\n") == "/metrics"
