"""S4-77: the node, and what it uses of its machine."""

from __future__ import annotations

import os

import pytest

from leveret import Broker, FrozenClock
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path
from tests.support.running_clients import client

pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.mark.feature("S4-77")
def test_the_node_tells_what_it_is(broker: Broker, api: ManagementApi) -> None:
    broker.clock.advance(60)
    status, rows = api.get("nodes")
    assert (status, len(rows)) == (200, 1)
    row, name = rows[0], broker.node.broker.node_name
    assert (row["name"], row["type"], row["running"], row["partitions"]) == (name, "disc", True, [])
    assert (row["os_pid"], row["processors"], row["uptime"]) == (str(os.getpid()), os.cpu_count(), 60_000)
    assert {mechanism["name"] for mechanism in row["auth_mechanisms"]} == {"PLAIN", "AMQPLAIN", "EXTERNAL"}
    assert row["exchange_types"]
    status, same = api.get(f"nodes/{in_path(name)}")
    assert (status, same["name"], same["os_pid"]) == (200, name, row["os_pid"])


@pytest.mark.feature("S4-77")
def test_the_node_tells_what_it_uses_and_how_much_it_may(broker: Broker, api: ManagementApi) -> None:
    before = api.get("nodes")[1][0]
    with client(broker):
        after = api.get("nodes")[1][0]
    assert after["sockets_used"] - before["sockets_used"] == 1
    for used, limit in (("mem_used", "mem_limit"), ("fd_used", "fd_total"), ("proc_used", "proc_total")):
        assert 0 < after[used] < after[limit]
    assert after["disk_free"] > 0
    assert after["disk_free_limit"] > 0
    assert (after["mem_alarm"], after["disk_free_alarm"]) == (False, False)
    assert after["mem_limit"] == broker.node.broker.memory.high_watermark


def test_what_the_machine_tells_has_rates(broker: Broker, api: ManagementApi) -> None:
    assert api.get("nodes")[1][0]["sockets_used_details"] == {"rate": 0.0}
    with client(broker):
        broker.clock.advance(5)
        row = api.get("nodes")[1][0]
    assert row["sockets_used_details"] == {"rate": 0.2}
    assert row["connection_created_details"] == {"rate": 0.2}
    assert row.keys() >= {"mem_used_details", "fd_used_details", "disk_free_details", "proc_used_details"}


def test_alarms_are_shown(broker: Broker, api: ManagementApi) -> None:
    for name, field in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")):
        broker.call(lambda name=name: broker.node.broker.set_alarm(name, "too much"))
        assert api.get("nodes")[1][0][field] is True
        broker.call(lambda name=name: broker.node.broker.set_alarm(name, None))
        assert api.get("nodes")[1][0][field] is False


def test_the_memory_of_the_node_is_taken_apart(broker: Broker, api: ManagementApi) -> None:
    status, told = api.get(f"nodes/{in_path(broker.node.broker.node_name)}/memory")
    parts = told["memory"]
    assert status == 200
    assert parts["queue_procs"] + parts["other_system"] == parts["total"]["rss"] > 0


def test_the_memory_of_the_node_is_told_in_hundredths(broker: Broker, api: ManagementApi) -> None:
    status, told = api.get(f"nodes/{in_path(broker.node.broker.node_name)}/memory/relative")
    parts = told["memory"]
    assert (status, parts["total"]) == (200, 100)
    assert 100 <= parts["queue_procs"] + parts["other_system"] <= 101
    assert api.get("nodes/elsewhere/memory/relative")[0] == 404


def test_another_node_is_not_there(api: ManagementApi) -> None:
    status, answer = api.get("nodes/rabbit%40elsewhere")
    assert (status, answer["error"]) == (404, "Object Not Found")
    assert "no node 'rabbit@elsewhere'" in answer["reason"]


@pytest.mark.feature("S4-72")
def test_nodes_are_for_monitoring_users(broker: Broker) -> None:
    assert as_user(broker, "anna", "management", vhosts=("/",)).get("nodes")[0] == 403
    assert as_user(broker, "max", "monitoring").get("nodes")[0] == 200
