"""``leveret top``: one screen for a pipe, a live one with keys for a terminal. S4-77."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret import Broker, FrozenClock
from leveret.wire.methods import BasicConsume, BasicConsumeOk
from tests.support.command_line import Cli
from tests.support.http_api import QUIET
from tests.support.live_command import LiveCommand
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


def fill(broker: Broker, **lengths: int) -> None:
    for name, length in lengths.items():
        broker.vhost().declare_queue(name)
        for _ in range(length):
            broker.vhost().publish("", name, b"x")


def queues_in(shown: str) -> list[list[str]]:
    lines = shown.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("queue "))
    return [line.split() for line in lines[first + 1 : lines.index("", first)]]


@pytest.mark.feature("S4-77")
def test_one_screen_has_rates_queues_and_connections(cli: Cli, broker: Broker) -> None:
    assert "no queues; to create one: leveret queues create NAME" in cli.done("top", "--once")
    fill(broker, few=1, many=7, none=0)
    with RawClient.open(broker.amqp_url, properties={"connection_name": "till"}) as client:
        client.call(BasicConsume("few", no_ack=False), BasicConsumeOk)
        client.expect_content()
        broker.clock.advance(5)
        shown = cli.done("top", "--once")
    assert "7 ready, 1 unacked, 3 queues, 1 connection, 1 channel, 1 consumer" in shown
    assert "no alarm" in shown
    assert [(row[0], row[1], row[2]) for row in queues_in(shown)] == [
        ("many", "7", "0"),
        ("few", "0", "1"),
        ("none", "0", "0"),
    ]
    assert "till" in shown.splitlines()[-1]


def test_rates_are_those_of_the_last_seconds(cli: Cli, broker: Broker) -> None:
    fill(broker, slow=0, quick=0)
    cli.done("top")  # counting begins
    broker.clock.advance(5)
    fill(broker, slow=10, quick=50)
    broker.clock.advance(5)
    shown = cli.done("top", "--once", "--sort", "in")
    assert "published 12.0/s" in shown
    assert [(row[0], row[3]) for row in queues_in(shown)] == [("quick", "10.0/s"), ("slow", "2.0/s")]
    assert [row[0] for row in queues_in(cli.done("top", "--sort", "name"))] == ["quick", "slow"]


def test_of_many_queues_the_fullest_are_shown(cli: Cli, broker: Broker) -> None:
    fill(broker, **{f"q{number}": number for number in range(30)})
    shown = cli.done("top")
    assert "queues by messages, 20 of 30" in shown
    assert [row[0] for row in queues_in(shown)] == [f"q{number}" for number in range(29, 9, -1)]


def test_a_name_cannot_steer_the_terminal(cli: Cli, broker: Broker) -> None:
    fill(broker, **{"\x1b[2Jevil": 1})
    shown = cli.done("top")
    assert "\x1b" not in shown
    assert "\\x1b[2Jevil" in shown


def test_what_cannot_be_shown_is_one_line(cli: Cli) -> None:
    assert "choose one of messages, publish, deliver, name" in cli.refused("top", "--sort", "size", code=2)
    result = cli.run("top", url="http://127.0.0.1:1")
    assert result.exit_code == 3
    cli.done("users", "create", "anna", "--tag", "management", given="secret\n")
    anna = Cli(cli.url, cli.folder, "anna", "secret")
    assert "no queue" in anna.done("top")  # without the node, which is for those with the tag monitoring


def test_a_terminal_is_live_sorts_by_s_and_leaves_by_q(cli: Cli, broker: Broker, tmp_path: Path) -> None:
    fill(broker, first=3, second=5)
    with LiveCommand("top", "--interval", "0.2", "--url", cli.url, folder=tmp_path, at_terminal=True) as top:
        top.until("queues by messages")
        fill(broker, third=9)
        top.until("third")
        top.press("s")
        top.until("queues by publish")
        top.press("q")
        assert top.ended()[0] == 0
    with LiveCommand("top", "--interval", "20", "--url", cli.url, folder=tmp_path, at_terminal=True) as top:
        top.until("q quit")
        top.interrupt()
        assert top.ended()[0] == 0


def test_a_broker_that_goes_away_is_said_on_the_screen(tmp_path: Path) -> None:
    with Broker(QUIET) as broker:
        url = broker.http_url
        top = LiveCommand("top", "--interval", "0.1", "--url", url, folder=tmp_path, at_terminal=True)
        with top:
            top.until("q quit")
            broker.stop()
            top.until("cannot connect")
            top.press("q")
            assert top.ended()[0] == 0
