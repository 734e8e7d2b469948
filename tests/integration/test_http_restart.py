"""Sessions, history and failed queries of the management UI survive a restart, and damaged files do no harm."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret import FrozenClock
from tests.support.http_api import QUIET, HttpApi

AGE = {"msg_rates_age": 600, "msg_rates_incr": 5}


def broker_in(folder: Path, wall: float = 1_700_000_000.0) -> leveret.Broker:
    return leveret.Broker(replace(QUIET, data_dir=folder / "data"), clock=FrozenClock(wall))


def log_in(broker: leveret.Broker) -> str:
    api = HttpApi(broker.http_url, None)
    api.headers["X-Requested-With"] = "leveret"
    response, _ = api.send("POST", "/api/login", b'{"username": "guest", "password": "guest"}')
    assert response.status == 200
    return str(response.getheader("set-cookie")).partition(";")[0]


def user_of(broker: leveret.Broker, cookie: str) -> Any:
    """Cookies are named by the port, which another broker has."""
    api = HttpApi(broker.http_url, None)
    port = broker.http_url.rpartition(":")[2]
    api.headers["Cookie"] = f"leveret_session_{port}={cookie.partition('=')[2]}"
    return json.loads(api.send("GET", "/api/login")[1])


def published(broker: leveret.Broker) -> list[int]:
    overview = HttpApi(broker.http_url).get("/api/overview", **AGE)[1]
    return [one["sample"] for one in overview["message_stats"]["publish_details"]["samples"]]


def test_sessions_and_history_survive_a_restart(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        cookie = log_in(broker)
        for _ in range(3):
            broker.vhost().publish("", "nowhere", b"x")
            broker.clock.advance(5)
        assert published(broker)[0] == 3
        ended = broker.clock.core.wall()
    for name in ("sessions", "history"):
        assert (tmp_path / "data" / name).stat().st_mode & 0o077 == 0, name
    with broker_in(tmp_path, ended + 300) as broker:
        assert user_of(broker, cookie)["name"] == "guest"
        broker.vhost().publish("", "nowhere", b"x")
        broker.clock.advance(5)
        assert published(broker) == [1, 0, 3, 2, 1, 0]  # without samples for the five minutes in between
        broker.call(lambda: broker.node.broker.users.set_password("guest", password="new"))
        assert user_of(broker, cookie) is None


def queries(broker: leveret.Broker) -> list[tuple[str, str, str | None]]:
    return [
        (each["id"], each["state"], each["error"]) for each in HttpApi(broker.http_url).get("/api/spark-queries")[1]
    ]


def test_the_error_of_a_failed_query_survives_a_restart(tmp_path: Path) -> None:
    failed = {"id": "q", "name": "nightly", "vhost": "/", "state": "failed", "error": "no exchange 'e'", "rows": 3}
    with broker_in(tmp_path) as broker:
        api = HttpApi(broker.http_url)
        for report in (failed, failed | {"id": "again"}, failed | {"id": "runs", "state": "running", "error": None}):
            assert api.post("/api/pipeline/queries", report)[0] == 200
        api.post("/api/pipeline/queries", {"id": "again", "vhost": "/", "state": "running"})
        ended = broker.clock.core.wall()
    assert (tmp_path / "data" / "failed_queries").stat().st_mode & 0o077 == 0
    with broker_in(tmp_path, ended + 1800) as broker:
        assert queries(broker) == [("q", "failed", "no exchange 'e'")]
        [query] = HttpApi(broker.http_url).get("/api/spark-queries")[1]
        assert query["silent_for"] == 1800
        assert query["name"] == "nightly"
    with broker_in(tmp_path, ended + 3601) as broker:
        assert queries(broker) == []


@pytest.mark.parametrize("content", [b"", b"not ours", b"\0" * (17 << 20)], ids=["empty", "text", "huge"])
def test_files_that_cannot_be_read_are_ignored(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_in(tmp_path) as broker:
        log_in(broker)
    for name in ("sessions", "history", "failed_queries"):
        (tmp_path / "data" / name).write_bytes(content)
    with caplog.at_level(logging.WARNING, "leveret"), broker_in(tmp_path) as broker:
        log_in(broker)
        told = [record.getMessage() for record in caplog.records if "saved state ignored" in record.getMessage()]
    assert len(told) == 3
    with broker_in(tmp_path) as broker:  # written again at the shutdown
        assert published(broker)
