"""Virtual hosts over HTTP: made, shown, described and deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pika
import pika.exceptions
import pytest

from leveret import Broker
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest, as_user

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


pytestmark = pytest.mark.broker(fresh=True)


def names(answer: tuple[int, list[dict[str, str]]]) -> list[str]:
    assert answer[0] == 200, answer
    return [row["name"] for row in answer[1]]


@pytest.mark.feature("S4-71")
def test_a_vhost_is_made_once_and_shown(broker: Broker, admin: ManagementApi) -> None:
    assert admin.put("vhosts/orders") == (201, None)
    assert admin.put("vhosts/orders", {"description": "shop", "tags": "b,a"}) == (204, None)
    status, shown = admin.get("vhosts/orders")
    assert status == 200
    expected = {
        "name": "orders",
        "description": "shop",
        "tags": ["b", "a"],
        "default_queue_type": "undefined",
        "metadata": {"description": "shop", "tags": ["b", "a"]},
        "tracing": False,
        "cluster_state": {broker.node.broker.node_name: "running"},
    }
    assert {key: shown[key] for key in expected} == expected
    assert names(admin.get("vhosts")) == ["/", "orders"]


@pytest.mark.feature("S4-71")
def test_a_vhost_tells_how_many_messages_wait_in_it(broker: Broker, admin: ManagementApi) -> None:
    admin.put("vhosts/orders")
    session = broker.vhost()
    session.declare_queue("q")
    for _ in range(3):
        session.publish("", "q", b"")
    assert {row["name"]: row["messages"] for row in admin.get("vhosts")[1]} == {"/": 3, "orders": 0}
    assert admin.get("vhosts/%2F")[1]["messages_ready"] == 3


@pytest.mark.feature("S4-71")
def test_the_slash_is_a_name_like_others(admin: ManagementApi) -> None:
    assert admin.get("vhosts/%2F")[1]["name"] == "/"
    assert admin.put("vhosts/a%2Fb%20c%C3%A4") == (201, None)
    assert names(admin.get("vhosts")) == ["/", "a/b cä"]


@pytest.mark.feature("S4-71")
def test_whoever_makes_a_vhost_may_use_it(broker: Broker, admin: ManagementApi) -> None:
    """As in RabbitMQ."""
    admin.put("vhosts/orders")
    assert admin.get("vhosts/orders/permissions") == (200, [{"user": "guest", "vhost": "orders", **ALL}])
    pika.BlockingConnection(pika.URLParameters(f"{broker.amqp_url.rpartition('/')[0]}/orders")).close()


@pytest.mark.feature("S4-71")
def test_a_put_that_says_nothing_takes_the_description_away(admin: ManagementApi) -> None:
    admin.put("vhosts/orders", {"description": "shop", "tags": ["a"], "default_queue_type": "quorum"})
    assert admin.get("vhosts/orders")[1]["default_queue_type"] == "quorum"
    assert admin.put("vhosts/orders") == (204, None)
    shown = admin.get("vhosts/orders")[1]
    assert (shown["description"], shown["tags"], shown["default_queue_type"]) == ("", [], "undefined")


def test_queues_without_a_type_get_the_default_type(broker: Broker, admin: ManagementApi) -> None:
    """As in RabbitMQ: if every type can be such a queue."""
    admin.put("vhosts/orders")
    parameters = pika.URLParameters(f"{broker.amqp_url.rpartition('/')[0]}/orders")
    with pika.BlockingConnection(parameters) as connection, connection.channel() as channel:
        channel.queue_declare("before", durable=True)
        admin.put("vhosts/orders", {"default_queue_type": "stream"})
        channel.queue_declare("before", durable=True)  # still equivalent
        for _ in range(2):
            channel.queue_declare("lasting", durable=True)
        admin.put("queues/orders/by-http", {"durable": True})
        channel.queue_declare("named", durable=True, arguments={"x-queue-type": "classic"})
        channel.queue_declare("transient")
        channel.queue_declare("exclusive", durable=True, exclusive=True)
        channel.queue_declare("auto-delete", durable=True, auto_delete=True)
        channel.queue_declare("", durable=True)
        types = {row["name"]: row["type"] for row in admin.get("queues/orders")[1]}
        assert sorted(name for name, kind in types.items() if kind == "stream") == ["by-http", "lasting"]
        assert len(types) == 8


@pytest.mark.feature("S4-71")
def test_deleting_a_vhost_closes_its_connections(broker: Broker, admin: ManagementApi) -> None:
    admin.put("vhosts/orders")
    connection = pika.BlockingConnection(pika.URLParameters(f"{broker.amqp_url.rpartition('/')[0]}/orders"))
    assert admin.delete("vhosts/orders") == (204, None)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="vhost 'orders' is deleted"):
        connection.process_data_events(5)
    assert names(admin.get("vhosts")) == ["/"]
    assert admin.get("permissions")[1] == [{"user": "guest", "vhost": "/", **ALL}]


@pytest.mark.feature("S4-71")
def test_what_is_not_there_is_not_found(admin: ManagementApi) -> None:
    for ask in (admin.get, admin.delete):
        status, answer = ask("vhosts/none")
        assert (status, answer["error"]) == (404, "Object Not Found")
        assert "vhost 'none' not found" in answer["reason"]
    assert admin.get("vhosts/none/permissions")[0] == 404
    assert admin.get("vhosts/none/topic-permissions")[0] == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"description": 5}, "description"),
        ({"tags": 5}, "tags"),
        ({"tags": [5]}, "tags"),
        ({"default_queue_type": "lazy"}, "default_queue_type"),
        ({"tracing": "often"}, "tracing"),
        ([], "JSON object"),
        (b"{", "not JSON"),
        (b'{"description": "\\ud800"}', "lone surrogate"),
        (b'{"description": "a\\u0000b"}', "null character"),
        ({"x": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}, "nested deeper"),
    ],
)
@pytest.mark.feature("S4-71")
def test_a_wrong_body_makes_nothing(admin: ManagementApi, body: object, field: str) -> None:
    status, answer = admin.put("vhosts/orders", body)
    assert status == 400
    assert field in answer["reason"]
    assert names(admin.get("vhosts")) == ["/"]


@pytest.mark.parametrize("name", ["a" * 256, "a%00b"])
@pytest.mark.feature("S4-71")
def test_a_name_that_cannot_be_kept_is_refused(admin: ManagementApi, name: str) -> None:
    status, answer = admin.put(f"vhosts/{name}")
    assert status == 400
    assert "'vhost' must be a string of 1 to 255 bytes" in answer["reason"]


@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
@pytest.mark.feature("S4-71")
def test_only_administrators_change_vhosts(broker: Broker, admin: ManagementApi, tag: str) -> None:
    anna = as_user(broker, "anna", tag, vhosts=("/",))
    assert anna.put("vhosts/orders")[0] == 403
    assert anna.delete("vhosts/%2F")[0] == 403
    assert anna.get("vhosts/%2F/permissions")[0] == 403
    assert names(admin.get("vhosts")) == ["/"]


@pytest.mark.feature("S4-71")
def test_users_see_the_vhosts_that_they_may_enter(broker: Broker, admin: ManagementApi) -> None:
    admin.put("vhosts/orders")
    admin.put("vhosts/other")
    anna = as_user(broker, "anna", "management", vhosts=("orders",))
    assert names(anna.get("vhosts")) == ["orders"]
    assert anna.get("vhosts/orders")[0] == 200
    assert anna.get("vhosts/other")[0] == 403
    assert names(as_user(broker, "mona", "monitoring").get("vhosts")) == ["/", "orders", "other"]


@pytest.mark.feature("S4-71")
def test_a_vhost_and_its_description_outlive_the_broker(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        admin = as_guest(broker)
        admin.put("vhosts/orders", {"description": "shop", "tags": ["a"]})
        admin.put("vhosts/gone")
        admin.delete("vhosts/gone")
    with Broker(settings) as broker:
        admin = as_guest(broker)
        assert names(admin.get("vhosts")) == ["/", "orders"]
        assert admin.get("vhosts/orders")[1]["metadata"] == {"description": "shop", "tags": ["a"]}


@pytest.mark.feature("S4-71")
def test_a_vhost_that_is_there_runs_on_this_node_only(broker: Broker, admin: ManagementApi) -> None:
    assert admin.post(f"vhosts/%2F/start/{broker.node.broker.node_name}") == (204, None)
    assert admin.post("vhosts/%2F/start/rabbit@elsewhere")[0] == 404


def test_a_single_broker_has_no_cells_to_place_a_vhost_in(admin: ManagementApi) -> None:
    status, problem = admin.put("vhosts/orders", {"cell": "c2"})
    assert (status, "this broker is a single cell; start it with --cells" in problem["reason"]) == (409, True)
    assert names(admin.get("vhosts")) == ["/"]
    assert admin.put("vhosts/orders", {"cell": ""}) == (201, None)
    assert admin.get("vhosts/orders")[1]["cell"] == ""


def test_a_single_broker_imports_a_vhost_without_its_cell(admin: ManagementApi) -> None:
    definitions = {"vhosts": [{"name": "orders", "cell": "c2"}]}
    report = admin.post("definitions", definitions, dry_run="true")[1]
    assert (report["problems"], report["ignored"]) == ([], ["cell 'c2' of vhost 'orders'"])
    assert admin.post("definitions", definitions) == (204, None)
    assert admin.get("vhosts/orders")[1]["cell"] == ""
