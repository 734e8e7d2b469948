"""Paths, addresses and refusals, without a broker."""

from __future__ import annotations

import json

import pytest

from leveret.cli.api_client import Answer, Api, CommandProblem, Login, Misuse, NotReachable, address_of, located
from leveret.cli.broker_options import pairs
from leveret.http.sessions import LOGIN_FAILED


def api(status: int, body: bytes, monkeypatch: pytest.MonkeyPatch) -> Api:
    """One to which somebody always answers the same."""
    client = Api(Login(address_of("http://h:1", "a test"), "anna", lambda: "hunter2"))
    monkeypatch.setattr(client, "_exchange", lambda *request: Answer(status, body, "http://h:1"))
    return client


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (("queues",), None, "/api/queues"),
        (("queues", "/", "a b/ö"), {}, "/api/queues/%2F/a%20b%2F%C3%B6"),
        (("queues", "\udcff"), {"x": "\udcff"}, "/api/queues/%FF?x=%FF"),
        (("queues", ".."), {"x": None, "y": True, "z": "a&b"}, "/api/queues/..?y=true&z=a%26b"),
    ],
)
def test_a_path_is_encoded_part_by_part(path: tuple[str, ...], query: dict[str, object], expected: str) -> None:
    assert located(path, query) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", "http://h:15672"),
        ("https://h", "https://h:15671"),
        ("http://[::1]:99/", "http://[::1]:99"),
        ("http://h:1/leveret/", "http://h:1/leveret"),
    ],
)
def test_an_address_has_the_usual_port(url: str, expected: str) -> None:
    assert address_of(url, "--url").url == expected


@pytest.mark.parametrize("url", ["", "h:15672", "amqp://h", "http://", "http://h:port", "http://h:1?x", "http://[x"])
def test_a_url_that_cannot_be_used_is_named_with_its_source(url: str) -> None:
    with pytest.raises(Misuse) as problem:
        address_of(url, "context 'shop'")
    assert "context 'shop'" in str(problem.value)
    assert repr(url) in str(problem.value)


@pytest.mark.parametrize(
    "url", ["http://anna:hunter2@h", "amqp://anna:hunter2@h", "http://anna:hunter2@h:x", "anna:hunter2@h"]
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Misuse, match="which other users of this machine can read: use --username") as problem:
        address_of(url, "--url")
    assert "hunter2" not in str(problem.value)


@pytest.mark.parametrize(
    ("status", "body", "code", "expected"),
    [
        (404, b'{"error":"not_found","reason":"no queue \'q\' in vhost"}', 1, "no queue 'q' in vhost"),
        (
            404,
            b'{"error":"Object Not Found","reason":"Not Found"}',
            1,
            "no queue 'q' in vhost '/': see 'leveret queues list'",
        ),
        (405, b"", 1, "does not support GET /api/queues/%2F/q: this command needs Leveret"),
        (403, b'{"error":"x","reason":"forbidden"}', 1, "GET /api/queues/%2F/q: forbidden"),
        (400, b'{"error":"bad_request","reason":"two\\nlines of  it all"}', 1, "two lines of it all"),
        (500, b"[]", 1, "GET /api/queues/%2F/q: status 500"),
        (
            502,
            b"<html>Bad Gateway",
            3,
            "is not the HTTP API of a broker, it responded with '<html>Bad Gateway': check the port",
        ),
    ],
)
def test_a_refusal_is_one_line_with_what_the_broker_said(
    status: int, body: bytes, code: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandProblem) as problem:
        api(status, body, monkeypatch).get("queues", "/", "q")
    assert problem.value.exit_code == code
    assert expected in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("reason", [LOGIN_FAILED, "Login failed"])  # RabbitMQ's text is the second
def test_a_wrong_login_says_whose_and_where_passwords_come_from(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandProblem) as problem:
        api(401, json.dumps({"error": "not_authorised", "reason": reason}).encode(), monkeypatch).get("whoami")
    assert str(problem.value).startswith(f"http://h:1 refused user 'anna': {reason}; set LEVERET_PASSWORD")
    assert "hunter2" not in str(problem.value)


def test_only_what_is_not_found_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    assert api(200, b"{}", monkeypatch).exists("users", "anna")
    assert not api(404, b"{}", monkeypatch).exists("users", "anna")
    with pytest.raises(CommandProblem):
        api(403, b"{}", monkeypatch).exists("users", "anna")


def test_an_answer_that_is_no_json_is_of_somebody_else() -> None:
    with pytest.raises(NotReachable):
        _ = Answer(200, b"hello", "http://h:1").value


def test_pairs_are_read_as_json_or_as_text() -> None:
    assert pairs(["a=1", "b=x=y", 'c="1"', "d=", "e=[1]", "f=true"], "--argument") == {
        "a": 1,
        "b": "x=y",
        "c": "1",
        "d": "",
        "e": [1],
        "f": True,
    }
    for wrong in ("a", "=1", ""):
        with pytest.raises(Misuse, match="write it as KEY=VALUE"):
            pairs([wrong], "--argument")
