"""S4-77: streams, leases and Spark queries from the command line."""

from __future__ import annotations

import pytest

from leveret import Broker, FrozenClock
from leveret.wire.properties import Properties
from tests.support.command_line import Cli
from tests.support.management_api import as_guest

pytestmark = pytest.mark.broker(storage="disk", fresh=True, clock=FrozenClock)


@pytest.mark.feature("S4-77")
def test_streams_are_listed_and_shown(broker: Broker, cli: Cli) -> None:
    assert "--type stream" in cli.run("streams", "list").stderr
    vhost = broker.vhost()
    vhost.declare_queue("log", durable=True, arguments={"x-queue-type": "stream", "x-max-age": "7D"})
    for _ in range(7):
        vhost.publish("", "log", b"x")
    as_guest(broker).put("pipeline/%2F/consumers", {"queue": "log", "consumer": "job", "offset": 2, "pinned": True})
    vhost.set_policy("images", "^images$", {"shards-per-node": 2}, apply_to="exchanges")
    vhost.declare_exchange("images", "x-modulus-hash", durable=True)
    rows = cli.rows("streams", "list")
    assert [row[1:4] for row in rows] == [["images", "shards", "2"], ["log", "stream", "1"]]
    shown = cli.done("streams", "show", "log")
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith(("lag", "last offset"))] == ["5", "6"]
    assert "7 d 0 h" in shown
    assert ["job", "-", "log", "2", "5", "no", "yes", "-"] in [line.split() for line in shown.splitlines()]
    assert "sharding: images" in cli.done("streams", "show", "images")
    assert cli.json("streams", "show", "log")["next_offset"] == 7
    assert "no stream 'nothing'" in cli.refused("streams", "show", "nothing")


@pytest.mark.feature("S4-77")
def test_leases_are_listed_and_released(broker: Broker, cli: Cli) -> None:
    assert "No leases" in cli.run("leases", "list").stderr
    vhost = broker.vhost()
    vhost.declare_queue("q", durable=True)
    for _ in range(4):
        vhost.publish("", "q", b"x", Properties(delivery_mode=2))
    taking = {"queue": "q", "consumer": "job", "max_messages": 3}
    as_guest(broker).post("pipeline/%2F/leases", taking)
    (row,) = cli.rows("leases", "list")
    assert row[:5] == ["/", "q", "job", "1", "3"]
    assert cli.done("leases", "release", "q", "job", "--lease", "1") == "3 messages requeued to queue 'q'\n"
    assert cli.json("leases", "list") == []
    assert vhost.message_count("q") == 4
    assert "no queue 'none'" in cli.refused("leases", "release", "none", "job")


@pytest.mark.feature("S4-77")
def test_spark_queries_are_listed(broker: Broker, cli: Cli) -> None:
    assert "LeveretListener" in cli.run("spark", "list").stderr
    report = {"id": "i", "name": "to lake", "vhost": "/", "state": "running", "lag": 12, "rows_per_second": 3.5}
    as_guest(broker).post("pipeline/queries", report)
    (row,) = cli.rows("spark", "list")
    assert row[:5] == ["to lake", "running", "12", "-", "3.5/s"]
    assert cli.json("spark", "list")[0]["id"] == "i"


@pytest.mark.feature("S4-77")
def test_running_pipelines_are_listed(broker: Broker, cli: Cli) -> None:
    assert "Run a pipeline, or add LeveretListener" in cli.run("pipeline", "list", "--running").stderr
    shown = {"lag": 12, "rows_per_second": 3.5, "state_operators": [{"name": "dedupe", "rows": 42}]}
    as_guest(broker).post("pipeline/queries", {"id": "i", "name": "dedup", "vhost": "/", "state": "running", **shown})
    failed = {"id": "j", "name": "lake", "vhost": "/", "state": "failed", "error": "no exchange 'x': declare it"}
    as_guest(broker).post("pipeline/queries", failed)
    table = cli.done("pipeline", "list", "--running").splitlines()
    assert table[0].split()[:3] == ["name", "state", "lag"]
    assert table[1].split()[:5] == ["dedup", "running", "12", "-", "3.5/s"]
    assert table[1].split()[-2:] == ["42", "-"]
    assert table[2].endswith("no exchange 'x': declare it")
    assert [row["id"] for row in cli.json("pipeline", "list", "--running", "--vhost", "/")] == ["i", "j"]
    assert "add --running" in cli.refused("pipeline", "list", "--vhost", "/", code=2)
    assert "--running" in cli.done("pipeline", "list", "--help")


def test_transactions_of_the_sink_are_listed_and_deleted(broker: Broker, cli: Cli) -> None:
    assert "No transactions" in cli.run("spark", "transactions").stderr
    as_guest(broker).post("pipeline/%2F/commits", {"transaction": "t", "batch": 7, "stages": []})
    (row,) = cli.rows("spark", "transactions")
    assert row[:3] == ["t", "guest", "7"]
    cli.done("spark", "delete-transaction", "t", "--owner-only")
    assert cli.json("spark", "transactions")["commits"][0]["owner"] == ""
    assert "its last batch was 7" in cli.done("spark", "delete-transaction", "t")
    assert cli.json("spark", "transactions", "--start", "0")["total"] == 0
    assert "no transaction 't'" in cli.refused("spark", "delete-transaction", "t")
