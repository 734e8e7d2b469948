"""CWE-400, uncontrolled resource consumption: what the management API reads on the event loop, or in a thread that
holds the interpreter's lock, is bounded, so that one request does not keep other connections waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from tests.support.attack_target import AttackTarget
from tests.support.raw_client import RawClient, eventually

LISTS = b"[],"
LARGE_BODY = b'{"id": 42, "lists": [' + LISTS * (2 << 20) + b"1]}"
SMALL_BODY = b'{"id": 42, "lists": []}'


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path, watermark=400 << 20) as broker:
        with RawClient.open(broker.url(), timeout=30.0) as client:
            client.call(QueueDeclare("q"), QueueDeclareOk)
            for body in (LARGE_BODY, SMALL_BODY, LARGE_BODY):
                client.publish("", "q", body)
            client.is_alive()
        yield broker


@pytest.mark.quiet
def test_browsing_does_not_parse_large_bodies(attacked: AttackTarget) -> None:
    """Not for the filter, and not to show them."""
    for _ in range(20):  # long enough for the bystander
        status, answer = attacked.api.get("/api/queues/%2F/q/messages", json="id=42", truncate=16 << 20)
        assert status == 200
        assert [message["payload_json"] for message in answer["messages"]] == [{"id": 42, "lists": []}]
        assert (answer["examined"], answer["too_large"], answer["is_complete"]) == (3, 2, True)
    status, answer = attacked.api.get("/api/queues/%2F/q/messages", limit=1, truncate=16 << 20)
    assert answer["messages"][0]["payload_format"] == "text"
    attacked.check()


@pytest.mark.quiet
def test_jobs_do_not_parse_large_bodies(attacked: AttackTarget) -> None:
    status, begun = attacked.api.post("/api/queues/%2F/q/jobs", {"kind": "delete", "json": "id=42"})
    assert status == 202
    job = f"/api/queue-jobs/{begun['id']}"
    eventually(lambda: attacked.api.get(job)[1]["state"] == "done", seconds=20)
    row = attacked.api.get(job)[1]
    assert (row["examined"], row["done"], row["too_large"]) == (3, 1, 2)
    attacked.check()


@pytest.mark.quiet
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/queues/%2F/q2"),
        ("PUT", "/api/policies/%2F/p"),
        ("POST", "/api/exchanges/%2F/amq.direct/publish"),
        ("POST", "/api/queues/%2F/q/get"),
    ],
)
def test_a_body_of_too_many_values_is_refused_unread(attacked: AttackTarget, method: str, path: str) -> None:
    body = b'{"routing_key": "k", "payload": "", "payload_encoding": "string", "properties": {"headers": ['
    body += LISTS * 330_000 + b"1]}}"
    for _ in range(20):
        response, answer = attacked.api.send(method, path, body)
        assert (response.status, b"values" in answer) == (413, True), answer
    attacked.check()
