"""S4-77: what a body may be: in time, in JSON that other tools read too, and not deeper than can be told again."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from leveret import Broker
from leveret.management import bodies, sessions
from tests.support.http_api import QUIET, HttpApi
from tests.support.management_api import ManagementApi, as_guest

DEEPEST_OF_AMQP = 32


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(QUIET) as broker:
        yield broker


@pytest.fixture
def admin(broker: Broker) -> ManagementApi:
    return as_guest(broker)


# ---- time


def half_a_body(api: HttpApi, method: str, path: str, **headers: str) -> http.client.HTTPConnection:
    connection = api.connect()
    connection.putrequest(method, path)
    for name, value in {**api.headers, **headers, "Content-Length": "50"}.items():
        connection.putheader(name, value)
    connection.endheaders(b"{")
    return connection


def refusal(connection: http.client.HTTPConnection) -> tuple[int, str, str | None]:
    answer = connection.getresponse()
    told: dict[str, Any] = json.loads(answer.read())
    connection.close()
    return answer.status, told["error"], answer.getheader("connection")


def test_s4_77_who_falls_silent_in_a_body_is_told_so_and_cut_off(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SILENCE", 0.1)
    silent = half_a_body(HttpApi(broker.http_url), "PUT", "/api/global-parameters/x")
    assert refusal(silent) == (408, "too_slow", "close")


def test_s4_72_a_login_that_trickles_in_keeps_no_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has logged in for it: a body of some kilobytes, a byte a minute, would keep its place for days."""
    monkeypatch.setattr(sessions, "SLOWEST_LOGIN", 0.1)
    slow = half_a_body(HttpApi(broker.http_url, user=None), "POST", "/api/login", **{"X-Requested-With": "test"})
    assert refusal(slow) == (408, "too_slow", "close")


# ---- JSON


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_s4_77_what_is_no_number_of_json_is_refused(admin: ManagementApi, number: str) -> None:
    """It would be told as null later, and an export with it could not be imported."""
    requests = [
        ("PUT", "/api/global-parameters/x", f'{{"value": {number}}}'),
        ("PUT", "/api/queues/%2F/q", f'{{"arguments": {{"x-own": {number}}}}}'),
        ("POST", "/api/definitions", f'{{"global_parameters": [{{"name": "x", "value": [{number}]}}]}}'),
    ]
    for method, path, body in requests:
        response, answer = admin.http.send(method, path, body.encode())
        assert response.status == 400, path
        assert number in json.loads(answer)["reason"], path
    assert admin.get("global-parameters") == (200, [])
    assert admin.get("queues") == (200, [])


def nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


def test_s4_71_what_could_be_declared_can_be_imported_again(broker: Broker, admin: ManagementApi) -> None:
    """In an export it lies deeper than where it came from."""
    arguments = nested(DEEPEST_OF_AMQP)

    def declare() -> None:
        broker.node.broker.vhosts["/"].declare_queue("deep", durable=True, arguments=arguments)

    broker.call(declare)
    assert admin.put("global-parameters/deep", {"value": nested(DEEPEST_OF_AMQP - 2)})[0] == 201
    status, exported = admin.get("definitions")
    assert status == 200
    assert admin.delete("queues/%2F/deep")[0] == 204
    assert admin.post("definitions", exported) == (204, None)
    assert admin.get("queues/%2F/deep")[1]["arguments"] == arguments


def test_s4_77_tables_without_end_are_refused(admin: ManagementApi) -> None:
    for levels in (60, 500):
        status, answer = admin.post("definitions", {"global_parameters": [{"name": "x", "value": nested(levels)}]})
        assert (status, answer["error"]) == (400, "bad_request")
        assert "nested deeper than" in answer["reason"]
