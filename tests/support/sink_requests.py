"""Requests of a sink over HTTP: rows as Arrow, stages and commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import leveret
from leveret.broker.internal_queues import STAGE
from leveret.embedded_vhost import EmbeddedVhost
from tests.support.http_api import HttpApi, arrow_stream, vhost_path

STAGES, COMMITS, MESSAGES = vhost_path("stages"), vhost_path("commits"), vhost_path("messages")
TO_Q: dict[str, object] = {"exchange": "", "routing_key": "q"}
BOTH = pytest.mark.parametrize(("path", "more"), [(STAGES, {"transaction": "T", "batch": 0}), (MESSAGES, {})])


def rows(number: int, first: int = 0, **columns: Any) -> bytes:
    body = pa.array([b"%06d" % n for n in range(first, first + number)], pa.binary())
    return arrow_stream(pa.record_batch({"body": body, **columns}))


def staged(api: HttpApi, body: bytes, batch: int = 0, transaction: str = "T", **query: object) -> str:
    status, answer = api.post(STAGES, body, **{**TO_Q, "transaction": transaction, "batch": batch, **query})
    assert status == 200, answer
    return str(answer["stage"])


def commit(api: HttpApi, batch: int, *ids: str, transaction: str = "T") -> tuple[int, Any]:
    return api.post(COMMITS, {"transaction": transaction, "batch": batch, "stages": ids})


def drained(vhost: EmbeddedVhost, queue: str = "q") -> list[bytes]:
    bodies = []
    while (message := vhost.get(queue, auto_ack=True)) is not None:
        bodies.append(message.body)
    return bodies


def stage_queues(broker: leveret.Broker) -> list[str]:
    return broker.call(
        lambda: [name for name in broker.node.broker.vhost("/").internal.queues if name.startswith(STAGE)]
    )


def add_user(broker: leveret.Broker, name: str, write: str, topic: str | None = None) -> HttpApi:
    core = broker.node.broker

    def add() -> None:
        core.users.add(name, password="secret")
        core.permissions.set(name, "/", "", write, "")
        if topic is not None:
            core.permissions.set_topic(name, "/", "amq.topic", topic, "")

    broker.call(add)
    return HttpApi(broker.http_url, name, "secret")
