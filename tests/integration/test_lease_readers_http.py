"""One reader at a time for a lease consumer: the next one has to wait until the first is gone."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.config import Settings
from leveret.pipeline.lease_readers import GRACE, LeaseReader
from tests.support.http_api import QUIET, HttpApi, vhost_path
from tests.support.publishing import declare_at, fill
from tests.support.spark_broker import eventually

LEASES, READERS = vhost_path("leases"), vhost_path("leases/readers")
MINE = {"consumer": "job", "queue": "q"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(QUIET, data_dir=tmp_path / "data")


@pytest.fixture
def broker(settings: Settings) -> Iterator[leveret.Broker]:
    with leveret.Broker(settings) as running:
        declare_at(running.amqp_url, "q")
        fill(running.amqp_url, "q", [b"1", b"2"])
        yield running


def register(api: HttpApi, reader: str, **more: object) -> tuple[int, Any]:
    return api.post(READERS, {**MINE, "reader": reader, "name": f"process of {reader}", **more})


def test_a_second_reader_is_refused_and_told_of_the_first(broker: leveret.Broker, api: HttpApi) -> None:
    assert register(api, "one")[0] == 200
    status, answer = register(api, "two")
    assert (status, answer["reader"], answer["requests"]) == (409, "process of one", 1)
    assert "consumer 'job' of queue 'q' in vhost '/' is in use by process of one (user 'guest')" in answer["reason"]
    assert register(api, "one")[0] == 200
    assert register(api, "two")[1]["requests"] == 2, "the first is running: its number grows"
    assert api.post(READERS, {"consumer": "else", "queue": "q", "reader": "two"})[0] == 200


def test_only_the_registered_reader_gets_leases(broker: leveret.Broker, api: HttpApi) -> None:
    register(api, "one")
    wanted = {**MINE, "after": 0, "max_messages": 1}
    assert api.post(LEASES, {**wanted, "reader": "two"})[0] == 409
    assert api.post(LEASES, {**wanted, "reader": "one"})[1]["lease"] == 1
    assert api.post(LEASES, wanted)[1]["lease"] == 1, "without an identifier there is no check"


def test_a_name_is_free_when_its_reader_says_so_or_is_silent(broker: leveret.Broker, api: HttpApi) -> None:
    register(api, "one")
    assert api.delete(READERS, **MINE, reader="two") == (200, {"removed": False})
    assert api.delete(READERS, **MINE, reader="one") == (200, {"removed": True})
    assert register(api, "two")[0] == 200
    clock = broker.node.broker.clock
    broker.call(lambda: clock.move_to(clock.now() + 4.5))
    assert register(api, "three")[0] == 409
    broker.call(lambda: clock.move_to(clock.now() + 1))
    assert register(api, "three")[0] == 200


def test_a_name_is_free_as_soon_as_its_process_has_ended(broker: leveret.Broker, api: HttpApi) -> None:
    register(api, "one")
    connection = api.connect()
    connection.request("POST", READERS, json.dumps({**MINE, "reader": "one", "wait": 5}), api.headers)
    eventually(lambda: register(api, "two")[1]["requests"] == 2)
    clock = broker.node.broker.clock
    broker.call(lambda: clock.move_to(clock.now() + 60))
    assert register(api, "two")[0] == 409, "its request is open"
    connection.close()
    eventually(lambda: register(api, "two")[0] == 200)


def test_readers_of_deleted_queues_do_not_stay_in_memory(broker: leveret.Broker, api: HttpApi) -> None:
    declare_at(broker.amqp_url, "short")
    for number in range(20):
        given = {"consumer": str(number), "queue": "short", "reader": "r", "name": "short-lived"}
        assert api.post(READERS, given)[0] == 200
    assert api.send("DELETE", "/api/queues/%2F/short")[0].status == 204
    assert api.delete(READERS, consumer="0", queue="short", reader="r")[0] == 404
    assert readers_in_memory("short-lived") == 20
    clock = broker.node.broker.clock
    broker.call(lambda: clock.move_to(clock.now() + GRACE + 1))
    assert register(api, "one")[0] == 200
    assert readers_in_memory("short-lived") == 0


def readers_in_memory(name: str) -> int:
    return sum(isinstance(each, LeaseReader) and each.name == name for each in gc.get_objects())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"reader": ""}, "'reader' must have 1 to 255 characters"),
        ({"reader": "x" * 256}, "'reader' must have 1 to 255 characters"),
        ({"wait": 6}, "'wait'"),
        ({"queue": "nowhere"}, "no queue 'nowhere'"),
    ],
)
def test_what_is_refused(change: dict[str, object], text: str, broker: leveret.Broker, api: HttpApi) -> None:
    status, answer = api.post(READERS, {**MINE, "reader": "r", **change})
    assert status in (400, 404)
    assert text in answer["reason"]
