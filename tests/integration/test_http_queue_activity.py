"""S4-77: when a queue was last used, and whether its consumers have reached their prefetch limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from leveret import Broker, FrozenClock
from tests.support.http_objects import ObjectsApi
from tests.support.raw_client import eventually

TICK = 5.0  # seconds between two samples

pytestmark = [pytest.mark.broker(fresh=True, clock=FrozenClock), pytest.mark.feature("S4-77")]


@pytest.fixture
def api(broker: Broker) -> ObjectsApi:
    return ObjectsApi(broker.http_url)


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    yield connection.channel()
    connection.close()


def listed(api: ObjectsApi, name: str) -> dict[str, Any]:
    """The row of the list, which is cached; it has the same values as that of the queue."""
    (row,) = [row for row in api.get("/api/queues")[1] if row["name"] == name]
    one = api.queue(name)
    assert all(row.get(field) == one.get(field) for field in ("idle_since", "consumers_busy", "delivery_idle_time"))
    found: dict[str, Any] = row
    return found


def idle_for(broker: Broker, api: ObjectsApi, name: str) -> float | None:
    since = listed(api, name).get("idle_since")
    if since is None:
        return None
    assert since.endswith("+00:00")
    assert since[-10] == "."
    return broker.clock.core.wall() - datetime.fromisoformat(since).timestamp()


def test_a_queue_is_idle_since_its_last_use(broker: Broker, api: ObjectsApi, channel: BlockingChannel) -> None:
    api.declare_queue("used")
    assert idle_for(broker, api, "used") is None
    uses = {
        "publish": lambda: api.publish("used", "m"),
        "get": lambda: api.take("used", 1),
        "get of nothing": lambda: channel.basic_get("used"),
        "consume": lambda: channel.basic_consume("used", lambda *_: None, consumer_tag="mine"),
        "cancel": lambda: channel.basic_cancel("mine"),
    }
    for kind, use in uses.items():
        use()
        assert idle_for(broker, api, "used") is None, kind
        broker.clock.advance(3 * TICK)
        idle = idle_for(broker, api, "used")
        assert idle is not None, kind
        assert 2 * TICK <= idle <= 3 * TICK, kind
        broker.clock.advance(60)
        assert idle_for(broker, api, "used") == pytest.approx(idle + 60, abs=0.01), kind


def test_the_prefetch_of_a_channel_is_a_limit_of_its_consumers(
    broker: Broker, api: ObjectsApi, channel: BlockingChannel
) -> None:
    """As Celery sets it. The limit is shared: messages of one queue keep those of another one waiting."""
    for name in ("first", "second"):
        api.declare_queue(name)
    channel.basic_qos(prefetch_count=2, global_qos=True)
    tags: list[int] = []
    for name in ("first", "second"):
        channel.basic_consume(name, lambda _, method, *__: tags.append(method.delivery_tag), consumer_tag=name)
    assert [listed(api, name)["consumers_busy"] for name in ("first", "second")] == [False, False]
    for _ in range(3):
        api.publish("first", "m")
    eventually(lambda: channel.connection.process_data_events(0) or len(tags) == 2)
    (row,) = [row for row in api.get("/api/consumers")[1] if row["consumer_tag"] == "second"]
    assert (row["prefetch_count"], row["channel_prefetch_count"], row["at_prefetch_limit"]) == (0, 2, True)
    assert api.queue("first")["consumer_details"][0]["channel_prefetch_count"] == 2
    assert [listed(api, name)["consumers_busy"] for name in ("first", "second")] == [True, True]
    channel.basic_ack(tags[0])
    eventually(lambda: channel.connection.process_data_events(0) or len(tags) == 3)
    channel.basic_ack(tags[2])
    eventually(lambda: not listed(api, "first")["consumers_busy"])
    broker.vhost().consume("second", lambda _: None, prefetch=1)
    assert listed(api, "second")["consumers_busy"] is False


def test_of_a_single_active_consumer_the_others_do_not_count(api: ObjectsApi, channel: BlockingChannel) -> None:
    api.declare_queue("one", arguments={"x-single-active-consumer": True})
    channel.basic_qos(prefetch_count=1)
    for _ in range(2):
        channel.basic_consume("one", lambda *_: None)
    api.publish("one", "m")
    eventually(lambda: listed(api, "one")["consumers_busy"])
    states = [(each["active"], each["at_prefetch_limit"]) for each in api.queue("one")["consumer_details"]]
    assert sorted(states) == [(False, False), (True, True)]


def test_how_long_messages_are_held_is_known_to_within_a_sample(
    broker: Broker, api: ObjectsApi, channel: BlockingChannel
) -> None:
    api.declare_queue("work")
    assert listed(api, "work")["delivery_idle_time"] is None
    for _ in range(2):
        api.publish("work", "m")
    tags = [channel.basic_get("work")[0].delivery_tag for _ in range(2)]
    assert listed(api, "work")["delivery_idle_time"] == 0.0
    for _ in range(4):
        broker.clock.advance(20)
        api.publish("work", "more")  # is no delivery
    assert 80 - TICK <= listed(api, "work")["delivery_idle_time"] <= 80
    channel.basic_ack(tags[0])
    eventually(lambda: listed(api, "work")["delivery_idle_time"] == 0.0)
    broker.clock.advance(40)
    assert 40 - TICK <= listed(api, "work")["delivery_idle_time"] <= 40
    channel.basic_ack(tags[1])
    eventually(lambda: listed(api, "work")["delivery_idle_time"] is None)
