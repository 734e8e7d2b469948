"""S4-77: streams, super streams and shards over HTTP: offsets, retention, partitions, readers and their lag."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from leveret import Broker, FrozenClock
from leveret.embedded_vhost import EmbeddedVhost
from leveret.queues.stream import StreamQueue
from leveret.store.stream_files import StreamFiles
from leveret.store.stream_scan import StreamGone
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path
from tests.support.running_clients import client

STREAM = {"x-queue-type": "stream"}


pytestmark = pytest.mark.broker(storage=("memory", "disk"), fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.fixture
def vhost(broker: Broker) -> EmbeddedVhost:
    return broker.vhost()


def fill(vhost: EmbeddedVhost, stream: str, number: int, body: bytes = b"m%d") -> None:
    for place in range(number):
        vhost.publish("", stream, body % place if b"%d" in body else body)


def readers(api: ManagementApi, name: str) -> dict[str, Any]:
    rows = api.get(f"streams/%2F/{in_path(name)}")[1]["reader_details"]
    return {row["name"] or row["consumer_tag"]: row for row in rows}


# ---- one stream


@pytest.mark.feature("S4-77")
def test_a_stream_tells_offsets_size_and_retention(api: ManagementApi, vhost: EmbeddedVhost) -> None:
    arguments = {**STREAM, "x-max-age": "1h", "x-max-length-bytes": 1 << 30, "x-stream-max-segment-size-bytes": 4096}
    vhost.declare_queue("s", durable=True, arguments=arguments)
    (row,) = api.get("streams")[1]
    assert (row["first_offset"], row["last_offset"], row["next_offset"], row["messages"]) == (0, None, 0, 0)
    assert (row["lag"], row["readers"]) == (None, 0)
    for _ in range(12):
        vhost.publish("", "s", b"x" * 1000)
        api.get("pipeline/%2F/offsets", queue="s")  # waits until it is in the files
    (row,) = api.get("streams/%2F")[1]
    assert (row["name"], row["kind"], row["partitions"], row["state"]) == ("s", "stream", 1, "running")
    assert (row["first_offset"], row["last_offset"], row["next_offset"], row["messages"]) == (0, 11, 12, 12)
    assert row["bytes"] > 12_000
    assert row["segments"] == 3
    assert row["retention"] == {"max_age": 3600.0, "max_bytes": 1 << 30, "segment_bytes": 4096}
    assert row["message_stats"]["publish"] == 12


@pytest.mark.feature("S4-77")
def test_each_reader_tells_how_far_it_is_behind(broker: Broker, api: ManagementApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    fill(vhost, "s", 10)
    api.get("pipeline/%2F/offsets", queue="s")
    job = {"queue": "s", "consumer": "nightly", "offset": 4, "pinned": True}
    assert api.put("pipeline/%2F/consumers", job)[0] == 200
    with client(broker, "shop") as channel:
        channel.basic_qos(prefetch_count=3)
        start = {"x-stream-offset": "first"}
        channel.basic_consume("s", lambda *_: None, consumer_tag="nameless", arguments=start)
        channel.basic_qos(prefetch_count=5)
        named = {**start, "x-stream-consumer": "till"}
        for method, _, _ in channel.consume("s", arguments=named):
            if method.delivery_tag and method.consumer_tag != "nameless":
                channel.basic_ack(method.delivery_tag)
                break
        channel.connection.process_data_events(0)
        while (found := readers(api, "s"))["till"]["offset"] != 1:
            pass  # the ack is on its way
        till, nameless, nightly = found["till"], found["nameless"], found["nightly"]
        assert (till["lag"], till["is_live"], till["prefetch_count"]) == (9, True, 5)
        assert "a client" not in till["channel_details"]["name"]
        assert (nameless["name"], nameless["offset"], nameless["lag"]) == (None, 3, 7)
        assert nameless["messages_unacknowledged"] == 3
        assert (nightly["offset"], nightly["lag"], nightly["pinned"], nightly["is_live"]) == (4, 6, True, False)
        (row,) = api.get("streams")[1]
        assert (row["readers"], row["consumers"], row["lag"]) == (3, 2, 9)
    assert api.put("pipeline/%2F/consumers", job | {"offset": 99})[0] == 200
    assert readers(api, "s")["nightly"]["lag"] == 0


def test_messages_of_a_stream_are_shown_from_any_offset(api: ManagementApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    at = "streams/%2F/s/messages"
    assert api.get(at) == (200, {"messages": [], "first_offset": 0, "next_offset": 0})
    fill(vhost, "s", 200)

    def shown(**query: object) -> list[tuple[int, str]]:
        return [(row["offset"], row["payload"]) for row in api.get(at, **query)[1]["messages"]]

    assert shown(offset=120, limit=3) == [(120, "m120"), (121, "m121"), (122, "m122")]
    assert shown(offset="first", limit=1) == [(0, "m0")]
    assert shown(limit=2) == [(198, "m198"), (199, "m199")]
    assert shown(offset=200) == []
    assert len(shown(offset=10)) == 50
    (row,) = api.get(at, offset=7, limit=1)[1]["messages"]
    assert (row["routing_key"], row["exchange"], row["payload_bytes"]) == ("s", "", 2)
    assert row["arrived"] > 0
    for wrong in ("-1", "x", "9" * 30, "1.5", "²"):
        status, answer = api.get(at, offset=wrong)
        assert (status, "'offset' must be first, last or a whole number" in answer["reason"]) == (400, True), wrong
    assert api.get(at, limit=0)[0] == 400


@pytest.mark.broker(storage="disk", fresh=True, clock=FrozenClock)
def test_confirmed_messages_are_shown_although_the_files_are_written_later(
    api: ManagementApi, vhost: EmbeddedVhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    may_write = threading.Event()
    append, when_visible = StreamFiles.append, StreamQueue.when_visible

    def held(files: StreamFiles, runs: Any) -> None:
        may_write.wait()
        append(files, runs)

    def followed(stream: StreamQueue, call: Callable[[], None]) -> None:
        when_visible(stream, call)
        may_write.set()

    monkeypatch.setattr(StreamFiles, "append", held)
    monkeypatch.setattr(StreamQueue, "when_visible", followed)
    try:
        fill(vhost, "s", 3)
        shown = api.get("streams/%2F/s/messages", offset="first")[1]
        assert ([row["payload"] for row in shown["messages"]], shown["next_offset"]) == (["m0", "m1", "m2"], 3)
    finally:
        may_write.set()


@pytest.mark.parametrize(
    ("problem", "status", "told"),
    [(StreamGone(), 410, "was deleted by retention: browse from 0 on"), (OSError(5, "bad sector"), 503, "bad sector")],
)
def test_a_stream_that_cannot_be_read_is_told(
    api: ManagementApi,
    vhost: EmbeddedVhost,
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    status: int,
    told: str,
) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    fill(vhost, "s", 3)
    api.get("pipeline/%2F/offsets", queue="s")

    def broken(*_: object) -> None:
        raise problem

    monkeypatch.setattr(StreamFiles, "chunks", broken)
    found, answer = api.get("streams/%2F/s/messages")
    assert (found, told in answer["reason"]) == (status, True), answer


# ---- several


@pytest.mark.feature("S4-77")
def test_a_super_stream_is_one_row_with_its_partitions(api: ManagementApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_exchange("orders", "direct", durable=True, arguments={"x-super-stream": True})
    (row,) = api.get("streams")[1]
    assert (row["kind"], row["partitions"]) == ("super stream", 0)
    assert "has no partitions" in row["problem"]
    for place in (1, 0):
        vhost.declare_queue(f"orders-{place}", durable=True, arguments=STREAM)
        vhost.bind(f"orders-{place}", "orders", str(place), {"x-stream-partition-order": place})
    vhost.declare_queue("alone", durable=True, arguments=STREAM)
    for key in "0001":
        vhost.publish("orders", key, b"x")
    api.get("pipeline/%2F/offsets", queue="orders-0")
    for name, offset in (("orders-0", 1), ("orders-1", 0)):
        api.put("pipeline/%2F/consumers", {"queue": name, "consumer": "job", "offset": offset, "pinned": False})
    rows = {row["name"]: row for row in api.get("streams")[1]}
    assert rows.keys() == {"orders", "alone"}
    row = rows["orders"]
    assert (row["partitions"], row["messages"], row["largest_share"], row["problem"]) == (2, 4, 0.75, None)
    assert (row["readers"], row["lag"]) == (2, 3)
    assert row["message_stats"]["publish"] == 4
    detail = api.get("streams/%2F/orders", msg_rates_age=60, msg_rates_incr=5)[1]
    shown = [(each["name"], each["partition"], each["messages"], each["share"]) for each in detail["partition_details"]]
    assert shown == [("orders-0", 0, 3, 0.75), ("orders-1", 1, 1, 0.25)]
    assert [(each["queue"], each["lag"]) for each in detail["reader_details"]] == [("orders-0", 2), ("orders-1", 1)]
    assert len(detail["message_stats"]["publish_details"]["samples"]) == 1  # the broker has just started
    assert api.get("streams/%2F/orders-1")[1]["messages"] == 1
    assert api.get("streams/%2F/orders/messages")[0] == 404


@pytest.mark.feature("S4-77")
def test_shards_tell_what_waits_and_how_even_they_are(broker: Broker, api: ManagementApi, vhost: EmbeddedVhost) -> None:
    vhost.set_policy("images", "^images$", {"shards-per-node": 3}, apply_to="exchanges")
    vhost.declare_exchange("images", "x-modulus-hash", durable=True)
    assert api.get("streams")[1][0]["largest_share"] is None
    for number in range(40):
        vhost.publish("images", f"key-{number}", b"x")
    (row,) = api.get("streams")[1]
    assert (row["name"], row["kind"], row["partitions"], row["messages_ready"]) == ("images", "shards", 3, 40)
    detail = api.get("streams/%2F/images")[1]
    shards = detail["partition_details"]
    first = vhost.get(shards[0]["name"])
    assert first is not None
    after = api.get("streams/%2F/images")[1]["partition_details"][0]
    assert (after["messages_ready"], after["messages_unacknowledged"]) == (shards[0]["messages_ready"] - 1, 1)
    assert sum(each["messages_ready"] for each in shards) == 40
    assert sum(each["share"] for each in shards) == pytest.approx(1)
    assert (
        detail["largest_share"]
        == max(each["share"] for each in shards)
        == max(each["messages_ready"] for each in shards) / 40
    )
    assert detail["reader_details"] == []


def test_a_shard_that_is_no_more_is_shown_until_it_is_empty(api: ManagementApi, vhost: EmbeddedVhost) -> None:
    for number in (3, 2):
        definition = {"shards-per-node": number, "ordered-resize": True}
        vhost.set_policy("images", "^images$", definition, apply_to="exchanges")
        vhost.declare_exchange("images", "x-modulus-hash", durable=True)
        for key in range(30):
            vhost.publish("images", f"key-{key}", b"x")

    def shards() -> list[tuple[str, bool]]:
        rows = api.get("streams/%2F/images")[1]["partition_details"]
        return [(row["name"][-1], row["is_draining"]) for row in rows]

    assert shards() == [("0", False), ("1", False), ("2", True)]
    (row,) = api.get("streams")[1]
    assert row["partitions"] == 2
    last = api.get("streams/%2F/images")[1]["partition_details"][2]["name"]
    while vhost.get(last, auto_ack=True) is not None:
        pass
    assert shards() == [("0", False), ("1", False)]


def test_rates_of_partitions_are_added(broker: Broker, api: ManagementApi, vhost: EmbeddedVhost) -> None:
    vhost.set_policy("images", "^images$", {"shards-per-node": 2}, apply_to="exchanges")
    vhost.declare_exchange("images", "x-modulus-hash", durable=True)
    broker.clock.advance(5)
    for number in range(50):
        vhost.publish("images", f"key-{number}", b"x")
    broker.clock.advance(5)
    detail = api.get("streams/%2F/images", msg_rates_age=10, msg_rates_incr=5)[1]
    stats = detail["message_stats"]["publish_details"]
    assert stats["rate"] == 10.0
    assert stats["samples"][0]["sample"] == 50
    assert all(each["message_stats"]["publish_details"]["rate"] > 0 for each in detail["partition_details"])


# ---- who, and what there is not


@pytest.mark.feature("S4-72")
def test_streams_are_for_those_who_may_see_the_virtual_host(
    broker: Broker, api: ManagementApi, vhost: EmbeddedVhost
) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    vhost.declare_queue("q", durable=True)
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    anna = as_user(broker, "anna", "management", vhosts=("other",))
    nobody = as_user(broker, "nobody", vhosts=("/",))
    watcher = as_user(broker, "watcher", "monitoring")
    assert anna.get("streams") == (200, [])
    assert [anna.get(path)[0] for path in ("streams/%2F", "streams/%2F/s", "streams/%2F/s/messages")] == [403] * 3
    assert nobody.get("streams")[0] == nobody.get("streams/%2F/s")[0] == 401
    assert [row["name"] for row in watcher.get("streams")[1]] == ["s"]
    assert watcher.get("streams/%2F/s/messages")[0] == 403, "to look into messages takes permissions"
    for name, told in (("none", "no stream 'none'"), ("q", "only a queue"), ("amq.topic", "only an exchange")):
        status, answer = api.get(f"streams/%2F/{name}")
        assert (status, told in answer["reason"]) == (404, True), answer
    assert api.get("streams/none")[0] == 404


def test_a_long_list_comes_in_pages(api: ManagementApi, vhost: EmbeddedVhost) -> None:
    for number in range(12):
        vhost.declare_queue(f"s{number:02}", durable=True, arguments=STREAM)
    status, page = api.get("streams", page=2, page_size=5, sort="name", columns="name,messages")
    assert status == 200
    assert [row["name"] for row in page["items"]] == ["s05", "s06", "s07", "s08", "s09"]
    assert (page["total_count"], page["items"][0]) == (12, {"name": "s05", "messages": 0})
