"""S4-77: which connection holds which message since when; its body; and cancelling a consumer."""

from __future__ import annotations

from typing import Any

import pytest

from leveret import Broker
from leveret.wire.properties import Properties
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path
from tests.support.running_clients import client

pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


def unacked(api: ManagementApi, **query: object) -> dict[str, Any]:
    status, answer = api.get("queues/%2F/a/unacked", **query)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


@pytest.mark.feature("S4-77")
def test_unacked_messages_are_listed_with_their_holders_the_oldest_first(broker: Broker, api: ManagementApi) -> None:
    local = broker.vhost()
    for name in ("a", "b"):
        local.declare_queue(name)
    with client(broker, "first") as one, client(broker, "second") as other:
        one.basic_qos(prefetch_count=2)
        one.basic_consume("b", lambda *_: None)
        local.publish("", "b", b"of another queue")
        one.basic_consume("a", lambda *_: None, consumer_tag="worker")
        local.publish("", "a", b"old", Properties(message_id="m1", headers={"task": "shop.bill"}))
        one.connection.process_data_events(0)
        broker.clock.advance(60)
        local.publish("", "a", b"young")
        one.connection.process_data_events(0)
        local.publish("", "a", b"got")
        assert other.basic_get("a")[0] is not None
        broker.clock.advance(20)
        found = unacked(api)
        first = unacked(api, limit=1)
        assert [row["message_id"] for row in first["messages"]] == ["m1"]
        assert (first["held_by_clients"], first["held_by_other_cells"]) == (3, 0)
    rows = found["messages"]
    assert found["messages_unacknowledged"] == 3
    holders = [(row["consumer_tag"], row["channel_details"]["user_provided_name"]) for row in rows]
    assert sorted(holders, key=str) == [("worker", "first"), ("worker", "first"), (None, "second")]
    old = rows[0]
    assert (old["message_id"], old["task"], old["redelivered"]) == ("m1", "shop.bill", False)
    assert (old["exchange"], old["routing_key"]) == ("", "a")
    assert sorted(row["size"] for row in rows) == [3, 3, 5]  # of the bodies
    assert [row["payload_bytes"] for row in rows] == [row["size"] for row in rows]
    assert 75 <= old["seconds"] <= 80.1  # to within a sample
    assert 15 <= rows[1]["seconds"] <= 20.1
    assert unacked(api)["messages"] == []  # the connections are closed


@pytest.mark.feature("S4-72")
def test_unacked_messages_need_the_permission_to_read(broker: Broker, api: ManagementApi) -> None:
    broker.vhost().declare_queue("a")
    anna = as_user(broker, "anna", "management", vhosts=("/",))
    broker.call(lambda: broker.node.broker.permissions.set("anna", "/", ".*", ".*", "^b"))
    for path in ("queues/%2F/a/unacked", "queues/%2F/a/messages/1-0-1/body"):
        assert anna.get(path)[0] == 403
    assert api.get("queues/%2F/none/unacked")[0] == 404
    assert api.get("queues/%2F/a/unacked", limit=1001)[0] == 400


@pytest.mark.parametrize("table", [{}, {"x-max-priority": 3}, {"x-queue-type": "stream"}], ids=str)
@pytest.mark.feature("S4-77")
def test_a_body_is_downloaded_whole_and_stays(broker: Broker, api: ManagementApi, table: dict[str, object]) -> None:
    local = broker.vhost()
    local.declare_queue("a", durable=True, arguments=table)
    for priority, body in ((0, b"<script>"), (2, bytes(range(256)) * 1000), (3, b"")):
        local.publish("", "a", body, Properties(priority=priority))
    rows = api.get("queues/%2F/a/messages", truncate=10)[1]["messages"]
    bodies = []
    for row in rows:
        response, body = api.http.send("GET", f"/api/queues/%2F/a/messages/{row['id']}/body", None)
        assert (response.status, response.headers["content-type"]) == (200, "application/octet-stream")
        assert response.headers["content-disposition"].startswith("attachment")
        bodies.append(body)
    assert [len(body) for body in bodies] == [row["payload_bytes"] for row in rows]
    assert set(bodies) == {b"<script>", bytes(range(256)) * 1000, b""}
    queue, lane, sequence = rows[0]["id"].split("-")
    status, answer = api.get(f"queues/%2F/a/messages/{queue}-{lane}-{int(sequence) + 9}/body")
    assert (status, "is not ready in queue 'a'" in answer["reason"]) == (404, True)
    assert api.get("queues/%2F/a/messages/nonsense/body")[0] == 400


@pytest.mark.feature("S4-77")
def test_a_consumer_is_cancelled_by_its_user_or_an_administrator(broker: Broker, api: ManagementApi) -> None:
    anna = as_user(broker, "anna", "management", vhosts=("/",))
    max_ = as_user(broker, "max", "monitoring", vhosts=("/",))
    broker.vhost().declare_queue("a")
    with client(broker, "anna's", "anna", "secret") as own, client(broker) as channel:
        cancelled: list[str] = []
        for each in (own, channel):
            each.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        own.basic_consume("a", lambda *_: None, consumer_tag="own/one")
        channel.basic_consume("a", lambda *_: None, consumer_tag="guest's")
        paths = {
            row[
                "consumer_tag"
            ]: f"consumers/%2F/{in_path(row['channel_details']['name'])}/{in_path(row['consumer_tag'])}"
            for row in api.get("consumers")[1]
        }
        assert anna.delete(paths["guest's"])[0] == 404  # it may not see it
        status, answer = max_.delete(paths["guest's"])
        assert (status, "needs the tag 'administrator' to cancel consumers" in answer["reason"]) == (403, True)
        assert api.get("queues/%2F/a")[1]["consumers"] == 2
        assert anna.delete(paths["own/one"]) == (204, None)
        assert api.delete(paths["guest's"]) == (204, None)
        assert api.delete(paths["guest's"])[0] == 404
        assert api.get("queues/%2F/a")[1]["consumers"] == 0
        for each in (own, channel):
            each.connection.process_data_events(1)
        assert sorted(cancelled) == ["guest's", "own/one"]
        assert channel.is_open
