"""S4-77: what a body may be: in time, in JSON that other tools read too, and not deeper than can be told again."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from leveret import Broker
from leveret.api import browse_limit as look_places
from leveret.api import messages as api_messages
from leveret.api import published_message as published
from leveret.http import bodies, sessions
from tests.support.http_api import QUIET, HttpApi
from tests.support.management_api import ManagementApi

DEEPEST_OF_AMQP = 32


pytestmark = pytest.mark.broker(fresh=True)


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


@pytest.mark.feature("S4-77")
def test_who_falls_silent_in_a_body_is_told_so_and_cut_off(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "IDLE_SECONDS", 0.1)
    silent = half_a_body(HttpApi(broker.http_url), "PUT", "/api/global-parameters/x")
    assert refusal(silent) == (408, "too_slow", "close")


@pytest.mark.feature("S4-72")
def test_a_login_that_trickles_in_keeps_no_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has logged in for it: a body of some kilobytes, a byte a minute, would keep its place for days."""
    monkeypatch.setattr(sessions, "LOGIN_SECONDS", 0.1)
    slow = half_a_body(HttpApi(broker.http_url, user=None), "POST", "/api/login", **{"X-Requested-With": "test"})
    assert refusal(slow) == (408, "too_slow", "close")


# ---- JSON


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.feature("S4-77")
def test_what_is_no_number_of_json_is_refused(admin: ManagementApi, number: str) -> None:
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
    assert admin.get("global-parameters/x")[0] == 404
    assert admin.get("queues") == (200, [])


def nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


@pytest.mark.feature("S4-71")
def test_what_could_be_declared_can_be_imported_again(broker: Broker, admin: ManagementApi) -> None:
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


@pytest.mark.feature("S4-77")
def test_tables_without_end_are_refused(admin: ManagementApi) -> None:
    for levels in (60, 500):
        status, answer = admin.post("definitions", {"global_parameters": [{"name": "x", "value": nested(levels)}]})
        assert (status, answer["error"]) == (400, "bad_request")
        assert "nested deeper than" in answer["reason"]


# ---- looks at queues


@pytest.mark.parametrize("path", ["queues/%2F/q/messages", "dead-letters", "dead-letters/%2F"])
@pytest.mark.feature("S4-77")
def test_so_many_look_at_a_time_and_others_are_asked_to_come_again(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(look_places, "MOST", 0)
    monkeypatch.setattr(look_places, "PATIENCE", 0.01)
    with Broker(QUIET) as broker:
        broker.vhost().declare_queue("q")
        response, body = HttpApi(broker.http_url).send("GET", f"/api/{path}")
        answer = json.loads(body)
    assert (response.status, response.getheader("retry-after"), answer["error"]) == (503, "1", "busy")
    assert "browse requests are in progress" in answer["reason"]


# ---- large messages


def publish(admin: ManagementApi, body: bytes) -> Any:
    return admin.post("exchanges/%2F/amq.default/publish", body)


LARGE = 2 << 20


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b'{"routing_key": "q", "payload": "%s", "payload_encoding": "string"}' % (b"x" * LARGE), 200, ""),
        (b'{"routing_key": "q", "payload": "%s", "properties": {"priority": NaN}}' % (b"x" * LARGE), 400, "not JSON"),
        (b'{"routing_key": "q", "payload": "%s", "payload": "\\ud800"}' % (b"x" * LARGE), 400, ""),
        (b'{"routing_key": "q", "payload": ["%s"]}' % (b"x" * LARGE), 400, "'payload' must be a string"),
        (b'{"routing_key": "q", "properties": {}, "other": "%s"}' % (b"x" * LARGE), 400, "'payload' must be a string"),
        (
            b'{"routing_key": "q", "payload": "", "properties": {"x": "%s"}}' % (b"x" * LARGE),
            413,
            "without its payload",
        ),
        (b"[%s1]" % (b"1," * LARGE), 400, "must be a JSON object"),
        (b'{"payload": "%s"' % (b"x" * LARGE), 400, "is not JSON"),
        (b'{"payload": %s' % (b"[" * LARGE), 400, "is not JSON"),
    ],
)
@pytest.mark.feature("S4-77")
def test_a_large_publish_is_judged_as_a_small_one(
    broker: Broker, admin: ManagementApi, body: bytes, status: int, reason: str
) -> None:
    broker.vhost().declare_queue("q")
    found, answer = publish(admin, body)
    assert (found, reason in answer.get("reason", "")) == (status, True), answer


@pytest.mark.feature("S4-77")
def test_a_large_publish_makes_no_values_but_those_of_the_message(
    broker: Broker, admin: ManagementApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million empty lists would hold the loop for a second."""
    parsed: list[int] = []
    real = published.decode_object

    def seen(body: bytes, what: str) -> Any:
        parsed.append(len(body))
        return real(body, what)

    monkeypatch.setattr(published, "decode_object", seen)
    body = b'{"routing_key": "q", "payload": "hello", "payload_encoding": "string", "more": [%s[]]}' % (b"[]," * LARGE)
    assert publish(admin, body) == (200, {"routed": False})
    assert parsed
    assert max(parsed) < 1_000


@pytest.mark.feature("S4-77")
def test_a_publish_may_be_as_large_as_the_largest_message_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert api_messages.most_bytes_of_publish(16 << 20) == 8 << 20
    assert api_messages.most_bytes_of_publish(3_000) == (1 << 20) + 4_000
