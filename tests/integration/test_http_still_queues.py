"""The list of queues keeps rows of queues to which nothing happens, and never shows an old one."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from leveret import Broker, FrozenClock
from leveret.http.rows import RowDescription
from tests.support.http_objects import ObjectsApi

TICK = 5.0


pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ObjectsApi:
    api = ObjectsApi(broker.http_url)
    for name in ("busy", "still"):
        api.declare_queue(name)
    return api


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of queues of which a row was made."""
    names: list[str] = []

    def noting(make: Any) -> Any:
        def made(self: RowDescription[Any], found: Any) -> Any:
            names.append(found[1].name)
            return make(self, found)

        return made

    for method in ("encoded", "encoded_stable"):
        monkeypatch.setattr(RowDescription, method, noting(getattr(RowDescription, method)))
    return names


def listed(api: ObjectsApi, name: str) -> dict[str, Any]:
    status, queues = api.get("/api/queues")
    assert status == 200
    found: dict[str, Any] = next(queue for queue in queues if queue["name"] == name)
    return found


@pytest.mark.feature("S4-77")
def test_a_queue_to_which_nothing_happens_is_looked_at_once(broker: Broker, api: ObjectsApi, made: list[str]) -> None:
    before = listed(api, "still")
    made.clear()
    broker.vhost().publish("", "busy", b"x")
    assert listed(api, "still") == before
    assert made == ["busy"]


@pytest.mark.feature("S4-77")
def test_a_kept_row_follows_every_change(broker: Broker, api: ObjectsApi) -> None:
    vhost = broker.vhost()
    assert listed(api, "still")["messages"] == 0
    vhost.publish("", "still", b"x")
    assert listed(api, "still")["messages"] == 1
    vhost.purge_queue("still")
    row = listed(api, "still")
    assert (row["messages"], row["counters"]["purged"]) == (0, 1)
    api.put(api.at("policies", "short"), {"pattern": "still", "definition": {"max-length": 5}, "apply-to": "queues"})
    assert listed(api, "still")["policy"] == "short"
    api.post(api.at("queues", "still", "/pause"), {})
    assert listed(api, "still")["state"] == "paused"
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        connection.channel().basic_consume("still", lambda *_: None, exclusive=True, consumer_tag="mine")
        row = listed(api, "still")
        assert (row["consumers"], row["exclusive_consumer_tag"]) == (1, "mine")
    api.delete(api.at("queues", "still"))
    assert [queue["name"] for queue in api.get("/api/queues")[1]] == ["busy"]


@pytest.mark.feature("S4-77")
def test_rates_come_to_rest_before_a_row_is_kept(broker: Broker, api: ObjectsApi) -> None:
    vhost = broker.vhost()
    broker.clock.advance(TICK)
    vhost.publish("", "still", b"x")
    vhost.purge_queue("still")
    seen = []
    for _ in range(3):
        broker.clock.advance(TICK)
        seen.append(listed(api, "still")["message_stats"]["publish_details"]["rate"])
    assert seen == [0.2, 0.0, 0.0]


def at_rest(broker: Broker) -> None:
    """All rates are zero again."""
    for _ in range(3):
        broker.clock.advance(TICK)


@pytest.mark.feature("S4-77")
def test_messages_that_wait_grow_older_in_a_kept_row(broker: Broker, api: ObjectsApi, made: list[str]) -> None:
    vhost = broker.vhost()
    vhost.publish("", "still", b"x")
    at_rest(broker)
    before = listed(api, "still")
    assert before["messages"] == 1
    made.clear()
    broker.clock.advance(60)
    after = listed(api, "still")
    assert made == []
    assert after.pop("oldest_message_age") == before.pop("oldest_message_age") + 60
    assert after == before


@pytest.mark.parametrize("change", ["get", "requeue", "publish", "expire"])
@pytest.mark.feature("S4-77")
def test_a_kept_row_with_messages_follows_them(broker: Broker, api: ObjectsApi, change: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        for number in range(2):
            properties = pika.BasicProperties(timestamp=1000 + number, expiration="100000")
            channel.basic_publish("", "still", b"x" * (number + 1), properties)
        taken = channel.basic_get("still")[0] if change == "requeue" else None
        at_rest(broker)
        before = listed(api, "still")
        if change == "get":
            channel.basic_get("still")
        elif taken is not None:
            channel.basic_nack(taken.delivery_tag)
        elif change == "publish":
            channel.basic_publish("", "still", b"x")
        else:
            broker.clock.advance(100)
        channel.queue_declare("still", passive=True)  # all of it has arrived
        after = listed(api, "still")
        detail = api.get(api.at("queues", "still"))[1]
    seen = ("messages_ready", "messages_unacknowledged", "message_bytes_ready", "head_message_timestamp")
    assert {name: after[name] for name in seen} != {name: before[name] for name in seen}
    assert {name: detail[name] for name in after} == after
