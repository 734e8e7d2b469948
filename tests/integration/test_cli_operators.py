"""Commands for operators: whether a broker answers, its nodes, channels, and everything in one report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pika
import pytest

from leveret import Broker
from tests.support.command_line import Cli
from tests.support.http_api import QUIET
from tests.support.live_command import LiveCommand
from tests.support.proxies import free_port

pytestmark = pytest.mark.broker


def test_a_ping_needs_no_password(broker: Broker, tmp_path: Path) -> None:
    stranger = Cli(broker.http_url, tmp_path, "nobody", "wrong")
    assert stranger.done("ping").startswith(f"{broker.http_url} answered within ")
    assert stranger.done("wait", "--timeout", "5").startswith(f"{broker.http_url} is ready after ")
    nowhere = Cli("http://127.0.0.1:1", tmp_path)
    assert "cannot connect" in nowhere.refused("ping", code=3)
    assert "the broker is not ready after 0.3 s: cannot connect" in nowhere.refused("wait", "--timeout", "0.3", code=3)


def test_waiting_ends_when_the_broker_has_started(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with LiveCommand("wait", "--url", url, folder=tmp_path) as wait:
        assert wait.process.poll() is None
        with Broker(replace(QUIET, http_port=port)):
            wait.until(f"{url} is ready after ")
            assert wait.ended() == (0, "")


@pytest.mark.broker(fresh=True)
def test_a_broker_whose_store_has_failed_answers_and_is_not_ready(broker: Broker, tmp_path: Path) -> None:
    """The health check of packaging/compose.yaml is this command; Kubernetes asks /health/ready itself."""
    cli = Cli(broker.http_url, tmp_path)
    broker.call(broker.node.broker.lost)
    assert " answered within " in cli.done("ping")
    line = cli.refused("wait", "--timeout", "0.3", code=3)
    assert f"not ready after 0.3 s: {broker.http_url} is not ready: the broker starts or stops, or its store" in line


def test_nodes_and_channels_are_listed(cli: Cli, broker: Broker) -> None:
    (node,) = cli.rows("nodes", "list")
    assert node[0] == cli.json("nodes", "list")[0]["name"]
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7)
        channel.queue_declare("busy")
        channel.basic_consume("busy", print)
        (row,) = cli.json("channels", "list")
        (shown,) = cli.rows("channels", "list")
        assert shown[0] == row["name"]
        assert shown[1:3] == ["/", "guest"]
    assert cli.run("channels", "list").stderr == "No channels.\n"


def test_a_report_has_everything_but_secrets(cli: Cli) -> None:
    cli.done("queues", "create", "orders")
    cli.done("policies", "set", "short", "^orders", '{"max-length": 5}')
    report = cli.done("report")
    titles = [line for line in report.splitlines() if line.startswith("== ")]
    assert titles == [
        "== overview ==",
        "== problems ==",
        "== vhosts ==",
        "== policies ==",
        "== queues with the most messages ==",
        "== connections ==",
    ]
    for part in ("Leveret", "orders", '{"max-length": 5}', "No problems found", "none"):
        assert part in report
    cli.done("users", "create", "anna", given="secret\n")
    anna = Cli(cli.url, cli.folder, "anna", "secret")
    assert "not available: " in anna.done("report")
    assert "secret" not in report


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("publish keyed hello", "published 5 bytes to exchange '(AMQP default)' with key 'keyed'"),
        ("publish hello --routing-key keyed", "published 5 bytes to exchange '(AMQP default)' with key 'keyed'"),
        ("exchanges route amq.default keyed", "Routed to: keyed"),
        ("exchanges route amq.default --routing-key keyed", "Routed to: keyed"),
    ],
)
def test_the_routing_key_is_an_argument_or_an_option(cli: Cli, command: str, expected: str) -> None:
    cli.done("queues", "create", "keyed")
    assert expected in cli.done(*command.split())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("publish a b --routing-key c", "use only one of them"),
        ("publish", "the routing key is missing"),
        ("exchanges route amq.default a --routing-key b", "use only one of them"),
    ],
)
def test_a_routing_key_is_given_once(cli: Cli, command: str, expected: str) -> None:
    assert expected in cli.refused(*command.split(), code=2)
