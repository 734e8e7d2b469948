"""Other people's Python clients of the HTTP API: pyrabbit2, and the management part of AMQPStorm."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import amqpstorm
import pika
import pytest
from amqpstorm.management import ApiError, ManagementApi
from pyrabbit2 import Client
from pyrabbit2.api import APIError
from pyrabbit2.http import HTTPError

import leveret
from leveret.broker.vhost import Vhost
from tests.compat.waiting import until

pytestmark = pytest.mark.broker


@pytest.fixture
def pyrabbit(broker: leveret.Broker) -> Client:
    return Client(urlsplit(broker.http_url).netloc, "guest", "guest")


@pytest.fixture
def storm(broker: leveret.Broker) -> Iterator[ManagementApi]:
    with ManagementApi(broker.http_url, "guest", "guest") as api:
        yield api


def vhost_of(broker: leveret.Broker, name: str = "/") -> Vhost:
    return broker.node.broker.vhost(name)


# ---- pyrabbit2


@pytest.mark.feature("S4-77")
def test_pyrabbit_looks_around(broker: leveret.Broker, pyrabbit: Client) -> None:
    node = broker.node.settings.node_name
    assert pyrabbit.is_alive()
    with pytest.raises(APIError, match="No vhost named"):
        pyrabbit.is_alive("nowhere")
    assert pyrabbit.get_whoami()["name"] == "guest"
    assert pyrabbit.get_overview()["node"] == node
    assert [row["name"] for row in pyrabbit.get_nodes()] == [node]
    assert pyrabbit.get_cluster_name()["name"] == node
    assert isinstance(pyrabbit.get_extensions(), list)
    assert "guest" in [row["name"] for row in pyrabbit.get_users()]
    assert pyrabbit.get_vhost_names() == ["/"]
    assert [row["name"] for row in pyrabbit.get_definitions()["vhosts"]] == ["/"]


@pytest.mark.feature("S4-77")
def test_pyrabbit_topology_and_messages(broker: leveret.Broker, pyrabbit: Client) -> None:
    assert pyrabbit.create_exchange("/", "px", "topic")  # with a list for its arguments
    assert pyrabbit.create_queue("/", "pq", durable=True, arguments={"x-max-length": 100}) == 201
    assert pyrabbit.create_binding("/", "px", "pq", "a.*")
    assert pyrabbit.get_exchange("/", "px")["type"] == "topic"
    assert "px" in [row["name"] for row in pyrabbit.get_exchanges("/")]
    assert pyrabbit.publish("/", "px", "a.b", "hello", properties={"delivery_mode": 2})
    assert not pyrabbit.publish("/", "px", "elsewhere", "lost")
    assert pyrabbit.get_queue_depth("/", "pq") == 1
    assert [row["name"] for row in pyrabbit.get_queues("/", pattern="^p", regex=True)] == ["pq"]
    assert pyrabbit.get_messages("/", "pq", requeue=True)[0]["payload"] == "hello"
    assert pyrabbit.get_messages("/", "pq", count=5)[0]["redelivered"]
    assert vhost_of(broker).queues["pq"].ready == 0
    assert {row["routing_key"] for row in pyrabbit.get_queue_bindings("/", "pq")} == {"pq", "a.*"}
    assert pyrabbit.delete_binding("/", "px", "pq", "a.*") == 204
    assert pyrabbit.publish("/", "amq.default", "pq", "again")
    assert pyrabbit.purge_queue("/", "pq") == 204
    assert pyrabbit.delete_queue("/", "pq") == 204
    assert pyrabbit.delete_exchange("/", "px")
    with pytest.raises(HTTPError, match="404"):
        pyrabbit.get_queue("/", "pq")


@pytest.mark.feature("S4-71", "S4-72", "S4-77")
def test_pyrabbit_administers(broker: leveret.Broker, pyrabbit: Client) -> None:
    assert pyrabbit.create_vhost("shop") == 201
    assert pyrabbit.create_user("anna", "secret", tags="monitoring") == 201
    assert pyrabbit.set_vhost_permissions("shop", "anna", "^a", ".*", "^b") == 201
    assert pyrabbit.get_permission("shop", "anna")["configure"] == "^a"
    assert [row["user"] for row in pyrabbit.get_vhost_permissions("shop")].count("anna") == 1
    assert len(pyrabbit.get_user_permissions("anna")) == 1
    anna = Client(pyrabbit.api_url, "anna", "secret")
    assert anna.get_whoami()["tags"] == ["monitoring"]
    with pytest.raises(HTTPError, match="administrator"):
        anna.create_vhost("other")
    with pytest.raises(Exception, match="Insufficient permissions"):
        Client(pyrabbit.api_url, "anna", "wrong").get_whoami()
    policy = {"pattern": "^a", "definition": {"max-length": 4}, "priority": 1, "apply-to": "queues"}
    assert pyrabbit.create_policy("shop", "short", **policy) == 201
    assert pyrabbit.get_policy("shop", "short")["definition"] == {"max-length": 4}
    assert [row["name"] for row in pyrabbit.get_all_policies()] == ["short"]
    assert pyrabbit.delete_policy("shop", "short") == 204
    assert pyrabbit.delete_permission("shop", "anna") == 204
    assert pyrabbit.delete_user("anna") == 204
    assert pyrabbit.delete_vhost("shop") == 204
    assert "shop" not in broker.node.broker.vhosts


@pytest.mark.feature("S4-77")
def test_pyrabbit_closes_a_connection(broker: leveret.Broker, pyrabbit: Client) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    connection.channel()
    name = pyrabbit.get_connections()[0]["name"]
    assert pyrabbit.get_connection(name)["user"] == "guest"
    assert pyrabbit.get_channel(pyrabbit.get_channels()[0]["name"])["number"] == 1
    assert pyrabbit.delete_connection(name)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(time_limit=10)
    until(lambda: not pyrabbit.get_connections())


# ---- AMQPStorm


@pytest.mark.feature("S4-77")
def test_amqpstorm_looks_around(broker: leveret.Broker, storm: ManagementApi) -> None:
    node = broker.node.settings.node_name
    assert storm.aliveness_test("/") == {"status": "ok"}
    assert storm.cluster_name()["name"] == node
    assert storm.nodes()[0]["name"] == storm.node(node)["name"] == node
    assert storm.overview()["product_name"] == "Leveret"
    assert storm.whoami()["name"] == "guest"
    assert storm.healthchecks.get() == {"status": "ok"}  # with a slash at the end of its path
    assert storm.healthchecks.get(node) == {"status": "ok"}


@pytest.mark.feature("S4-77")
def test_amqpstorm_pages_through_a_long_list(broker: leveret.Broker, storm: ManagementApi) -> None:
    for number in range(25):
        broker.call(lambda number=number: vhost_of(broker).declare_queue(f"page-{number}"))  # type: ignore[misc]
    assert len(storm.queue.list(page_size=10, name="page-")) == 25
    assert len(storm.queue.list(page_size=10, name="^page-2[0-9]$", use_regex=True)) == 5
    assert {row["type"] for row in storm.exchange.list(page_size=2)} >= {"direct", "topic", "headers", "fanout"}
    for number in range(25):
        storm.queue.delete(f"page-{number}")


@pytest.mark.feature("S4-77")
def test_amqpstorm_topology_and_messages(broker: leveret.Broker, storm: ManagementApi) -> None:
    storm.exchange.declare("sx", exchange_type="topic", durable=True)
    storm.exchange.declare("sy", exchange_type="fanout", durable=True)
    storm.queue.declare("sq", durable=True, arguments={"x-max-length": 5})
    storm.queue.bind("sq", "sx", "k.#", arguments={"a": 1})
    storm.exchange.bind("sx", "sy", "any")
    assert storm.queue.declare("sq", passive=True)["arguments"] == {"x-max-length": 5}
    assert {row["source"] for row in storm.queue.bindings("sq")} == {"", "sx"}
    assert storm.basic.publish("hello", "k.1", "sx", properties={"headers": {"n": 1}}) == {"routed": True}
    assert storm.basic.publish("AAH/", "k.2", "sx", payload_encoding="base64") == {"routed": True}
    first = storm.basic.get("sq", requeue=True)[0]
    assert isinstance(first, amqpstorm.Message)
    assert (first.body, first.properties["headers"]) == ("hello", {"n": 1})
    assert [row["payload"] for row in storm.basic.get("sq", to_dict=True, count=9)] == ["hello", "AAH/"]
    storm.basic.publish("left", "sq")
    storm.queue.purge("sq")
    assert vhost_of(broker).queues["sq"].ready == 0
    storm.exchange.unbind("sx", "sy", "any")
    storm.queue.delete("sq")
    storm.exchange.delete("sx")
    with pytest.raises(ApiError) as problem:
        storm.queue.get("sq")
    assert problem.value.error_code == 404


@pytest.mark.feature("S4-71", "S4-72", "S4-77")
def test_amqpstorm_administers(broker: leveret.Broker, storm: ManagementApi) -> None:
    storm.virtual_host.create("depot")
    storm.user.create("bert", "secret", tags="management")
    storm.user.set_permission("bert", "depot", ".*", ".*", ".*")
    assert storm.user.get("bert")["name"] == "bert"
    assert storm.user.get_permission("bert", "depot")["read"] == ".*"
    assert [row["user"] for row in storm.virtual_host.get_permissions("depot")].count("bert") == 1
    with amqpstorm.Connection(
        "127.0.0.1", "bert", "secret", port=urlsplit(broker.amqp_url).port or 0, virtual_host="depot"
    ) as connection:
        channel = connection.channel()
        name = storm.connection.list()[0]["name"]
        assert storm.connection.get(name)["user"] == "bert"
        assert storm.channel.get(storm.channel.list()[0]["name"])["vhost"] == "depot"
        storm.connection.close(name, reason="enough")
        until(lambda: not storm.connection.list())
        with pytest.raises(amqpstorm.AMQPError):
            channel.queue.declare("late")
    storm.user.delete_permission("bert", "depot")
    storm.user.delete("bert")
    storm.virtual_host.delete("depot")
    assert "bert" not in broker.node.broker.users
    assert "depot" not in broker.node.broker.vhosts
