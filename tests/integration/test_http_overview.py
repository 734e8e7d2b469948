"""S4-77: everything at a glance, and how fast it changes."""

from __future__ import annotations

import pytest

from leveret import Broker, FrozenClock
from tests.support.management_api import ManagementApi, as_guest, as_user
from tests.support.running_clients import client

pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.mark.feature("S4-77")
def test_tools_learn_what_they_talk_to(broker: Broker, api: ManagementApi) -> None:
    status, told = api.get("overview")
    assert status == 200
    assert (told["product_name"], told["rabbitmq_version"], told["management_version"]) == (
        "Leveret",
        "3.13.7",
        "3.13.7",
    )
    assert told["rates_mode"] == "basic"
    assert int(told["erlang_version"].split(".")[0]) >= 26
    assert told["node"] == told["cluster_name"] == broker.node.broker.node_name
    assert {kind["name"] for kind in told["exchange_types"]} >= {"direct", "fanout", "topic", "headers"}
    ports = {row["protocol"]: row["port"] for row in told["listeners"]}
    assert ports.keys() == {"amqp", "http"}
    assert broker.http_url.endswith(f":{ports['http']}")
    assert told["contexts"][0]["port"] == str(ports["http"])
    assert told["statistics_db_event_queue"] == 0


@pytest.mark.feature("S4-77")
def test_objects_are_counted(broker: Broker, api: ManagementApi) -> None:
    before = api.get("overview")[1]["object_totals"]
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.exchange_declare("e")
        channel.basic_consume("a", lambda *_: None)
        channel.connection.channel()
        after = api.get("overview")[1]["object_totals"]
    assert {name: after[name] - before[name] for name in after} == {
        "channels": 2,
        "connections": 1,
        "consumers": 1,
        "exchanges": 1,
        "queues": 1,
    }


@pytest.mark.feature("S4-77")
def test_messages_and_their_rates_are_told(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.confirm_delivery()
        channel.queue_declare("a")
        for _ in range(10):
            channel.basic_publish("", "a", b"x")
        for _ in range(5):
            channel.basic_publish("", "nobody", b"x")
        channel.basic_get("a", auto_ack=True)
        broker.clock.advance(5)
        told = api.get("overview")[1]
    stats, lengths = told["message_stats"], told["queue_totals"]
    assert (stats["publish"], stats["publish_details"]) == (15, {"rate": 3.0})
    assert (stats["confirm"], stats["drop_unroutable"], stats["return_unroutable"]) == (15, 5, 0)
    assert (stats["deliver_get"], stats["get_no_ack_details"]) == (1, {"rate": 0.2})
    assert (lengths["messages"], lengths["messages_ready"], lengths["messages_unacknowledged"]) == (9, 9, 0)
    assert lengths["messages_details"] == {"rate": 1.8}


def test_what_was_returned_and_confirmed_is_known_after_its_channel_is_gone(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.basic_publish("", "nobody", b"x", mandatory=True)
        channel.queue_declare("a")  # the return has come before the answer
        confirming = channel.connection.channel()
        confirming.confirm_delivery()
        confirming.basic_publish("", "a", b"x")
        during = api.get("overview")[1]["message_stats"]
    after = api.get("overview")[1]["message_stats"]
    for stats in (during, after):
        assert (stats["return_unroutable"], stats["drop_unroutable"], stats["confirm"]) == (1, 0, 1)


def test_samples_of_the_past_are_told_when_asked_for(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_publish("", "a", b"x")
        channel.queue_declare("a", passive=True)
        broker.clock.advance(10)
        told = api.get("overview", msg_rates_age=10, msg_rates_incr=5, lengths_age=5, lengths_incr=5)[1]
    now = int(broker.clock.core.wall() * 1000)
    assert told["message_stats"]["publish_details"] == {
        "avg": 2 / 3,
        "avg_rate": 0.1,
        "rate": 0.0,
        "samples": [{"sample": sample, "timestamp": now - ago} for sample, ago in ((1, 0), (1, 5_000), (0, 10_000))],
    }
    assert [sample["sample"] for sample in told["queue_totals"]["messages_details"]["samples"]] == [1, 1]
    assert "samples" in told["churn_rates"]["queue_created_details"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"msg_rates_age": "-1", "msg_rates_incr": "5"}, "'msg_rates_age' must be a whole number"),
        ({"lengths_age": "60", "lengths_incr": "often"}, "'lengths_incr' must be a whole number"),
        ({"lengths_age": "100000", "lengths_incr": "1"}, "more than 1000 samples"),
    ],
)
def test_windows_that_make_no_sense_are_refused(api: ManagementApi, query: dict[str, object], named: str) -> None:
    status, answer = api.get("overview", **query)
    assert (status, answer["error"]) == (400, "bad_request")
    assert named in answer["reason"]


