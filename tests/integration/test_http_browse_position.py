"""Browsing that continues where an earlier request ended, as `leveret tail` does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from leveret import Broker
from tests.support.http_objects import ObjectsApi

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def api(module_broker: Broker) -> ObjectsApi:
    return ObjectsApi(module_broker.http_url)


@pytest.fixture
def queue(api: ObjectsApi) -> Iterator[str]:
    api.declare_queue("q", durable=True)
    yield "q"
    api.delete(api.at("queues", "q"))


def browse(api: ObjectsApi, queue: str, **query: object) -> Any:
    status, answer = api.get(api.at("queues", queue, "/messages"), **query)
    assert status == 200, answer
    return answer


def found(api: ObjectsApi, queue: str, **query: object) -> list[str]:
    return [message["payload"] for message in browse(api, queue, **query)["messages"]]


def test_browsing_continues_behind_a_position(api: ObjectsApi) -> None:
    api.declare_queue("lanes", durable=True, arguments={"x-max-priority": 2})
    for n in range(4):
        api.publish("lanes", str(n), priority=n % 2)
    first = browse(api, "lanes", limit=3)
    assert [message["payload"] for message in first["messages"]] == ["1", "3", "0"]
    rest = browse(api, "lanes", after=first["position"])
    assert ([message["payload"] for message in rest["messages"]], rest["examined"]) == (["2"], 1)
    end = browse(api, "lanes", after=rest["position"])
    assert (end["messages"], end["position"], end["is_complete"]) == ([], rest["position"], True)
    api.take("lanes", 4, ackmode="reject_requeue_true")  # a message that returns was seen before
    api.publish("lanes", "high", priority=2)
    api.publish("lanes", "low")
    assert found(api, "lanes", after=end["position"]) == ["high", "low"]
    assert found(api, "lanes", contains="low", after=first["position"]) == ["low"]
    api.delete(api.at("queues", "lanes"))


def test_a_stream_is_browsed_behind_a_position(api: ObjectsApi) -> None:
    api.declare_queue("river", durable=True, arguments={"x-queue-type": "stream"})
    for n in range(3):
        api.publish("river", str(n))
    first = browse(api, "river", limit=2)
    assert found(api, "river", after=first["position"]) == ["2"]
    assert found(api, "river", after=browse(api, "river")["position"]) == []
    api.publish("river", "3")
    assert found(api, "river", after=browse(api, "river", limit=3)["position"]) == ["3"]


@pytest.mark.parametrize("after", ["x", "1-2", "1-2-x", "999999-0-1", ",".join(["1-0-1"] * 257)])
def test_a_wrong_position_is_400(api: ObjectsApi, queue: str, after: str) -> None:
    status, answer = api.get(api.at("queues", queue, "/messages"), after=after)
    assert (status, "'after' has" in answer["reason"]) == (400, True)
