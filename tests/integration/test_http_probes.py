"""Probes without a login: alive, and ready or not, and nothing else."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest
import uvloop

from leveret import Broker, Settings
from leveret.http import app
from leveret.node import Node
from leveret.store.store import Store
from tests.support.cell_ports import free_ports
from tests.support.http_api import HttpApi

LIVE, READY = "/health/live", "/health/ready"
OK, FAILED = (200, {"status": "ok"}), (503, {"status": "failed"})

pytestmark = pytest.mark.broker(fresh=True)


def probe(broker: Broker, path: str, method: str = "GET") -> tuple[int, object]:
    response, body = HttpApi(broker.http_url, None).send(method, path)
    return response.status, json.loads(body) if body else None


Change = Callable[[Broker], object]
STATES: dict[str, tuple[Change, bool]] = {
    "as started": (lambda broker: None, True),
    "alarm": (lambda broker: broker.node.broker.set_alarm("memory", "too much"), True),
    "stopping": (lambda broker: setattr(broker.node.broker, "is_stopping", True), False),
    "store failed": (lambda broker: broker.node.broker.lost(), False),
}


@pytest.mark.parametrize("state", STATES)
def test_a_broker_is_alive_in_every_state_and_ready_in_some(
    broker: Broker, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "is_loopback", lambda address: False)  # kubelets are on other hosts
    change, is_ready = STATES[state]
    broker.call(lambda: change(broker))
    assert probe(broker, LIVE) == OK
    assert probe(broker, READY) == (OK if is_ready else FAILED)
    assert probe(broker, READY, "HEAD") == (200 if is_ready else 503, None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", LIVE, 405),
        ("DELETE", READY, 405),
        ("GET", "/health", 401),
        ("GET", "/health/", 401),
        ("GET", "/health/live/x", 401),
        ("GET", "/health%2Flive", 401),
    ],
)
def test_nothing_else_is_open(broker: Broker, method: str, path: str, status: int) -> None:
    assert probe(broker, path, method)[0] == status


def test_a_login_is_not_checked(broker: Broker) -> None:
    """So a probe costs no password hash, whatever it sends."""
    assert HttpApi(broker.http_url, "guest", "wrong").get(READY)[0] == 200


def test_responses_are_not_cached_and_tell_nothing(broker: Broker) -> None:
    response, body = HttpApi(broker.http_url, None).send("GET", READY)
    assert response.getheader("cache-control") == "no-store"
    assert response.getheader("server") is None
    assert body == b'{"status":"ok"}'


def test_a_broker_that_recovers_is_alive_and_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    settings = Settings(
        data_dir=tmp_path, amqp_port=0, http_port=port, stomp_port=None, shutdown_timeout=0.5, durability="os"
    )
    recovering, may_go_on = threading.Event(), threading.Event()
    opened = Store.open

    def slow_open(store: Store, *arguments: object) -> object:
        recovering.set()
        assert may_go_on.wait(30)
        return opened(store, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "open", slow_open)

    def ask(path: str) -> tuple[int, object]:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    async def run() -> None:
        loop, node = asyncio.get_running_loop(), Node(settings)
        starting = loop.create_task(node.start())
        await loop.run_in_executor(None, recovering.wait, 30)
        try:
            assert await loop.run_in_executor(None, ask, LIVE) == OK
            assert await loop.run_in_executor(None, ask, READY) == FAILED
            status, answer = await loop.run_in_executor(None, ask, "/api/overview")
            assert (status, answer["error"]) == (503, "not_ready")  # type: ignore[index]
        finally:
            may_go_on.set()
            await starting
        assert await loop.run_in_executor(None, ask, READY) == OK
        assert (await loop.run_in_executor(None, ask, "/api/overview"))[0] == 401
        await node.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as leveret serve
        runner.run(run())