def test_churn_is_counted(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        for _ in range(2):
            channel.queue_declare("a")
        channel.queue_delete("a")
        broker.clock.advance(5)
        churn = api.get("overview")[1]["churn_rates"]
    assert (churn["queue_declared"], churn["queue_created"], churn["queue_deleted"]) == (2, 1, 1)
    assert (churn["connection_created"], churn["connection_closed"]) == (1, 0)
    assert (churn["channel_created"], churn["queue_declared_details"]) == (1, {"rate": 0.4})
    churn = api.get("overview")[1]["churn_rates"]
    assert (churn["connection_closed"], churn["channel_closed"]) == (1, 1)


@pytest.mark.feature("S4-77")
def test_data_rates_are_those_of_all_connections_and_closed_ones_stay_counted(
    broker: Broker, api: ManagementApi
) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("idle"))
    broker.clock.advance(5)
    before = api.get("overview")[1]
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_publish("", "a", b"x" * 10_000)
        channel.basic_get("a", auto_ack=True)
        broker.clock.advance(5)
        during = api.get("overview")[1]
        rows = api.get("connections")[1]
        of_vhosts = {row["name"]: row for row in api.get("vhosts", msg_rates_age=5, msg_rates_incr=5)[1]}
    broker.clock.advance(5)
    after = api.get("overview", msg_rates_age=10, msg_rates_incr=5)[1]
    vhost = api.get("vhosts/%2F", columns="recv_oct,send_oct,recv_oct_details")[1]
    for name in ("recv_oct", "send_oct"):
        assert during[name] - before[name] == sum(row[name] for row in rows) > 10_000, name
        assert during[f"{name}_details"] == {"rate": (during[name] - before[name]) / 5}, name
        assert during[name] <= after[name] < during[name] + 1_000, name
        assert after[f"{name}_details"]["rate"] == (after[name] - during[name]) / 5, name
        counts = [one["sample"] for one in after[f"{name}_details"]["samples"]]
        assert counts == [after[name], during[name], before[name]], name
        own = of_vhosts["/"]
        assert own[name] == sum(row[name] for row in rows), name
        assert own[f"{name}_details"]["rate"] == own[name] / 5, name
        assert [one["sample"] for one in own[f"{name}_details"]["samples"]] == [own[name], 0], name
        assert own[name] <= vhost[name] < own[name] + 1_000, name  # without what follows connection.close
        assert of_vhosts["idle"][name] == 0, name


@pytest.mark.feature("S4-72")
def test_who_may_not_see_all_is_told_of_its_own_virtual_hosts(broker: Broker) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("own"))
    anna = as_user(broker, "anna", "management", vhosts=("own",))
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_publish("", "a", b"x")
        channel.queue_declare("a", passive=True)
        told = anna.get("overview")[1]
    assert (told["queue_totals"]["messages"], told["object_totals"]["queues"]) == (0, 0)
    assert told["message_stats"]["publish"] == 0
    assert not told.keys() & {"listeners", "contexts", "churn_rates", "recv_oct", "send_oct_details"}
    assert as_user(broker, "max", "monitoring").get("overview")[1]["queue_totals"]["messages"] == 1


