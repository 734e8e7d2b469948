"""S4-77: how old the first message of a queue is, and lists of queues in the order of that and of their drain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker, FrozenClock
from tests.support.http_api import QUIET
from tests.support.http_objects import ObjectsApi

TICK = 5.0  # seconds between two samples: an age that nobody noted is known to within one


pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ObjectsApi:
    return ObjectsApi(broker.http_url)


def age_of(api: ObjectsApi, queue: str) -> Any:
    return api.queue(queue)["oldest_message_age"]


@pytest.mark.feature("S4-77")
def test_the_age_of_a_plain_message_is_known_to_within_a_sample(broker: Broker, api: ObjectsApi) -> None:
    api.declare_queue("plain")
    assert age_of(api, "plain") is None
    api.publish("plain", "first")
    assert age_of(api, "plain") == 0.0
    broker.clock.advance(60)
    assert 60 - TICK <= age_of(api, "plain") <= 60
    api.publish("plain", "second")
    broker.clock.advance(30)
    assert 90 - TICK <= age_of(api, "plain") <= 90


@pytest.mark.feature("S4-77")
def test_the_age_is_that_of_the_first_that_is_left(broker: Broker, api: ObjectsApi) -> None:
    api.declare_queue("left")
    for body in ("a", "b", "c"):
        api.publish("left", body)
        broker.clock.advance(20)
    assert 60 - TICK <= age_of(api, "left") <= 60
    api.take("left", count=1, ackmode="ack_requeue_false")
    assert 40 - TICK <= age_of(api, "left") <= 40
    api.take("left", count=1, ackmode="ack_requeue_true")  # it comes back to its place
    assert 40 - TICK <= age_of(api, "left") <= 40
    api.take("left", count=1, ackmode="ack_requeue_false")
    assert 20 - TICK <= age_of(api, "left") <= 20
    api.take("left", count=1, ackmode="ack_requeue_false")
    assert age_of(api, "left") is None


@pytest.mark.feature("S4-77")
def test_an_age_that_samples_do_not_reach_back_to_is_at_least_what_they_show(broker: Broker, api: ObjectsApi) -> None:
    """A queue keeps sixty samples. With a change in each, its first message is older than the first of them."""
    api.declare_queue("busy")
    api.publish("busy", "first")
    for _ in range(70):
        broker.clock.advance(TICK)
        api.publish("busy", "another")
    assert 55 * TICK <= age_of(api, "busy") <= 70 * TICK


@pytest.mark.feature("S4-77")
def test_what_an_earlier_life_left_counts_from_the_start_on_also_on_disk(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings, clock=FrozenClock()) as broker:
        api = ObjectsApi(broker.http_url)
        api.declare_queue("durable", durable=True)
        api.publish("durable", "m", delivery_mode=2)
    with Broker(settings, clock=FrozenClock()) as broker:
        api = ObjectsApi(broker.http_url)
        broker.clock.advance(100)
        assert 100 - TICK <= age_of(api, "durable") <= 100


@pytest.mark.feature("S4-77")
def test_of_a_queue_with_priorities_it_is_the_oldest_whichever_comes_next(broker: Broker, api: ObjectsApi) -> None:
    api.declare_queue("ranked", arguments={"x-max-priority": 5})
    for priority in (3, 1, 5, 1):
        api.publish("ranked", "m", priority=priority)
        broker.clock.advance(20)
    assert 80 - TICK <= age_of(api, "ranked") <= 80
    api.take("ranked", count=1, ackmode="ack_requeue_false")  # the one of 5
    assert 80 - TICK <= age_of(api, "ranked") <= 80
    api.take("ranked", count=1, ackmode="ack_requeue_false")  # the one of 3
    assert 60 - TICK <= age_of(api, "ranked") <= 60
    api.take("ranked", count=1, ackmode="ack_requeue_false")
    assert 20 - TICK <= age_of(api, "ranked") <= 20
    api.take("ranked", count=1, ackmode="ack_requeue_false")
    assert age_of(api, "ranked") is None


def pages(api: ObjectsApi, sort: str, reverse: str) -> list[str]:
    """The names on all pages, one after the other."""
    query = {"name": "sorted.", "page_size": 2, "sort": sort, "sort_reverse": reverse, "columns": f"name,{sort}"}
    names: list[str] = []
    for number in (1, 2):
        status, page = api.get("/api/queues", page=number, **query)
        assert (status, page["page_count"]) == (200, 2)
        names += [row["name"].removeprefix("sorted.") for row in page["items"]]
    return names


@pytest.mark.feature("S4-77")
def test_lists_are_sorted_by_age_over_all_pages(broker: Broker, api: ObjectsApi) -> None:
    api.declare_queue("sorted.empty")
    for name in ("old", "middle", "young"):
        api.declare_queue(f"sorted.{name}")
        api.publish(f"sorted.{name}", "m")
        broker.clock.advance(20)
    assert pages(api, "oldest_message_age", "true") == ["old", "middle", "young", "empty"]
    assert pages(api, "oldest_message_age", "false") == ["empty", "young", "middle", "old"]


@pytest.mark.feature("S4-77")
def test_lists_are_sorted_by_the_time_to_empty_over_all_pages(broker: Broker, api: ObjectsApi) -> None:
    """Those of which nobody knows when they will be empty come as if they had no number."""
    for name, number in (("standing", 3), ("slow", 9), ("quick", 4)):
        api.declare_queue(f"sorted.{name}")
        for _ in range(number):
            api.publish(f"sorted.{name}", "m")
    api.declare_queue("sorted.empty")
    broker.clock.advance(TICK)
    for name in ("slow", "quick"):
        api.take(f"sorted.{name}", count=1, ackmode="ack_requeue_false")
    broker.clock.advance(TICK)
    estimate = {name: api.queue(f"sorted.{name}")["drain_estimate"] for name in ("slow", "quick", "standing", "empty")}
    assert estimate == {"slow": 40.0, "quick": 15.0, "standing": None, "empty": 0.0}
    assert pages(api, "drain_estimate", "true") == ["slow", "quick", "empty", "standing"]
    assert pages(api, "drain_estimate", "false") == ["standing", "empty", "quick", "slow"]
