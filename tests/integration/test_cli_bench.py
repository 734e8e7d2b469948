"""``leveret bench``: loads of every kind are counted and checked, and nothing of them stays. S4-77."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leveret import Broker
from tests.support.command_line import Cli
from tests.support.live_command import LiveCommand

SOUND = {"lost": 0, "twice": 0, "changed": 0, "disordered": 0, "refused": 0, "is_sound": True}


pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--publishers", "2", "--consumers", "3", "--confirms", "--durable", "--size", "16"),
        ("--auto-ack", "--size", "300000"),
        ("--rate", "2000", "--publishers", "3", "--size", "1000"),
    ],
    ids=["plain", "confirms", "large", "rate"],
)
@pytest.mark.feature("S4-77")
def test_a_load_is_delivered_whole_and_leaves_nothing(options: tuple[str, ...], cli: Cli) -> None:
    told = cli.json("bench", "--seconds", "0.5", *options)
    assert told["published"] == told["consumed"] > 0
    assert SOUND.items() <= told.items()
    assert told["confirmed"] == (told["published"] if "--confirms" in options else 0)
    assert 0 < told["p50"] <= told["p99"] < 5
    if "--rate" in options:
        assert told["publish_rate"] < 2_100
    assert cli.json("queues", "list") == []


def test_without_consumers_the_queue_has_what_was_published(cli: Cli) -> None:
    shown = cli.done("bench", "--seconds", "0.2", "--consumers", "0", "--confirms")
    assert "publish rate" in shown
    assert shown.endswith("all messages arrived once, in order and unchanged\n")
    assert cli.json("queues", "list") == []


def test_a_queue_that_is_named_stays_if_it_was_there(cli: Cli, broker: Broker) -> None:
    broker.vhost().declare_queue("mine")
    cli.done("bench", "--seconds", "0.2", "--queue", "mine")
    cli.done("bench", "--seconds", "0.2", "--queue", "mine", "--consumers", "0")
    assert broker.vhost().message_count("mine") == 0
    cli.done("bench", "--seconds", "0.2", "--queue", "new")
    assert [row["name"] for row in cli.json("queues", "list")] == ["mine"]
    broker.vhost().publish("", "mine", b"somebody's")
    assert "has 1 message and 0 consumers" in cli.refused("bench", "--queue", "mine", code=2)
    broker.vhost().delete_queue("mine")


def test_messages_that_do_not_arrive_are_counted_and_end_with_exit_code_1(
    cli: Cli, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.cli.bench_load.DRAIN_SECONDS", 0.3)
    vhost = broker.vhost()
    vhost.declare_queue("leaky", arguments={"x-max-length": 10})
    result = cli.run("bench", "--seconds", "0.3", "--queue", "leaky", "--json", "--consumers", "0")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["lost"] == told["published"] - 10
    assert f"{told['lost']} lost" in result.stderr
    vhost.delete_queue("leaky")
    vhost.declare_queue("short", arguments={"x-max-length": 10, "x-overflow": "reject-publish"})
    result = cli.run("bench", "--seconds", "0.3", "--queue", "short", "--json", "--consumers", "0", "--confirms")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["refused"]) == (1, told["published"] - 10)
    vhost.delete_queue("short")


def test_ctrl_c_ends_the_load_early_and_still_checks_it(cli: Cli, tmp_path: Path) -> None:
    load = ("bench", "--seconds", "600", "--url", cli.url)
    with LiveCommand(*load, folder=tmp_path, at_terminal=True, width=120) as bench:
        bench.until("published")
        bench.interrupt()
        bench.until("all messages arrived once, in order and unchanged")
        assert bench.ended()[0] == 0
    assert cli.json("queues", "list") == []


def test_a_queue_that_is_deleted_under_the_load_is_one_line(cli: Cli, broker: Broker, tmp_path: Path) -> None:
    with LiveCommand("bench", "--seconds", "600", "--queue", "q", "--url", cli.url, folder=tmp_path) as bench:
        while not any(row.get("messages_ready") for row in cli.json("queues", "list")):
            assert bench.process.poll() is None
        broker.vhost().delete_queue("q")
        code, told = bench.ended()
    assert code == 1
    assert told.startswith("leveret: the queue was deleted")
    assert told.count("\n") == 1