@pytest.mark.feature("S4-72")
def test_who_may_not_see_all_counts_its_own_connections(broker: Broker) -> None:
    """As many as it can list."""
    anna = as_user(broker, "anna", "management", vhosts=("/",))
    with client(broker) as channel, client(broker, "another", "anna", "secret"):
        channel.connection.channel()
        told = anna.get("overview")[1]["object_totals"]
        assert (told["connections"], told["channels"]) == (1, 1)
        assert [len(anna.get(path)[1]) for path in ("connections", "channels")] == [1, 1]
        told = as_user(broker, "max", "monitoring").get("overview")[1]["object_totals"]
        assert (told["connections"], told["channels"]) == (2, 3)


@pytest.mark.feature("S4-77")
def test_the_cluster_can_be_given_a_name(broker: Broker, api: ManagementApi) -> None:
    """As in RabbitMQ: a name for people and dashboards, kept as a global parameter."""
    node = broker.node.broker.node_name
    assert api.put("cluster-name", {"name": "shop"}) == (204, None)
    assert api.get("cluster-name") == (200, {"name": "shop"})
    told = api.get("overview")[1]
    assert (told["cluster_name"], told["node"]) == ("shop", node)
    assert api.get("global-parameters/cluster_name") == (200, {"name": "cluster_name", "value": "shop"})
    metrics = api.http.send("GET", "/metrics")[1].decode()
    assert 'rabbitmq_cluster="shop"' in metrics
    assert f'rabbitmq_cluster_permanent_id="{node}"' in metrics
    assert as_user(broker, "max", "monitoring").put("cluster-name", {"name": "mine"})[0] == 403
    assert api.delete("global-parameters/cluster_name") == (204, None)
    assert api.get("cluster-name") == (200, {"name": node})


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": 5}, {"name": "x" * 256}])
def test_what_is_no_name_of_a_cluster_is_refused(broker: Broker, api: ManagementApi, body: object) -> None:
    status, answer = api.put("cluster-name", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert api.get("cluster-name") == (200, {"name": broker.node.broker.node_name})


def test_a_name_of_a_cluster_that_is_no_text_is_passed_over(broker: Broker, api: ManagementApi) -> None:
    """Anything can be put as a global parameter."""
    api.put("global-parameters/cluster_name", {"value": ["a"]})
    assert api.get("cluster-name") == (200, {"name": broker.node.broker.node_name})


@pytest.mark.parametrize(
    "path",
    [
        "shovels",
        "shovels/%2F",
        "federation-links",
        "federation-links/%2F",
        "federation-links/state/down",
        "federation-links/%2F/state/down",
    ],
)
@pytest.mark.feature("S4-77")
def test_tools_that_look_for_plugins_find_nothing_in_use(broker: Broker, api: ManagementApi, path: str) -> None:
    """Exporters and checks ask for shovels and links with everything else; 404 would be an error to them."""
    assert api.get(path) == (200, [])
    assert as_user(broker, "anna", "management", vhosts=("/",)).get(path)[0] == 403
    assert as_user(broker, "max", "monitoring").get(path) == (200, [])
    if "%2F" in path:
        assert api.get(path.replace("%2F", "none"))[0] == 404


def test_small_facts_that_tools_ask_for(broker: Broker, api: ManagementApi) -> None:
    assert api.get("cluster-name") == (200, {"name": broker.node.broker.node_name})
    for path in ("extensions", "feature-flags", "deprecated-features"):
        assert api.get(path) == (200, [])
    assert api.get("auth")[1]["oauth_enabled"] is False
    assert api.post("rebalance/queues", {}) == (204, None)
    assert as_user(broker, "anna", "management").post("rebalance/queues", {})[0] == 403


@pytest.mark.parametrize("path", ["overview", "cluster-name", "extensions", "feature-flags"])
@pytest.mark.feature("S4-72")
def test_strangers_are_told_nothing(broker: Broker, path: str) -> None:
    assert as_user(broker, "nobody").get(path)[0] == 401
