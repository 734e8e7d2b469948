"""CWE-367, time-of-check time-of-use race: a user who is deleted or loses its rights while the body of its request is
still on its way does not finish that request. CWE-400, uncontrolled resource consumption: nor does a small body take
for ever."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pyarrow as pa
import pytest

import leveret
from leveret.api.users import delete_user
from leveret.broker.broker import Broker
from leveret.http import bodies
from leveret.pipeline.inflow import RUN
from tests.support.http_api import arrow_stream, basic
from tests.support.raw_client import eventually

Change = Callable[[Broker], object]


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def broker(broker: leveret.Broker) -> leveret.Broker:
    core = broker.node.broker
    broker.call(lambda: core.users.add("anna", password="anna", tags=["administrator"]))
    broker.call(lambda: core.permissions.set("anna", "/", "", ".*", ".*"))
    return broker


class OpenRequest:
    """A request of ``anna`` that its endpoint reads the body of; the end of the body is missing."""

    def __init__(self, broker: leveret.Broker, method: str, path: str, body: bytes, missing: int = 1) -> None:
        address = broker.http_url.removeprefix("http://").rstrip("/")
        host, _, port = address.partition(":")
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {basic('anna', 'anna')}\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        )
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._socket.sendall(head.encode())
        # The broker asks for the body when the endpoint reads it: login and first checks are behind us.
        assert self._socket.recv(4096).startswith(b"HTTP/1.1 100 ")
        self._socket.sendall(body[:-missing])
        self._end = body[-missing:]

    def finish(self) -> int:
        self._socket.sendall(self._end)
        return self.status()

    def status(self) -> int:
        with self._socket, self._socket.makefile("rb") as answer:
            return int(answer.readline().split()[1])


EVE = {"password": "eve", "tags": "administrator"}
REQUESTS = [
    pytest.param("PUT", "/api/users/eve", EVE, id="user"),
    pytest.param("PUT", "/api/permissions/%2F/anna", dict.fromkeys(("configure", "write", "read"), ".*"), id="rule"),
    pytest.param("PUT", "/api/vhosts/eve", {"description": "hers"}, id="vhost"),
    pytest.param("PUT", "/api/policies/%2F/eve", {"pattern": "", "definition": {"max-length": 1}}, id="policy"),
    pytest.param("POST", "/api/definitions", {"users": [{"name": "eve", **EVE}]}, id="definitions"),
    pytest.param("PUT", "/api/queues/%2F/eve", {"durable": True}, id="queue"),
    pytest.param("POST", "/api/exchanges/%2F/amq.fanout/publish", {"routing_key": "", "payload": ""}, id="publish"),
]
CHANGES = [
    pytest.param(lambda core: delete_user(core, "anna"), 401, id="deleted"),
    pytest.param(lambda core: core.users.set_password("anna", password="new"), 401, id="new password"),
    pytest.param(lambda core: core.users.set_tags("anna", ["management"]), 403, id="demoted"),
]


@pytest.mark.parametrize(("change", "status"), CHANGES)
@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_a_user_who_lost_its_rights_does_not_finish_a_request(
    broker: leveret.Broker, method: str, path: str, body: dict[str, object], change: Change, status: int
) -> None:
    core = broker.node.broker
    request = OpenRequest(broker, method, path, json.dumps(body).encode())
    broker.call(lambda: change(core))
    before = broker.call(lambda: everything(core))
    assert request.finish() == status
    assert broker.call(lambda: everything(core)) == before


def test_a_permission_that_was_taken_back_meanwhile_does_not_count(broker: leveret.Broker) -> None:
    core = broker.node.broker
    commit = b'{"transaction": "orders", "batch": 0, "stages": []}'
    request = OpenRequest(broker, "POST", "/api/pipeline/%2F/commits", commit)
    broker.call(lambda: core.permissions.clear("anna", "/"))
    assert request.finish() == 403


def test_an_upload_ends_with_the_permission_to_publish(broker: leveret.Broker) -> None:
    core, vhost = broker.node.broker, broker.vhost()
    vhost.declare_queue("orders")
    rows = pa.record_batch({"body": pa.array([b"x"] * RUN, pa.binary())})
    first, both = arrow_stream(rows), arrow_stream(rows, rows)
    path = "/api/pipeline/%2F/messages?routing_key=orders"
    request = OpenRequest(broker, "POST", path, both, missing=len(both) - len(first))
    eventually(lambda: vhost.message_count("orders") == RUN)
    broker.call(lambda: core.permissions.set("anna", "/", "", "", ".*"))
    assert request.finish() == 403
    assert vhost.message_count("orders") == RUN


def test_a_small_body_does_not_trickle_for_ever(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "GRACE", 0.3)
    request = OpenRequest(broker, "PUT", "/api/users/eve", json.dumps(EVE).encode())
    assert request.status() == 408  # long before SILENCE
    assert "eve" not in broker.node.broker.users


def everything(core: Broker) -> tuple[object, ...]:
    vhosts = core.vhosts
    return (
        [(user.name, user.tags) for user in core.users.list()],
        core.permissions.list(),
        sorted(vhosts),
        sorted(vhosts["/"].queues),
        [policy.name for policy in vhosts["/"].policies.in_order()],
    )
