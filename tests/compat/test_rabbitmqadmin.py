"""RabbitMQ's own command line for the HTTP API, as Debian ships it: every subcommand it has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

import leveret
from leveret.broker.vhost import Vhost
from tests.compat.waiting import until
from tests.support.http_api import QUIET
from tests.support.programs import require_script

LISTS = [
    "connections",
    "channels",
    "consumers",
    "exchanges",
    "queues",
    "bindings",
    "users",
    "vhosts",
    "permissions",
    "nodes",
]
LISTS += ["parameters", "policies", "operator_policies", "vhost_limits"]


class Admin:
    """Runs rabbitmqadmin as guest against one broker."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._where = ["-H", str(where.hostname), "-P", str(where.port)]

    def run(self, *arguments: str, body: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, require_script("rabbitmqadmin"), *self._where, *arguments]
        return subprocess.run(command, input=body, capture_output=True, text=True, timeout=120)

    def __call__(self, *arguments: str, body: str = "") -> str:
        """What it says; it must end well."""
        done = self.run(*arguments, body=body)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("-f", "raw_json", *arguments))
        return found

    def refusal(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 1
        return (done.stdout + done.stderr).strip()


pytestmark = pytest.mark.broker


@pytest.fixture
def admin(broker: leveret.Broker) -> Admin:
    return Admin(broker.http_url)


def vhost_of(broker: leveret.Broker, name: str = "/") -> Vhost:
    return broker.node.broker.vhost(name)


@pytest.mark.parametrize("form", ["table", "tsv"])
@pytest.mark.feature("S4-77")
def test_each_list_can_be_printed(broker: leveret.Broker, admin: Admin, form: str) -> None:
    """Also with a connection, a channel and a consumer to show."""
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare("seen", exclusive=True)
        channel.basic_consume("seen", lambda *_: None, consumer_tag="reader")
        shown = {name: admin("-f", form, "list", name) for name in LISTS}
        assert "127.0.0.1:" in shown["connections"]
        assert "(1)" in shown["channels"]
        assert "reader" in shown["consumers"]
        assert "amq.topic" in shown["exchanges"]
        assert "seen" in shown["queues"]
        assert "seen" in shown["bindings"]
        assert "administrator" in shown["users"]
        assert "/" in shown["vhosts"]
        assert ".*" in shown["permissions"]
        assert broker.node.settings.node_name in shown["nodes"]
        overview = admin("-f", form, "show", "overview")
    assert "3." in overview


@pytest.mark.parametrize("form", ["long", "kvp", "bash", "pretty_json", "raw_json"])
@pytest.mark.feature("S4-77")
def test_each_way_of_printing(broker: leveret.Broker, admin: Admin, form: str) -> None:
    """In full depth: every name and value that a row has."""
    broker.call(lambda: vhost_of(broker).declare_queue("forms", durable=True))
    assert "forms" in admin("-f", form, "-d", "3", "list", "queues")
    assert broker.node.settings.node_name in admin("-f", form, "-d", "3", "list", "nodes")


@pytest.mark.feature("S4-77")
def test_columns_and_sorting(broker: leveret.Broker, admin: Admin) -> None:
    for name in ("sort-b", "sort-a", "sort-c"):
        broker.call(lambda name=name: vhost_of(broker).declare_queue(name, durable=True))  # type: ignore[misc]
    found = admin("-f", "tsv", "-q", "-S", "name", "list", "queues", "name", "durable")
    assert [line for line in found.split("\n") if line.startswith("sort-")] == [
        f"sort-{letter}\tTrue" for letter in "abc"
    ]
    newest_first = admin("-f", "tsv", "-q", "-S", "name", "-R", "list", "queues", "name").split("\n")
    assert newest_first.index("sort-c") < newest_first.index("sort-a")


@pytest.mark.feature("S4-77")
def test_topology_declared_and_deleted(broker: leveret.Broker, admin: Admin) -> None:
    assert admin("declare", "exchange", "name=x", "type=topic") == "exchange declared"
    assert admin("declare", "exchange", "name=y", "type=fanout", "durable=false", "internal=true")
    assert admin("declare", "queue", "name=q", "queue_type=quorum", 'arguments={"x-max-length": 9}')
    assert admin("declare", "queue", "name=brief", "durable=false", "auto_delete=true") == "queue declared"
    assert admin("declare", "binding", "source=x", "destination=q", "routing_key=a.#") == "binding declared"
    assert admin("declare", "binding", "source=x", "destination=y", "destination_type=exchange", "routing_key=k")
    queue, exchanges = vhost_of(broker).queues["q"], vhost_of(broker).exchanges
    assert (queue.options.kind, queue.arguments["x-max-length"], queue.durable) == ("quorum", 9, True)
    assert vhost_of(broker).queues["brief"].auto_delete
    assert (exchanges["x"].kind, exchanges["y"].internal, exchanges["y"].durable) == ("topic", True, False)
    bound = admin.rows("list", "bindings", "source", "destination", "routing_key", "properties_key")
    assert {"source": "x", "destination": "q", "routing_key": "a.#", "properties_key": "a.%23"} in bound
    assert "binding deleted" in admin(
        "delete", "binding", "source=x", "destination_type=queue", "destination=q", "properties_key=a.%23"
    )
    assert admin("delete", "binding", "source=x", "destination_type=exchange", "destination=y", "properties_key=k")
    assert not broker.call(lambda: vhost_of(broker).bindings.of_source("x"))
    for kind, name in (("exchange", "x"), ("exchange", "y"), ("queue", "q"), ("queue", "brief")):
        assert admin("delete", kind, f"name={name}") == f"{kind} deleted"
    assert not {"q", "brief"} & vhost_of(broker).queues.keys()
    assert not {"x", "y"} & vhost_of(broker).exchanges.keys()


@pytest.mark.feature("S4-71", "S4-72", "S4-77")
def test_users_vhosts_permissions_and_limits(broker: leveret.Broker, admin: Admin) -> None:
    core = broker.node.broker
    assert admin("declare", "vhost", "name=shop") == "vhost declared"
    assert admin("declare", "user", "name=anna", "password=secret", "tags=monitoring,management") == "user declared"
    rule = ("configure=^a", "write=.*", "read=^b")
    assert admin("declare", "permission", "vhost=shop", "user=anna", *rule) == "permission declared"
    assert admin("declare", "vhost_limit", "vhost=shop", "name=max-queues", "value=1") == "vhost_limit declared"
    anna = core.users.get("anna")
    assert anna is not None
    assert set(anna.tags) == {"monitoring", "management"}
    assert vhost_of(broker, "shop").max_queues == 1
    assert admin.rows("list", "vhost_limits") == [{"vhost": "shop", "value": {"max-queues": 1}}]
    as_anna = ("-u", "anna", "-p", "secret", "-V", "shop")
    assert admin(*as_anna, "declare", "queue", "name=a-queue")
    refusal = admin.refusal(*as_anna, "declare", "queue", "name=other")
    assert "403 Forbidden" in refusal
    assert "access to queue" in refusal
    assert "queue limit" in admin.refusal(*as_anna, "declare", "queue", "name=a-second")
    assert "Access refused" in admin.refusal("-u", "anna", "-p", "wrong", "list", "queues")
    assert admin("delete", "vhost_limit", "vhost=shop", "name=max-queues") == "vhost_limit deleted"
    assert vhost_of(broker, "shop").max_queues is None
    assert admin("delete", "permission", "vhost=shop", "user=anna") == "permission deleted"
    assert admin("delete", "user", "name=anna") == "user deleted"
    assert admin("delete", "vhost", "name=shop") == "vhost deleted"
    assert "anna" not in core.users
    assert "shop" not in core.vhosts


@pytest.mark.feature("S4-77")
def test_policies_and_parameters(broker: leveret.Broker, admin: Admin) -> None:
    definition = 'definition={"max-length": 5}'
    assert admin("declare", "policy", "name=p", "pattern=^long", definition, "priority=3", "apply-to=queues")
    assert admin("declare", "operator_policy", "name=op", "pattern=^long", 'definition={"max-length": 4}')
    assert admin("declare", "parameter", "component=vhost-limits", "name=limits", 'value={"max-connections": 50}')
    broker.call(lambda: vhost_of(broker).declare_queue("long-1", durable=True))
    assert admin.rows("list", "policies", "name", "priority", "pattern") == [
        {"name": "p", "priority": 3, "pattern": "^long"}
    ]
    assert [row["name"] for row in admin.rows("list", "operator_policies")] == ["op"]
    assert vhost_of(broker).queues["long-1"].options.max_length == 4
    assert vhost_of(broker).max_connections == 50
    assert any(row["component"] == "vhost-limits" for row in admin.rows("list", "parameters"))
    assert admin("delete", "parameter", "component=vhost-limits", "name=limits") == "parameter deleted"
    assert admin("delete", "policy", "name=p") == "policy deleted"
    assert admin("delete", "operator_policy", "name=op") == "operator_policy deleted"
    assert vhost_of(broker).queues["long-1"].options.max_length is None
    assert vhost_of(broker).max_connections is None


@pytest.mark.feature("S4-77")
def test_publish_get_and_purge(broker: leveret.Broker, admin: Admin, tmp_path: Path) -> None:
    broker.call(lambda: vhost_of(broker).declare_queue("post", durable=True))
    properties = 'properties={"delivery_mode": 2, "headers": {"n": 1}}'
    to_post = ("publish", "exchange=amq.default", "routing_key=post")
    assert admin(*to_post, "payload=hello", properties) == "Message published"
    assert admin(*to_post, body="from stdin") == "Message published"
    assert admin(*to_post, "payload=AAH/", "payload_encoding=base64") == "Message published"
    assert (
        admin("publish", "exchange=amq.topic", "routing_key=nowhere", "payload=1") == "Message published but NOT routed"
    )
    seen = admin.rows("get", "queue=post", "count=9")
    assert [row["payload"] for row in seen] == ["hello", "from stdin", "AAH/"]
    assert seen[0]["properties"] == {"delivery_mode": 2, "headers": {"n": 1}}
    assert seen[2]["payload_encoding"] == "base64"
    file = tmp_path / "payload"
    assert admin("get", "queue=post", "ackmode=ack_requeue_false", f"payload_file={file}")
    assert file.read_text() == "hello"
    assert vhost_of(broker).queues["post"].ready == 2
    assert admin("purge", "queue", "name=post") == "queue purged"
    assert vhost_of(broker).queues["post"].ready == 0
    assert admin("get", "queue=post") == "No items"


@pytest.mark.feature("S4-77")
def test_definitions_exported_and_imported(broker: leveret.Broker, admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    broker.call(lambda: vhost_of(broker).declare_queue("kept", durable=True, arguments={"x-max-length": 3}))
    broker.call(lambda: vhost_of(broker).declare_exchange("kept-too", "topic", durable=True))
    assert "Exported definitions" in admin("export", str(file))
    with leveret.Broker(QUIET) as another:
        elsewhere = Admin(another.http_url)
        assert "Uploaded definitions" in elsewhere("import", str(file))
        assert vhost_of(another).queues["kept"].arguments == {"x-max-length": 3}
        assert vhost_of(another).exchanges["kept-too"].kind == "topic"
        assert elsewhere("-V", "/", "export", str(file))  # of one virtual host
        assert "users" not in json.loads(file.read_text())


@pytest.mark.feature("S4-77")
def test_a_connection_is_closed(broker: leveret.Broker, admin: Admin) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    name = admin.rows("list", "connections", "name")[0]["name"]
    assert admin("close", "connection", f"name={name}") == "connection closed"
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(time_limit=10)
    until(lambda: not admin.rows("list", "connections"))


@pytest.mark.feature("S4-77")
def test_what_cannot_be_done_is_said(admin: Admin) -> None:
    assert "Not found: /api/queues/%2F/none" in admin.refusal("delete", "queue", "name=none")
    assert "unknown exchange type" in admin.refusal("declare", "exchange", "name=z", "type=odd")
    assert "max-length" in admin.refusal("declare", "policy", "name=z", "pattern=.*", 'definition={"max-length": "x"}')
    assert "Not found" in admin.refusal("-V", "nowhere", "list", "queues")
