"""Leases over HTTP, on a real broker with a disk, beside consumers over AMQP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.clock import Clock
from leveret.config import Settings
from leveret.embedded_vhost import EmbeddedVhost
from leveret.wire.methods import BasicConsume, BasicConsumeOk
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET, HttpApi, vhost_path
from tests.support.publishing import bodies_of, declare_at, fill, take_all
from tests.support.raw_client import RawClient

LEASES, MESSAGES, COMMIT = vhost_path("leases"), vhost_path("leases/messages"), vhost_path("leases/commit")
MANY = [b"%05d" % number for number in range(25_000)]
MINE = {"consumer": "job", "queue": "q"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(QUIET, data_dir=tmp_path / "data")


@pytest.fixture
def broker(settings: Settings) -> Iterator[leveret.Broker]:
    with leveret.Broker(settings) as running:
        yield running


def take(api: HttpApi, after: int = 0, most: int = 100_000, **more: object) -> tuple[int, Any]:
    return api.post(LEASES, {**MINE, "after": after, "max_messages": most, **more})


def bodies(api: HttpApi, lease: int, **more: object) -> list[bytes]:
    found: list[bytes] = api.table(MESSAGES, **MINE, lease=lease, **more)["body"].to_pylist()
    return found


def test_take_read_commit(broker: leveret.Broker, api: HttpApi) -> None:
    declare_at(broker.amqp_url, "q")
    fill(broker.amqp_url, "q", MANY)
    status, answer = take(api, most=20_000)
    assert (status, answer["lease"], answer["messages"]) == (200, 1, 20_000)
    assert answer["bytes"] > 20_000 * 5
    assert take(api, most=1) == (200, answer)
    assert bodies(api, 1) == MANY[:20_000]
    assert [body for part in range(4) for body in bodies(api, 1, slice=part, of=4, columns="body")] == MANY[:20_000]
    assert api.post(COMMIT, {**MINE, "through": 1}) == (200, {"committed": 1, "messages": 20_000})
    assert api.post(COMMIT, {**MINE, "through": 1}) == (200, {"committed": 1, "messages": 20_000})
    assert take(api, 1)[1]["messages"] == 5_000
    assert take(api, 2) == (200, {"lease": 2, "messages": 0, "bytes": 0})
    assert bodies(api, 2) == MANY[20_000:]


def test_the_columns_of_a_lease(vhost: EmbeddedVhost, api: HttpApi) -> None:
    vhost.declare_queue("q", durable=True)
    kept = Properties(delivery_mode=2, headers={"n": 1}, content_type="text/plain", priority=4)
    vhost.publish("", "q", b"one", kept)
    vhost.publish("amq.fanout", "lost", b"nowhere", kept)
    vhost.publish("", "q", b"", Properties(delivery_mode=2))
    take(api)
    first, second = api.rows(MESSAGES, **MINE, lease=1, partition=7)
    assert (first["body"], first["routing_key"], first["exchange"], first["queue"]) == (b"one", "q", "", "q")
    assert (first["partition"], first["offset"], first["redelivered"]) == (7, 1, False)
    assert (dict(first["headers"]), first["properties"]["content_type"]) == ({"n": "1"}, "text/plain")
    assert abs(first["timestamp"].timestamp() - Clock().wall()) < 60
    assert (second["body"], second["offset"]) == (b"", 2)


def test_a_leased_message_is_never_delivered_to_a_consumer(broker: leveret.Broker, api: HttpApi) -> None:
    declare_at(broker.amqp_url, "q")
    fill(broker.amqp_url, "q", MANY[:100])
    take(api, most=60)
    assert [each.body for each in take_all(broker.amqp_url, "q", ack=False)] == MANY[60:100]
    with RawClient.open(broker.amqp_url) as client:
        client.call(BasicConsume("q", no_ack=True), BasicConsumeOk)
        assert [client.expect_content().body for _ in range(40)] == MANY[60:100]
        assert api.delete(LEASES, **MINE) == (200, {"released": 60})
        again = [client.expect_content() for _ in range(60)]
    assert [each.body for each in again] == MANY[:60]
    assert all(each.method.redelivered for each in again)


def test_no_lease_is_taken_while_deliveries_are_paused(broker: leveret.Broker, api: HttpApi) -> None:
    declare_at(broker.amqp_url, "q")
    fill(broker.amqp_url, "q", MANY[:10])
    core = broker.node.broker
    assert take(api, most=4)[1]["messages"] == 4
    broker.call(lambda: core.pause_deliveries("the replicated log does not answer"))
    status, answer = take(api, 1)
    assert (status, answer["error"]) == (503, "paused")
    assert take(api, most=4)[1]["messages"] == 4  # it exists already
    assert bodies(api, 1) == MANY[:4]
    assert api.post(COMMIT, {**MINE, "through": 1}) == (200, {"committed": 1, "messages": 4})
    broker.call(core.resume_deliveries)
    assert take(api, 1)[1]["messages"] == 6


def test_listing_and_releasing(vhost: EmbeddedVhost, broker: leveret.Broker, api: HttpApi) -> None:
    for queue in ("q", "r"):
        vhost.declare_queue(queue, durable=True)
        fill(broker.amqp_url, queue, MANY[:10])
    take(api, 0, 2)
    take(api, 1, 3)
    api.post(COMMIT, {**MINE, "through": 1})
    api.post(LEASES, {"consumer": "else", "queue": "r", "max_messages": 1})
    status, answer = api.get(LEASES)
    assert status == 200
    leases = [(each["consumer"], each["queue"], each["lease"], each["messages"]) for each in answer["leases"]]
    assert leases == [("job", "q", 2, 3), ("else", "r", 1, 1)]
    assert all(abs(each["since"] - Clock().wall()) < 60 for each in answer["leases"])
    assert answer["consumers"] == [
        {"consumer": "job", "queue": "q", "committed": 1},
        {"consumer": "else", "queue": "r", "committed": 0},
    ]
    assert [each["queue"] for each in api.get(LEASES, queue="r")[1]["leases"]] == ["r"]
    assert [each["queue"] for each in api.get(LEASES, consumer="job")[1]["leases"]] == ["q"]
    assert api.delete(LEASES, **MINE, lease=9) == (200, {"released": 0})
    assert api.delete(LEASES, **MINE, lease=2) == (200, {"released": 3})
    assert api.get(LEASES, queue="q")[1] == {
        "leases": [],
        "consumers": [{"consumer": "job", "queue": "q", "committed": 1}],
    }
    assert bodies_of(broker.amqp_url, "q") == MANY[2:10]


def test_a_restart_keeps_leases(settings: Settings) -> None:
    with leveret.Broker(settings) as broker:
        declare_at(broker.amqp_url, "q")
        fill(broker.amqp_url, "q", MANY)
        given = take(HttpApi(broker.http_url), most=20_000)
    with leveret.Broker(settings) as broker:
        api = HttpApi(broker.http_url)
        assert take(api) == given
        assert bodies(api, 1) == MANY[:20_000]
        assert bodies_of(broker.amqp_url, "q") == MANY[20_000:]
        api.post(COMMIT, {**MINE, "through": 1})
    with leveret.Broker(settings) as broker:
        assert take(HttpApi(broker.http_url), 1)[1]["messages"] == 0


# ---- refusals


def test_wrong_input_names_what_is_wrong(vhost: EmbeddedVhost, api: HttpApi) -> None:
    vhost.declare_queue("q", durable=True)
    for body, word in [
        ({"consumer": "c", "max_messages": 1}, "'queue'"),
        ({"queue": "q", "max_messages": 1}, "'consumer'"),
        ({"queue": "q", "consumer": "", "max_messages": 1}, "'consumer'"),
        ({"queue": "q", "consumer": "c" * 256, "max_messages": 1}, "'consumer'"),
        ({"queue": "q", "consumer": "c"}, "'max_messages'"),
        ({"queue": "q", "consumer": "c", "max_messages": 0}, "'max_messages'"),
        ({"queue": "q", "consumer": "c", "max_messages": 1, "after": -1}, "'after'"),
        ({"queue": "q", "consumer": "c", "max_messages": 1, "max_bytes": 0}, "'max_bytes'"),
    ]:
        status, answer = api.post(LEASES, body)
        assert (status, answer["error"]) == (400, "bad_request")
        assert word in answer["reason"]
    assert api.get(MESSAGES, **MINE, lease=1, slice=2, of=2)[0] == 400
    status, answer = api.get(MESSAGES, **MINE, lease=1)
    assert (status, answer["error"]) == (404, "Object Not Found")
    assert "take a lease first" in answer["reason"]
    assert api.post(LEASES, {"queue": "none", "consumer": "c", "max_messages": 1})[0] == 404


def test_what_cannot_be_leased_is_a_conflict(vhost: EmbeddedVhost, api: HttpApi) -> None:
    vhost.declare_queue("q")
    vhost.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    vhost.declare_queue("t", durable=True)
    vhost.publish("", "t", b"passing", Properties(delivery_mode=1))
    for queue, remedy in [("q", "declare it durable"), ("s", "by offsets"), ("t", "delivery mode 2")]:
        status, answer = api.post(LEASES, {"consumer": "c", "queue": queue, "max_messages": 1})
        assert status == 409
        assert remedy in answer["reason"]
        assert f"'{queue}'" in answer["reason"]
    assert api.post(COMMIT, {"consumer": "c", "queue": "t", "through": 1})[0] == 409


def test_a_broker_without_a_data_directory_says_how_to_get_leases() -> None:
    with leveret.Broker(QUIET) as broker:
        broker.vhost().declare_queue("q", durable=True)
        status, answer = take(HttpApi(broker.http_url))
        assert status == 409
        assert "data_dir" in answer["reason"]


def test_leases_need_read_permission(vhost: EmbeddedVhost, broker: leveret.Broker, api: HttpApi) -> None:
    vhost.declare_queue("q", durable=True)
    vhost.publish("", "q", b"one", Properties(delivery_mode=2))
    take(api)

    core = broker.node.broker

    def add() -> None:
        core.users.add("reader", password="secret")
        core.permissions.set("reader", "/", "", "", "r.*")

    broker.call(add)
    other = HttpApi(broker.http_url, "reader", "secret")
    assert take(other)[0] == 403
    assert other.get(MESSAGES, **MINE, lease=1)[0] == 403
    assert other.post(COMMIT, {**MINE, "through": 1})[0] == 403
    assert other.delete(LEASES, **MINE)[0] == 403
    assert other.get(LEASES) == (200, {"leases": [], "consumers": []})
    assert bodies(api, 1) == [b"one"]
