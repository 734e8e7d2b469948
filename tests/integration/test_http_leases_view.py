"""S4-77: leases and Spark queries over HTTP, and how far their readers are behind in the metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leveret import Broker, FrozenClock
from leveret.wire.properties import Properties
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path

PYTHON = "PythonMicroBatchStream"
REPORT = {
    "id": "q-1",
    "name": "orders to lake",
    "run_id": "r-1",
    "vhost": "/",
    "batch": 7,
    "rows": 500,
    "rows_per_second": 250.5,
    "input_rows_per_second": 100.0,
    "lag": 40,
    "batch_ms": 1996,
    "sources": [{"description": PYTHON, "offset": {"orders": 960}, "rows": 500, "lag": 40}],
    "sink": "DeltaSink",
    "state": "running",
    "at": "2031-05-01T12:00:00.000Z",
}


pytestmark = pytest.mark.broker(storage="disk", fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


def tell(api: ManagementApi, **changes: Any) -> int:
    return api.post("pipeline/queries", REPORT | changes)[0]


# ---- leases


def leased(broker: Broker, api: ManagementApi, queue: str = "q", consumer: str = "job") -> None:
    vhost = broker.vhost()
    vhost.declare_queue(queue, durable=True)
    for number in range(5):
        vhost.publish("", queue, b"m%d" % number, Properties(delivery_mode=2))
    taking = {"queue": queue, "consumer": consumer, "max_messages": 3}
    assert api.post("pipeline/%2F/leases", taking)[1]["messages"] == 3


@pytest.mark.feature("S4-77")
def test_a_lease_tells_its_holder_and_its_age(broker: Broker, api: ManagementApi) -> None:
    assert api.get("leases") == (200, [])
    leased(broker, api)
    broker.clock.advance(90)
    (row,) = api.get("leases")[1]
    assert api.get("leases/%2F")[1] == [row]
    assert (row["consumer"], row["queue"], row["vhost"]) == ("job", "q", "/")
    assert (row["lease"], row["messages"]) == (1, 3)
    assert row["bytes"] > 6
    assert row["age"] == pytest.approx(90, abs=2)
    status, answer = api.delete("pipeline/%2F/leases?queue=q&consumer=job&lease=1")
    assert (status, answer) == (200, {"released": 3})
    assert api.get("leases") == (200, [])
    assert broker.vhost().message_count("q") == 5


@pytest.mark.feature("S4-72")
def test_leases_are_for_those_who_may_see_the_virtual_host(broker: Broker, api: ManagementApi) -> None:
    leased(broker, api)
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    anna = as_user(broker, "anna", "management", vhosts=("other",))
    nobody = as_user(broker, "nobody", vhosts=("/",))
    assert anna.get("leases") == (200, [])
    assert anna.get("leases/%2F")[0] == 403
    assert nobody.get("leases")[0] == 401
    assert api.get("leases/none")[0] == 404
    assert len(as_user(broker, "watcher", "monitoring").get("leases/%2F")[1]) == 1


# ---- Spark queries


@pytest.mark.feature("S4-77")
def test_a_spark_query_tells_rates_lag_and_where_it_stands(broker: Broker, api: ManagementApi) -> None:
    assert api.get("spark-queries") == (200, [])
    tell(api, lag=90, rows_per_second=10.0)
    broker.clock.advance(10)
    assert tell(api) == 200
    broker.clock.advance(20)
    (row,) = api.get("spark-queries")[1]
    assert api.get("spark-queries/%2F")[1] == [row]
    for name in ("id", "name", "run_id", "vhost", "batch", "rows", "rows_per_second", "input_rows_per_second", "lag"):
        assert row[name] == REPORT[name], name
    assert (row["state"], row["user"], row["sink"]) == ("running", "guest", "DeltaSink")
    assert row["silent_for"] == pytest.approx(20, abs=2)
    reads = [{"queue": "orders", "offset": 960}]
    assert row["sources"] == [{"description": PYTHON, "rows": 500, "lag": 40, "reads": reads}]
    assert [(one["rows_per_second"], one["lag"]) for one in row["recent"]] == [(10.0, 90), (250.5, 40)]


def test_a_query_that_is_not_heard_of_is_silent_and_then_forgotten(broker: Broker, api: ManagementApi) -> None:
    tell(api)
    tell(api, id="slow", batch_ms=600_000)
    tell(api, id="over", state="stopped")
    broker.clock.advance(300)
    states = {row["id"]: row["state"] for row in api.get("spark-queries")[1]}
    assert states == {"q-1": "silent", "slow": "running", "over": "stopped"}
    broker.clock.advance(3600)
    assert api.get("spark-queries") == (200, [])


@pytest.mark.feature("S4-72")
def test_a_query_is_shown_where_its_user_may_be(broker: Broker, api: ManagementApi) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    lease = {"consumer": "job", "lease": 4, "queue": "q", "vhost": "other"}
    anna = as_user(broker, "anna", "management", vhosts=("other",))
    bob = as_user(broker, "bob", "management", vhosts=("/",))
    watcher = as_user(broker, "watcher", "monitoring")
    tell(api)
    tell(anna, id="leasing", vhost="/", sources=[{"description": PYTHON, "offset": lease, "lag": 1}])
    (row,) = anna.get("spark-queries")[1]
    assert (row["id"], row["vhost"]) == ("leasing", "other"), "its user may not enter the first one"
    assert row["sources"][0]["reads"] == [{"queue": "q", "vhost": "other", "consumer": "job", "lease": 4}]
    assert anna.get("spark-queries/other")[1] == [row]
    assert anna.get("spark-queries/%2F")[0] == 403
    assert [row["id"] for row in bob.get("spark-queries")[1]] == ["q-1"]
    assert [row["id"] for row in api.get("spark-queries/%2F")[1]] == ["q-1"]
    assert {row["id"] for row in watcher.get("spark-queries")[1]} == {"q-1", "leasing"}
    assert as_user(broker, "nobody", vhosts=("/",)).get("spark-queries")[0] == 401
    tell(anna, id="placeless", vhost="gone", sources=[])
    assert {row["id"] for row in anna.get("spark-queries")[1]} == {"leasing", "placeless"}, "its own"
    assert [row["id"] for row in bob.get("spark-queries")[1]] == ["q-1"]


@pytest.mark.parametrize(
    "sources", [None, 3, "x", [1, None, {}], [{"offset": {"q": "x", "r": True}}], [{"offset": [1]}]]
)
def test_whatever_a_client_reports_is_shown_or_left_out(api: ManagementApi, sources: object) -> None:
    strange = {"lag": "many", "rows": [1], "state": 7, "name": None, "batch_ms": True, "vhost": {}, "sink": 1}
    assert tell(api, sources=sources, **strange) == 200
    status, (row,) = api.get("spark-queries")
    assert status == 200
    assert (row["lag"], row["rows"], row["state"], row["name"], row["vhost"]) == (None, None, "unknown", "q-1", None)
    assert all(source["reads"] == [] for source in row["sources"])
    assert api.get("spark-queries", sort="lag", name="q")[0] == 200


def test_what_could_not_be_told_again_is_refused(api: ManagementApi) -> None:
    status, answer = api.post("pipeline/queries", b'{"id": "a", "name": "\\ud800"}')
    assert (status, "lone surrogate" in answer["reason"]) == (400, True)
    assert api.get("spark-queries") == (200, [])


@pytest.mark.parametrize("lag", [10**40, -(10**40)])
def test_a_number_that_nobody_can_have_counted_is_left_out(api: ManagementApi, lag: int) -> None:
    assert tell(api, lag=lag) == 200
    assert api.get("pipeline/queries")[0] == 200
    assert api.get("spark-queries")[1][0]["lag"] is None


@pytest.mark.parametrize(
    "lag", [float("inf"), float("-inf"), float("nan")]
)  # Python writes them, JSON has none of them
def test_what_is_no_number_of_json_is_refused_with_its_name(api: ManagementApi, lag: float) -> None:
    status, answer = api.post("pipeline/queries", REPORT | {"lag": lag})
    assert (status, answer["error"]) == (400, "bad_request")
    assert f"{json.dumps(lag)} is not a JSON number" in answer["reason"]
    assert api.get("spark-queries") == (200, [])


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ([{"description": PYTHON}] * 101, "more than 100 entries"),
        ([{"offset": {f"q{number}": number for number in range(501)}}], "more than 500 entries"),
        ([{"offset": [[] for _ in range(2_000)]}], "more than 2000 values"),
    ],
)
def test_a_report_is_bounded_in_what_it_makes_the_broker_keep(api: ManagementApi, sources: object, reason: str) -> None:
    status, answer = api.post("pipeline/queries", REPORT | {"sources": sources})
    assert (status, reason in answer["reason"]) == (400, True), answer
    assert api.get("spark-queries") == (200, [])


def test_a_report_of_many_sources_and_partitions_is_kept_whole(api: ManagementApi) -> None:
    offset = {f"s-{number}": number for number in range(100)}
    assert tell(api, sources=[{"description": PYTHON, "offset": offset}, *({"rows": 1} for _ in range(99))]) == 200
    (row,) = api.get("spark-queries")[1]
    assert (len(row["sources"]), len(row["sources"][0]["reads"])) == (100, 100)


# ---- what of it others are shown


def reads_of(rows: list[Any]) -> list[Any]:
    return [read for row in rows for source in row["sources"] for read in source["reads"]]


@pytest.mark.feature("S4-72")
def test_reports_are_shown_to_those_who_may_see_one_of_their_virtual_hosts(broker: Broker, api: ManagementApi) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    app = as_user(broker, "app", vhosts=("other",))
    bob = as_user(broker, "bob", vhosts=("/",))
    stranger = as_user(broker, "stranger")
    watcher = as_user(broker, "watcher", "monitoring")
    tell(api)
    tell(app, id="own", vhost="other")
    tell(stranger, id="placeless", vhost="/")

    def seen(asker: ManagementApi) -> list[str]:
        return [row["id"] for row in asker.get("pipeline/queries")[1]["queries"]]

    assert seen(app) == ["own"]
    assert seen(bob) == ["q-1"]
    assert seen(stranger) == ["placeless"], "its own, though it may enter nothing"
    assert seen(watcher) == ["q-1", "own", "placeless"]


@pytest.mark.feature("S4-72")
def test_what_a_query_reads_elsewhere_is_told_to_those_who_may_see_it(broker: Broker, api: ManagementApi) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("other"))
    broker.call(lambda: core.permissions.set("guest", "other", ".*", ".*", ".*"))
    lease = {"consumer": "job", "lease": 4, "queue": "secret", "vhost": "other"}
    bob = as_user(broker, "bob", "management", vhosts=("/",))
    anna = as_user(broker, "anna", "management", vhosts=("other",))
    tell(api, sources=[{"offset": lease, "lag": 1}, {"offset": {"orders": 960}}])
    stream = {"queue": "orders", "offset": 960}
    secret = {"queue": "secret", "vhost": "other", "consumer": "job", "lease": 4}
    assert reads_of(bob.get("spark-queries")[1]) == [stream]
    assert reads_of(bob.get("spark-queries/%2F")[1]) == [stream]
    (row,) = anna.get("spark-queries/other")[1]
    assert (reads_of([row]), row["vhost"]) == ([secret], "other"), "'orders' and '/' are none of its business"
    assert reads_of(api.get("spark-queries")[1]) == [secret, stream]
    for asker, told, hidden in ((bob, '"orders": 960', '"secret"'), (anna, '"secret"', '"orders": 960')):
        text = json.dumps(asker.get("pipeline/queries"))
        assert (told in text, hidden in text) == (True, False)


# ---- metrics


def metric_lines(api: ManagementApi, start: str, path: str = "/metrics/per-object") -> list[str]:
    response, text = api.http.send("GET", path)
    assert response.status == 200
    return [line for line in text.decode().splitlines() if line.startswith(start)]


@pytest.mark.feature("S4-77")
def test_metrics_tell_the_lag_of_readers_and_queries(broker: Broker, api: ManagementApi) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    vhost.declare_queue("classic", durable=True)
    for _ in range(6):
        vhost.publish("", "s", b"x")
    for consumer, offset in (("fast", 5), ('s"low', 1)):
        given = {"queue": "s", "consumer": consumer, "offset": offset, "pinned": False}
        assert api.put("pipeline/%2F/consumers", given)[0] == 200
    tell(api)
    tell(api, id="unknown", lag=None)
    assert metric_lines(api, "leveret_stream_reader_lag{") == [
        'leveret_stream_reader_lag{vhost="/",queue="s",reader="fast"} 1',
        'leveret_stream_reader_lag{vhost="/",queue="s",reader="s\\"low"} 5',
    ]
    assert metric_lines(api, "rabbitmq_stream_consumer_max_offset_lag{") == [
        'rabbitmq_stream_consumer_max_offset_lag{vhost="/",queue="s"} 5'
    ]
    (line,) = metric_lines(api, "leveret_spark_query_lag{")
    assert line == 'leveret_spark_query_lag{vhost="/",user="guest",query="orders to lake",query_id="q-1"} 40'
    assert metric_lines(api, "leveret_spark_query_rows_per_second{")[0].endswith(" 250.5")
    detailed = "/metrics/detailed?family=stream_consumer_metrics"
    assert metric_lines(api, "rabbitmq_detailed_stream_consumer_max_offset_lag{", detailed)
    assert metric_lines(api, "leveret_", f"{detailed}&vhost=other") == [
        "leveret_metrics_streams_left_out 0",
        "leveret_metrics_stream_readers_left_out 0",
    ]


def test_metrics_of_many_readers_are_bounded(
    broker: Broker, api: ManagementApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.api.metrics.MOST", 2)
    broker.vhost().declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    broker.vhost().publish("", "s", b"x")
    for number in range(5):
        api.put("pipeline/%2F/consumers", {"queue": "s", "consumer": f"c{number}", "offset": 0, "pinned": False})
    lines = metric_lines(api, "leveret_stream_reader_lag{")
    assert len(lines) == 3
    assert lines[-1] == 'leveret_stream_reader_lag{vhost="",queue="",reader=""} 3'
    assert metric_lines(api, "leveret_metrics_stream_readers_left_out") == ["leveret_metrics_stream_readers_left_out 3"]


# ---- the API's other forms


def test_lists_are_paged_and_filtered(broker: Broker, api: ManagementApi) -> None:
    for number in range(5):
        tell(api, id=f"id-{number}", name=f"name {number}")
    page = api.get("spark-queries", page=1, page_size=2, name="name", sort="name", sort_reverse="true", columns="name")
    assert [row["name"] for row in page[1]["items"]] == ["name 4", "name 3"]
    leased(broker, api, "größe", "a/b")
    (row,) = api.get(f"leases/{in_path('/')}", name="a/", columns="queue")[1]
    assert row == {"queue": "größe"}
    assert json.loads(json.dumps(page[1]))["total_count"] == 5
