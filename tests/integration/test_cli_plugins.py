"""Plugins switched on and off from the command line and over HTTP: S2-28."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leveret import Broker, FrozenClock
from leveret.errors import PreconditionFailed
from leveret.wire.methods import ExchangeDeclare, ExchangeDeclareOk
from tests.support.command_line import Cli
from tests.support.http_api import QUIET, HttpApi
from tests.support.raw_client import RawClient

SWITCHABLE = {
    "consistent_hash_exchange": ("x-consistent-hash", {}),
    "delayed_message_exchange": ("x-delayed-message", {"x-delayed-type": "direct"}),
    "random_exchange": ("x-random", {}),
    "sharding": ("x-modulus-hash", {}),
}


pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.mark.feature("S2-28")
def test_plugins_are_listed_with_whether_each_can_be_switched(cli: Cli) -> None:
    rows = {row["name"]: row for row in cli.json("plugins", "list")}
    assert {name for name, row in rows.items() if row["switchable"]} == SWITCHABLE.keys()
    assert {"management", "prometheus", "queue_jobs"} < rows.keys()
    assert all(row["enabled"] for row in rows.values())
    assert ["sharding", "yes", "yes", "0"] in [row[:4] for row in cli.rows("plugins", "list")]


@pytest.mark.parametrize("name", SWITCHABLE)
@pytest.mark.feature("S2-28")
def test_a_disabled_plugin_takes_no_new_exchange_and_the_old_one_stays(name: str, cli: Cli, broker: Broker) -> None:
    kind, arguments = SWITCHABLE[name]
    vhost = broker.vhost()
    vhost.declare_exchange("old", kind, arguments=arguments)
    cli.done("plugins", "disable", f"rabbitmq_{name}")
    with pytest.raises(PreconditionFailed, match=f"unknown exchange type '{kind}'.*leveret plugins enable {name}"):
        vhost.declare_exchange("new", kind, arguments=arguments)
    vhost.declare_exchange("old", kind, arguments=arguments)  # a client that declares what it has
    with RawClient.open(broker.amqp_url) as client:
        client.send(ExchangeDeclare("new", kind, arguments=arguments))
        assert name in client.expect_channel_close(406).reply_text
    cli.done("plugins", "enable", name)
    with RawClient.open(broker.amqp_url) as client:
        client.call(ExchangeDeclare("new", kind, arguments=arguments), ExchangeDeclareOk)


@pytest.mark.feature("S2-28")
def test_sharding_policies_are_refused_while_sharding_is_off(cli: Cli) -> None:
    sharded = ("policies", "set", "shards", "^events$", '{"shards-per-node": 2}', "--apply-to", "exchanges")
    cli.done("exchanges", "create", "events", "--type", "x-modulus-hash")
    cli.done(*sharded)
    told = cli.run("plugins", "disable", "sharding")
    assert told.stdout == "plugin 'sharding' disabled\n"
    assert "exchange 'events' in vhost '/', policy 'shards' in vhost '/'" in told.stderr
    assert cli.done(*sharded) == "policy 'shards' updated\n"
    more = ('{"shards-per-node": 3}', "--apply-to", "exchanges")
    line = cli.refused("policies", "set", "shards", "^events$", *more)
    assert "shards-per-node is not a recognised policy setting, since the plugin 'sharding' is disabled" in line
    assert "sharding" in cli.refused("policies", "set", "others", "^others$", *more)
    cli.done("policies", "set", "shards", "^events$", '{"shards-per-node": 2, "alternate-exchange": "amq.fanout"}')
    assert cli.done("plugins", "enable", "rabbitmq_sharding") == "plugin 'sharding' enabled\n"
    cli.done("policies", "set", "shards", "^events$", *more)
    assert len(cli.json("queues", "list")) == 3


def test_what_cannot_be_switched_says_what_it_goes_with(cli: Cli) -> None:
    line = cli.refused("plugins", "disable", "rabbitmq_management")
    assert line.endswith("it is part of the broker, and goes with the setting http_port")
    assert cli.done("plugins", "enable", "rabbitmq_prometheus") == "plugin 'prometheus' enabled\n"
    assert "no plugin 'rabbitmq_shovel': known plugins are" in cli.refused("plugins", "enable", "rabbitmq_shovel")


def test_a_delayed_exchange_over_a_disabled_type_is_refused_too(cli: Cli, broker: Broker) -> None:
    cli.done("plugins", "disable", "random_exchange", "consistent_hash_exchange")
    with pytest.raises(PreconditionFailed, match="'random_exchange'"):
        broker.vhost().declare_exchange("e", "x-delayed-message", arguments={"x-delayed-type": "x-random"})
    enabled = {row["name"]: row["enabled"] for row in cli.json("overview")["exchange_types"]}
    assert (enabled["x-random"], enabled["x-consistent-hash"], enabled["x-modulus-hash"]) == (False, False, True)


def test_an_import_names_what_a_disabled_plugin_keeps_out_and_takes_nothing(cli: Cli, tmp_path: Path) -> None:
    cli.done("exchanges", "create", "events", "--type", "x-modulus-hash")
    cli.done("policies", "set", "shards", "^other$", '{"shards-per-node": 2}')
    cli.done("queues", "create", "q")
    file = tmp_path / "all.json"
    cli.done("definitions", "export", str(file))
    cli.done("exchanges", "delete", "events")
    cli.done("policies", "delete", "shards")
    cli.done("queues", "delete", "q", "--yes")
    cli.done("plugins", "disable", "sharding")
    told = cli.run("definitions", "import", str(file))
    assert told.exit_code == 1
    assert "events" in told.output
    assert "shards" in told.output
    assert cli.json("queues", "list") == []
    cli.done("plugins", "enable", "sharding")
    cli.done("definitions", "import", str(file))
    assert [row["name"] for row in cli.json("queues", "list")] == ["q"]


@pytest.mark.feature("S2-28")
def test_what_is_disabled_outlives_a_restart_and_so_does_what_used_it(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    with Broker(settings) as broker:
        cli = Cli(broker.http_url, tmp_path)
        cli.done("exchanges", "create", "events", "--type", "x-modulus-hash")
        cli.done("policies", "set", "shards", "^events$", '{"shards-per-node": 2}', "--apply-to", "exchanges")
        cli.done("plugins", "disable", "sharding", "random_exchange")
        cli.done("plugins", "enable", "random_exchange")
        cli.done("vhosts", "create", "further")
        cli.done("vhosts", "delete", "/", "--yes")  # it holds for the broker, whatever becomes of a virtual host
        cli.done("vhosts", "create", "/")
        cli.done("permissions", "set", "guest", "--configure", ".*", "--write", ".*", "--read", ".*")
        assert "sharding" in cli.refused("exchanges", "create", "events", "--type", "x-modulus-hash")
        cli.done("plugins", "enable", "sharding")
        cli.done("exchanges", "create", "events", "--type", "x-modulus-hash")
        cli.done("policies", "set", "shards", "^events$", '{"shards-per-node": 2}', "--apply-to", "exchanges")
        cli.done("plugins", "disable", "sharding")
    with Broker(settings) as broker:
        cli = Cli(broker.http_url, tmp_path)
        rows = {row["name"]: row for row in cli.json("plugins", "list")}
        assert [name for name, row in rows.items() if not row["enabled"]] == ["sharding"]
        assert rows["sharding"]["in_use"] == 2
        assert len(cli.json("queues", "list")) == 2
        assert "sharding" in cli.refused("exchanges", "create", "more", "--type", "x-modulus-hash")


def test_only_administrators_switch_and_see_plugins(cli: Cli, broker: Broker) -> None:
    cli.done("users", "create", "anna", "--tag", "monitoring", given="secret\n")
    anna = HttpApi(broker.http_url, "anna", "secret")
    answers = [
        anna.get("/api/plugins"),
        anna.get("/api/plugins/sharding"),
        anna.put("/api/plugins/sharding", {}),
        anna.delete("/api/plugins/sharding"),
    ]
    assert [status for status, _ in answers] == [403] * 4
    guest = HttpApi(broker.http_url)
    assert guest.delete("/api/plugins/nope")[0] == 404
    assert guest.delete("/api/plugins/management")[0] == 409
    status, row = guest.get("/api/plugins/rabbitmq_sharding")
    assert (status, row["name"], row["enabled"]) == (200, "sharding", True)
