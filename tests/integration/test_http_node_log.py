"""The latest log lines, alarms in effect, measures of the node, and the page about command lines, over HTTP."""

from __future__ import annotations

import logging

import pytest

from leveret import Broker
from leveret.api.recent_log import LONGEST, MOST_LINES
from leveret.logs import get_log
from tests.support.http_api import HttpApi
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path

pytestmark = pytest.mark.broker()
log = get_log("probe")


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


def test_lines_are_shown_by_level_and_from_a_number_on(broker: Broker, api: ManagementApi) -> None:
    address = f"nodes/{in_path(broker.node.broker.node_name)}/log"
    begun = api.get(address)[1]["last"]
    logging.getLogger("leveret").setLevel(logging.INFO)
    try:
        log.info("first", user="ann", password="hunter2", url="amqp://ann:hunter2@host/")
        log.warning("second")
        log.error("third\nline", size="x" * 2 * LONGEST)
    finally:
        logging.getLogger("leveret").setLevel(logging.NOTSET)
    own = [row for row in api.get(address, after=begun)[1]["lines"] if row["log"] == "probe"]
    assert [row["level"] for row in own] == ["info", "warning", "error"]
    assert own[0]["text"] == "first user=ann password=*** url=amqp://ann:***@host/"
    assert len(own[2]["text"]) <= LONGEST
    assert "\n" not in own[2]["text"]
    warnings = api.get(address, after=begun, level="warning")[1]["lines"]
    assert next(row["text"] for row in warnings if row["log"] == "probe") == "second"
    assert len(api.get(address, limit=1)[1]["lines"]) == 1
    assert api.get(address, after=api.get(address)[1]["last"])[1]["lines"] == []
    for number in range(MOST_LINES + 5):
        log.error("many", number=number)
    told = api.get(address)[1]
    assert (len(told["lines"]), told["last"] - told["first"] + 1) == (MOST_LINES, MOST_LINES)


def test_numbers_of_another_run_are_ignored(broker: Broker, api: ManagementApi) -> None:
    """A client that polls across a restart gets the first lines of the new run."""
    address = f"nodes/{in_path(broker.node.broker.node_name)}/log"
    log.error("anything")
    told = api.get(address)[1]
    assert api.get(address, after=told["last"], run=told["run"])[1]["lines"] == []
    assert api.get(address, after=told["last"], run="earlier")[1]["lines"] == told["lines"]


def test_only_administrators_read_the_log_and_only_of_this_node(broker: Broker, api: ManagementApi) -> None:
    address = f"nodes/{in_path(broker.node.broker.node_name)}/log"
    assert as_user(broker, "max", "monitoring").get(address)[0] == 403
    assert api.get("nodes/elsewhere/log")[0] == 404
    for query in ({"level": "loud"}, {"limit": "0"}, {"limit": "1001"}, {"after": "-1"}):
        assert api.get(address, **query)[0] == 400, query


def test_alarms_are_listed_with_numbers_for_those_who_may_monitor(broker: Broker, api: ManagementApi) -> None:
    core = broker.node.broker
    assert api.get("alarms")[1] == []
    for name in ("disk", "memory", "store"):
        broker.call(lambda name=name: core.set_alarm(name, f"{name} is bad"))
    try:
        rows = {row["resource"]: row for row in api.get("alarms")[1]}
        anna = as_user(broker, "anna", "management").get("alarms")[1]
    finally:
        for name in ("disk", "memory", "store"):
            broker.call(lambda name=name: core.set_alarm(name, None))
    assert rows["disk"]["free"] > 0
    assert rows["disk"]["limit"] > 0
    assert rows["memory"]["limit"] == core.memory.high_watermark
    assert rows["store"] == {"node": core.node_name, "resource": "store", "reason": "store is bad"}
    assert all(row.keys() == {"node", "resource", "reason"} for row in anna)
    assert len(anna) == 3


def test_the_node_has_a_history_of_its_measures(broker: Broker, api: ManagementApi) -> None:
    row = api.get("nodes", node_stats_age=60, node_stats_incr=5)[1][0]
    for name in ("mem_used", "disk_free", "fd_used", "cpu_time", "loop_lag", "io_sync_count", "memory_queue_procs"):
        samples = row[f"{name}_details"]["samples"]
        assert samples, name
        assert name in ("loop_lag", "io_sync_count", "memory_queue_procs") or samples[0]["sample"] > 0, name


def test_where_to_get_rabbitmqadmin(broker: Broker) -> None:
    api = HttpApi(broker.http_url, None)
    for path, status in (("/cli/", 200), ("/cli", 200), ("/cli/rabbitmqadmin", 404)):
        response, text = api.send("GET", path)
        assert (response.status, response.getheader("content-type")) == (status, "text/plain; charset=utf-8"), path
        assert b"https://www.rabbitmq.com/docs/management-cli" in text
