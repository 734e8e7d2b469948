"""The doctor at a broker that is not well: what it finds, and the command that it names. S4-77."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
import trustme

from leveret import Broker, FrozenClock
from leveret.config import Settings
from leveret.setting_kinds import DiskFreeLimit
from tests.support.command_line import Cli
from tests.support.http_api import QUIET
from tests.support.raw_client import eventually

DAY = 86_400.0
Row = dict[str, Any]


def found(cli: Cli, code: int = 0) -> list[Row]:
    result = cli.run("doctor", "--json")
    assert result.exit_code == code, result.output
    rows: list[Row] = json.loads(result.stdout)
    return rows


@pytest.mark.feature("S4-77")
def test_a_broker_that_is_well_and_one_that_is_not_there(tmp_path: Path) -> None:
    with Broker(QUIET) as broker:
        cli = Cli(broker.http_url, tmp_path)
        assert cli.done("doctor").startswith("No problems found: no alarms, no growing queues")
    line = cli.refused("doctor", code=3)
    assert "start a broker with 'leveret serve'" in line


def test_a_store_that_failed_is_an_alarm_and_so_it_is_to_status(tmp_path: Path) -> None:
    with Broker(QUIET) as broker:
        cli = Cli(broker.http_url, tmp_path)
        broker.call(lambda: _lose_store(broker))
        [finding] = found(cli, 1)
        assert finding["weight"] == "alarm"
        assert finding["what"].startswith("the message store has failed: Some virtual hosts are down")
        assert "log" in finding["remedy"]
        result = cli.run("status")
        assert result.exit_code == 1
        assert "alarms: store" in result.stdout
        assert "store alarm on node" in result.stderr
        assert "ALARM: store" in cli.done("top", "--once")


def test_a_full_disk_is_an_alarm_with_the_largest_queues_to_look_at(tmp_path: Path) -> None:
    """The mark is as large as the disk."""
    settings = Settings(
        **{**_given(QUIET), "disk_free_limit": DiskFreeLimit(100.0, 1 << 60), "data_dir": tmp_path / "data"}
    )
    with Broker(settings) as broker:
        eventually(lambda: "disk" in broker.node.broker.alarms)
        cli = Cli(broker.http_url, tmp_path)
        [finding] = found(cli, 1)
        assert finding["weight"] == "alarm"
        assert finding["what"].startswith("disk alarm on node")
        assert finding["remedy"] == "leveret queues list --sort message_bytes --reverse"
        assert "disk alarm on node" in cli.refused("status")
        assert cli.run(*finding["remedy"].split()[1:]).exit_code == 0


def test_a_clock_that_is_off_and_a_certificate_that_ends_are_told(tmp_path: Path) -> None:
    """One clock for both: it stands ten days before the end of the certificate."""
    ends = datetime.now(UTC).timestamp() + 300 * DAY
    settings = Settings(**{**_given(QUIET), **_papers(tmp_path, ends)})
    with Broker(settings, clock=FrozenClock(ends - 40 * DAY)) as broker:
        cli = Cli(broker.http_url, tmp_path)
        [clock] = found(cli)
        assert clock["what"].startswith("the broker's clock is 259 d 23 h ahead of that of this machine")
        assert "timedatectl" in clock["remedy"]
        broker.clock.advance(30 * DAY)
        certificate = next(row for row in found(cli) if "certificate" in row["what"])
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ends))
    assert certificate["what"] == f"a certificate expires at {shown}"
    assert "tls_cert" in certificate["remedy"]


def test_who_may_not_see_the_node_is_not_told_that_it_is_well(tmp_path: Path) -> None:
    with Broker(QUIET) as broker:
        cli = Cli(broker.http_url, tmp_path)
        cli.done("users", "create", "anna", "--tag", "management", given="secret\n")
        result = Cli(cli.url, tmp_path, username="anna", password="secret").run("doctor")
    assert result.exit_code == 0
    assert "no alarm" not in result.stdout
    assert "needs the tag 'monitoring'" in result.stderr


def test_a_worker_in_a_long_task_is_busy_and_its_channel_limits_it(tmp_path: Path) -> None:
    """As Celery does it: a prefetch for the channel. Twenty seconds are nothing to report."""
    with Broker(QUIET, clock=FrozenClock(time.time())) as broker:
        cli = Cli(broker.http_url, tmp_path)
        with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("tasks")
            channel.basic_qos(prefetch_count=2, global_qos=True)
            channel.basic_consume("tasks", lambda *_: None)
            for _ in range(5):
                channel.basic_publish("", "tasks", b"a long one")
            eventually(
                lambda: connection.process_data_events(0) or cli.json("consumers", "list")[0]["at_prefetch_limit"]
            )
            (row,) = cli.rows("consumers", "list")
            assert row[-4:] == ["0", "2", "yes", "yes"]  # prefetch, channel prefetch, at limit, active
            broker.clock.advance(20)
            assert found(cli) == []
            broker.clock.advance(70)
            (busy,) = [row for row in found(cli) if "clock" not in row["what"]]
    assert (
        "2 messages of queue 'tasks' in vhost '/' unacknowledged for 1 min, 3 ready: its consumers are busy"
        in busy["what"]
    )
    assert (
        busy["remedy"] == "start more consumers; leveret queues show tasks lists the present ones with their prefetch"
    )


def _lose_store(broker: Broker) -> None:
    broker.node.broker.is_lost = True
    broker.node.broker.set_alarm("store", "store read-only: EIO")


def _given(settings: Settings) -> Row:
    return {name: getattr(settings, name) for name in ("amqp_port", "http_port", "stomp_port", "shutdown_timeout")}


def _papers(folder: Path, ends: float) -> Row:
    paper = trustme.CA().issue_cert("localhost", not_after=datetime.fromtimestamp(ends, UTC))
    paper.private_key_pem.write_to_path(folder / "key.pem")
    paper.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return {"amqps_port": 0, "tls_cert": folder / "cert.pem", "tls_key": folder / "key.pem"}
