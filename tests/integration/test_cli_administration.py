"""The command line against a running broker: virtual hosts, users, policies, definitions, and how the broker is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pika
import pytest

from leveret import Broker, FrozenClock
from tests.support.broker_process import SRC
from tests.support.command_line import Cli
from tests.support.http_api import QUIET, HttpApi

pytestmark = pytest.mark.broker(fresh=True, clock=lambda: FrozenClock(time.time()))


# ---- vhosts, users, permissions


@pytest.mark.feature("S4-71")
def test_a_virtual_host_from_its_creation_to_its_end(cli: Cli) -> None:
    assert cli.done("vhosts", "create", "shop/1", "--description", "The shop", "--tag", "eu") == (
        "vhost 'shop/1' created\n"
    )
    assert cli.rows("vhosts", "list")[1][:3] == ["shop/1", "The shop", "eu"]
    cli.done("queues", "create", "orders", "--vhost", "shop/1")
    assert cli.json("queues", "list", "--vhost", "shop/1")[0]["vhost"] == "shop/1"
    assert cli.done("vhosts", "show", "shop/1").splitlines()[1].split() == ["description", "The", "shop"]
    cli.done("vhosts", "delete", "shop/1")
    assert "vhost 'shop/1' not found" in cli.refused("vhosts", "show", "shop/1")


@pytest.mark.feature("S4-72")
def test_a_user_logs_in_with_the_password_from_standard_input(cli: Cli, broker: Broker) -> None:
    cli.done("users", "create", "anna", "--tag", "management", "--tag", "monitoring", given="hunter2\nignored\n")
    assert HttpApi(broker.http_url, "anna", "hunter2").get("/api/whoami")[1]["tags"] == ["management", "monitoring"]
    assert "user 'anna' already exists: to change it, run 'leveret users password'" in cli.refused(
        "users", "create", "anna", code=2, given="other\n"
    )
    cli.done("users", "password", "anna", given="better\n")
    assert HttpApi(broker.http_url, "anna", "better").get("/api/whoami")[1]["tags"] == ["management", "monitoring"]
    cli.done("users", "tags", "anna", "--tag", "policymaker")
    assert HttpApi(broker.http_url, "anna", "better").get("/api/whoami")[1]["tags"] == ["policymaker"]
    assert "no password for user 'bert'" in cli.refused("users", "create", "bert", code=2)
    cli.done("users", "delete", "anna")
    assert [row[0] for row in cli.rows("users", "list")] == ["guest"]


@pytest.mark.feature("S4-72")
def test_a_user_without_a_password(cli: Cli, broker: Broker) -> None:
    """For single sign-on and client certificates."""
    guest = HttpApi(broker.http_url)
    cli.done("users", "create", "anna", "--no-password", "--tag", "management")
    assert guest.get("/api/users/anna")[1]["password_hash"] == ""
    assert HttpApi(broker.http_url, "anna", "").get("/api/whoami")[0] == 401
    assert cli.done("users", "password", "anna", given="secret\n") == "password of user 'anna' changed\n"
    assert HttpApi(broker.http_url, "anna", "secret").get("/api/whoami")[0] == 200
    assert cli.done("users", "password", "anna", "--no-password") == "password of user 'anna' removed\n"
    assert HttpApi(broker.http_url, "anna", "secret").get("/api/whoami")[0] == 401
    user = guest.get("/api/users/anna")[1]
    assert (user["password_hash"], user["tags"]) == ("", ["management"])


@pytest.mark.feature("S4-72")
def test_may_this_user_do_that_is_answered_as_the_broker_does(cli: Cli, broker: Broker) -> None:
    cli.done("users", "create", "anna", "--tag", "management", given="secret\n")
    cli.done("queues", "create", "orders.eu")
    anna = HttpApi(broker.http_url, "anna", "secret")
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    asked = ("permissions", "may", "anna", "read", "orders.eu")
    assert "it has no permissions there" in cli.refused(*asked)
    assert anna.post("/api/queues/%2F/orders.eu/get", get)[0] == 403
    cli.done("permissions", "set", "anna", "--read", "^orders")
    assert cli.done(*asked) == "yes: read '^orders' in vhost '/'\n"
    assert anna.post("/api/queues/%2F/orders.eu/get", get)[0] == 200
    line = cli.refused("permissions", "may", "anna", "write", "orders.eu")
    assert line.startswith("leveret: no: user 'anna' may not write 'orders.eu' in vhost '/': write '' does not match")
    cli.done("permissions", "clear", "anna")
    assert "no permissions" in cli.refused(*asked)
    assert "unknown kind of permission 'eat'" in cli.refused("permissions", "may", "anna", "eat", "q", code=2)
    assert "user 'none' not found" in cli.refused("permissions", "may", "none", "read", "q")


@pytest.mark.feature("S4-72")
def test_routing_keys_are_asked_about_too(cli: Cli) -> None:
    cli.done("permissions", "set-topic", "guest", "amq.topic", "--write", "^a", "--read", ".*")
    asked = ("permissions", "may", "guest", "write", "amq.topic", "--routing-key")
    assert cli.done(*asked, "a.b") == "yes: topic write '^a' at exchange 'amq.topic'\n"
    assert "topic write '^a' does not match key 'b'" in cli.refused(*asked, "b")
    assert cli.rows("permissions", "list", "--topic") == [["guest", "/", "amq.topic", "^a", ".*"]]
    cli.done("permissions", "clear-topic", "guest")
    assert cli.done(*asked, "b").startswith("yes")


# ---- policies, definitions


@pytest.mark.feature("S2-28")
def test_a_policy_is_set_and_explained_from_the_command_line(cli: Cli) -> None:
    cli.done("queues", "create", "orders", "--argument", "x-max-length=50")
    set_it = ("policies", "set", "short", "^orders", '{"max-length": 10, "message-ttl": 60000}', "--apply-to", "queues")
    assert cli.done(*set_it) == "policy 'short' created\n"
    assert cli.done(*set_it) == "policy 'short' updated\n"
    cli.done("policies", "set", "cap", "", '{"max-length": 5}', "--operator")
    explained = [row for row in cli.rows("policies", "explain", "orders") if row[0] == "max-length"]
    assert [(row[1], row[-1]) for row in explained] == [("5", "yes"), ("50", "no"), ("10", "no")]
    assert "'nope' is not a recognised policy setting" in cli.refused("policies", "set", "bad", "", '{"nope": 1}')
    assert "is not valid JSON" in cli.refused("policies", "set", "bad", "", "{nope}", code=2)
    assert cli.rows("policies", "list")[0][:5] == ["/", "short", "^orders", "queues", "0"]
    cli.done("policies", "delete", "short")
    cli.done("policies", "delete", "cap", "--operator")
    assert cli.json("policies", "list") == cli.json("policies", "list", "--operator") == []


@pytest.mark.feature("S4-77")
def test_definitions_travel_from_one_broker_to_another(cli: Cli, tmp_path: Path) -> None:
    cli.done("exchanges", "create", "news", "--type", "topic")
    cli.done("queues", "create", "sport", "--argument", "x-max-length=5")
    cli.done("bindings", "create", "news", "sport", "--routing-key", "sport.#")
    file = tmp_path / "all.json"
    file.touch(0o644)
    assert "1 queue" in cli.done("definitions", "export", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    exported = file.read_text()
    assert cli.done("definitions", "export") == cli.done("definitions", "export", "-") == exported
    assert exported == json.dumps(json.loads(exported), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    with Broker(QUIET) as other:
        there = Cli(other.http_url, tmp_path)
        report = there.done("definitions", "import", str(file), "--dry-run")
        assert "created: 1 exchange, 1 queue, 1 binding\n" in report
        assert "  queue 'sport' in vhost '/'\n" in report
        assert there.json("queues", "list") == []
        assert "1 binding imported" in there.done("definitions", "import", "-", given=file.read_bytes())
        assert there.rows("bindings", "list", "--exchange", "news")[0][4] == "sport.#"
        assert "created: nothing" in there.done("definitions", "import", str(file), "--dry-run")
        assert json.loads(there.done("definitions", "import", str(file), "--json")) == {}


def test_definitions_that_cannot_be_taken_are_named_one_by_one(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    queues = [{"name": "good", "vhost": "/", "durable": True}, {"name": "bad", "vhost": "none", "durable": True}]
    file.write_text(json.dumps({"queues": queues, "shovels": []}))
    for flags in ((), ("--dry-run",)):
        result = cli.run("definitions", "import", str(file), *flags)
        assert result.exit_code == 1
        told = result.stderr.splitlines()
        assert told[0].startswith("invalid: queue 'bad' in vhost 'none': vhost 'none' not found; create the vhost")
        assert told[-1].startswith("leveret: ")
    assert "ignored, not supported: shovels" in result.stdout
    assert cli.json("queues", "list") == []
    result = cli.run("definitions", "import", str(file), "--skip-unsupported")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        0,
        ["created: 1 queue", "  queue 'good' in vhost '/'"],
    )
    assert result.stderr.startswith("left out: queue 'bad' in vhost 'none': vhost 'none' not found")
    assert [row["name"] for row in cli.json("queues", "list")] == ["good"]
    file.write_text("[]")
    assert "contains no definitions" in cli.refused("definitions", "import", str(file), code=2)


# ---- how it is


def test_status_is_the_exit_code_for_a_health_check(cli: Cli, broker: Broker) -> None:
    assert "no alarm" in cli.done("status")
    broker.call(lambda: broker.node.broker.alarms.update({"memory": "low on memory"}))
    assert "memory alarm on node" in cli.refused("status")
    result = cli.run("doctor")
    assert result.exit_code == 1
    assert result.stdout.startswith("alarm: memory alarm on node ")


def test_the_doctor_sees_a_queue_that_grows_without_consumers(cli: Cli, broker: Broker) -> None:
    cli.done("queues", "create", "orders")
    cli.done("publish", "orders", "x")
    broker.clock.advance(5)
    for _ in range(10):
        cli.done("publish", "orders", "x")
    broker.clock.advance(5)
    result = cli.run("doctor", "--json")
    assert result.exit_code == 1
    [finding] = json.loads(result.stdout)
    assert finding["weight"] == "alarm"
    assert finding["what"] == "queue 'orders' in vhost '/' grows by 2.0/s and has no consumers: 11 ready"


def test_a_user_without_the_tag_monitoring_gets_what_it_may_see(cli: Cli) -> None:
    cli.done("users", "create", "anna", "--tag", "management", given="secret\n")
    cli.done("permissions", "set", "anna", "--read", ".*")
    anna = Cli(cli.url, cli.folder, username="anna", password="secret")
    result = anna.run("doctor")
    assert result.exit_code == 0
    assert "Nodes were not checked: user 'anna' needs the tag 'monitoring'." in result.stderr
    assert "product" in anna.done("overview")
    assert anna.run("status").exit_code == 1


def test_connections_are_listed_shown_and_closed(cli: Cli, broker: Broker) -> None:
    cli.done("queues", "create", "q")
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.basic_consume("q", lambda *delivery: None, consumer_tag="me")
        [row] = cli.json("connections", "list")
        assert cli.json("connections", "list", "--user", "guest") == cli.json("connections", "list", "--vhost", "/")
        shown = cli.done("connections", "show", row["name"])
        assert "AMQP 0-9-1" in shown
        assert "Pika" in shown
        assert cli.rows("consumers", "list")[0][1:4] == ["q", "me", "guest"]
        assert "me" in cli.done("queues", "show", "q")
        cli.done("connections", "close", row["name"], "--reason", "tidying größe")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="tidying"):
            connection.process_data_events(5)
    assert cli.json("connections", "list") == []


# ---- as a process


def test_as_a_process_it_reads_the_password_from_its_environment_and_writes_to_pipes(
    broker: Broker, tmp_path: Path
) -> None:
    environ = {
        **os.environ,
        "PYTHONPATH": str(SRC),
        "PYTHONIOENCODING": "ascii",
        "FORCE_COLOR": "1",
        "XDG_CONFIG_HOME": str(tmp_path),
        "LEVERET_PASSWORD": "guest",
    }

    def leveret(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "leveret.cli.main", *arguments, "--url", broker.http_url]
        return subprocess.run(command, env=environ, capture_output=True, input=b"", timeout=40)

    assert leveret("queues", "create", "größe").returncode == 0
    table = leveret("queues", "list")
    assert (table.returncode, table.stderr) == (0, b"")
    assert b"gr\\xf6\\xdfe" in table.stdout
    assert b"\x1b" not in table.stdout
    assert json.loads(leveret("queues", "list", "--json").stdout)[0]["name"] == "größe"
    moved = leveret("move", "größe", "none")
    assert (moved.returncode, moved.stdout) == (1, b"")
    environ["LEVERET_PASSWORD"] = "wrong"
    refused = leveret("queues", "list")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr.count(b"\n") == 1
