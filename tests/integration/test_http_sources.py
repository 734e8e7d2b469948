"""Which queues can be read over HTTP, and which offsets they have."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

import leveret
from leveret.clock import FrozenClock
from leveret.embedded_vhost import EmbeddedVhost
from leveret.pipeline import sources
from tests.support.http_api import QUIET, HttpApi, vhost_path

STREAM = {"x-queue-type": "stream"}
SOURCES, OFFSETS, MESSAGES = vhost_path("sources"), vhost_path("offsets"), vhost_path("messages")


pytestmark = pytest.mark.broker(storage=("memory", "disk"), fresh=True)


def fill(vhost: EmbeddedVhost, queue: str, number: int, first: int = 0) -> None:
    for place in range(first, first + number):
        vhost.publish("", queue, b"m%d" % place)


def test_sources_and_offsets_of_a_stream(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    fill(vhost, "s", 12)
    status, answer = api.get(SOURCES, queue="s")
    assert status == 200
    (source,) = answer["sources"]
    assert source["bytes"] > 0
    assert source | {"bytes": 0} == {
        "queue": "s",
        "kind": "stream",
        "partition": 0,
        "first": 0,
        "next": 12,
        "messages": 12,
        "bytes": 0,
        "durable": True,
    }


def test_sources_of_a_classic_queue_count_what_is_ready(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("c", durable=True)
    fill(vhost, "c", 5)
    first = vhost.get("c")
    assert first is not None
    (source,) = api.get(SOURCES, queue="c")[1]["sources"]
    assert (source["kind"], source["first"], source["next"], source["messages"]) == ("classic", 2, 6, 4)
    vhost.nack(first.delivery_tag)
    (source,) = api.get(SOURCES, queue="c")[1]["sources"]
    assert (source["first"], source["messages"]) == (1, 5)


def test_sources_by_a_pattern_are_numbered_by_name(api: HttpApi, vhost: EmbeddedVhost) -> None:
    for name in ("orders.2", "orders.1", "other", "my.orders.1"):
        vhost.declare_queue(name)
    found = api.get(SOURCES, pattern=r"orders\.\d")[1]["sources"]
    assert [(each["queue"], each["partition"]) for each in found] == [("orders.1", 0), ("orders.2", 1)]
    assert api.get(SOURCES, pattern="nothing")[0] == 404
    status, answer = api.get(SOURCES, pattern="(")
    assert (status, "not a regular expression" in answer["reason"]) == (400, True)


def test_a_pattern_has_one_time_for_all_names_and_does_not_hold_the_loop(
    broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name takes less than a match may take: it is all of them together that take too long."""
    for number in range(200):
        vhost.declare_queue(f"{'a' * 20}{number}!")
    monkeypatch.setattr(sources, "SECONDS", 0.02)
    where: list[threading.Thread] = []
    match = sources.named

    def seen(*given: Any) -> list[str]:
        where.append(threading.current_thread())
        return match(*given)

    monkeypatch.setattr(sources, "named", seen)
    status, answer = api.get(SOURCES, pattern="(a|aa)+")
    assert (status, "takes longer than 0.02 s" in answer["reason"]) == (400, True)
    assert where
    assert where[0] is not broker.call(threading.current_thread)


def test_names_that_may_not_be_read_are_not_matched(broker: leveret.Broker, vhost: EmbeddedVhost) -> None:
    """How long a pattern takes would tell of them."""
    core = broker.node.broker
    for name in ("mine.1", "a" * 60 + "!"):
        vhost.declare_queue(name)
    broker.call(lambda: core.users.add("ann", password="secret"))
    broker.call(lambda: core.permissions.set("ann", "/", "", "", "^mine"))
    ann = HttpApi(broker.http_url, "ann", "secret")
    status, answer = ann.get(SOURCES, pattern="(a|aa)+|mine.*")
    assert (status, [each["queue"] for each in answer["sources"]]) == (200, ["mine.1"])


def test_sources_of_a_super_stream_are_its_partitions_in_order(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_exchange("x", "direct", durable=True)
    for place, name in ((1, "x-a"), (0, "x-b"), (2, "x-c")):
        vhost.declare_queue(name, durable=True, arguments=STREAM)
        vhost.bind(name, "x", str(place), arguments={"x-stream-partition-order": place})
    found = api.get(SOURCES, super_stream="x")[1]["sources"]
    assert [(each["queue"], each["partition"]) for each in found] == [("x-b", 0), ("x-a", 1), ("x-c", 2)]
    assert api.get(SOURCES, super_stream="nowhere")[0] == 404


def test_offsets_by_time() -> None:
    clock = FrozenClock()
    with leveret.Broker(QUIET, clock=clock) as broker:
        api, vhost = HttpApi(broker.http_url), broker.vhost()
        vhost.declare_queue("s", durable=True, arguments=STREAM)
        begun = int(clock.wall() * 1000)
        for _ in range(3):
            fill(vhost, "s", 2)
            broker.clock.advance(10)
        found = {
            moment: api.get(OFFSETS, queue="s", timestamp=begun + moment)[1]["offsets"][0]["at"]
            for moment in (-5000, 0, 1, 10_000, 10_001, 20_000, 20_001)
        }
        assert found == {-5000: 0, 0: 0, 1: 2, 10_000: 2, 10_001: 4, 20_000: 4, 20_001: 6}
        (row,) = api.rows(MESSAGES, queue="s", from_=2, to=3)
        assert row["timestamp"] == datetime.fromtimestamp(begun / 1000 + 10, UTC)
        vhost.declare_queue("c")
        assert api.get(OFFSETS, queue="c", timestamp=0)[0] == 400
        answer = api.get(OFFSETS, queue=["s", "c"])[1]["offsets"]
        assert [(each["queue"], "at" in each) for each in answer] == [("s", False), ("c", False)]
