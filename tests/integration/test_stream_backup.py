"""``leveret backup``, ``restore``, ``check`` and ``dump`` of a data directory with streams."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from leveret.wire.methods import BasicConsume, BasicDeliver, BasicQos, BasicQosOk, QueueBind, QueueBindOk
from tests.support.broker_process import BrokerProcess
from tests.support.data_commands import checked, done, leveret, stop
from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import Publishing, declare, fill
from tests.support.raw_client import RawClient
from tests.support.stream_reading import read_stream

ARGUMENTS = {"x_queue_type": "stream", "x_stream_max_segment_size_bytes": 64 << 10}


def bodies(number: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % each + bytes(200) for each in range(start, start + number)]


def make_streams(url: str, *names: str) -> None:
    with RawClient.open(url) as client:
        for name in names:
            declare(client, name, **ARGUMENTS)


def restored(backup: Path, folder: Path) -> BrokerProcess:
    """A broker on what was made of a backup."""
    folder.mkdir()
    done("restore", backup, folder / "data")
    return ForkedBroker(folder)


def test_a_backup_at_rest_has_the_streams(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        make_streams(serving.url(), "s", "t", "empty")
        fill(serving.url(), "s", bodies(1000))
        fill(serving.url(), "t", bodies(10))
        stop(serving)
    done("backup", tmp_path / "data", tmp_path / "backup")
    told = checked(tmp_path / "backup")
    assert {queue["name"]: queue["messages"] for queue in told["queues"]} == {"s": 1000, "t": 10, "empty": 0}
    with restored(tmp_path / "backup", tmp_path / "other") as serving:
        assert list(read_stream(serving.url(), "s").values()) == bodies(1000)
        fill(serving.url(), "s", bodies(10, 1000))
        assert list(read_stream(serving.url(), "s").values()) == bodies(1010)
        assert list(read_stream(serving.url(), "t").values()) == bodies(10)
    assert checked(tmp_path / "backup") == told, "a broker on the copy does not change the original"


def test_a_backup_of_a_running_broker_misses_nothing_that_is_confirmed(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        url = serving.url()
        make_streams(url, "s")
        with RawClient.open(url) as client:
            declare(client, "q")
            for queue in ("s", "q"):
                client.call(QueueBind(queue, "amq.fanout"), QueueBindOk)
        ends = threading.Event()
        sent: list[bytes] = []

        def load() -> None:
            with Publishing(url) as publishing:
                while not ends.is_set() and len(sent) < 6000:
                    new = bodies(50, len(sent))
                    publishing.publish("", new, exchange="amq.fanout")
                    publishing.hear_verdicts()
                    sent.extend(new)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for number in range(2):
                confirmed = list(sent)
                done("backup", tmp_path / "data", tmp_path / f"backup{number}")
                assert checked(tmp_path / f"backup{number}")["sound"]
                with restored(tmp_path / f"backup{number}", tmp_path / f"other{number}") as other:
                    found = list(read_stream(other.url(), "s").values())
                    assert len(found) >= len(confirmed)
                    assert found == bodies(len(found))
        finally:
            ends.set()
            thread.join(20)
        assert len(sent) > 500, "or nothing was tested"
        assert list(read_stream(url, "s").values()) == bodies(len(sent)), "the broker itself is none the wiser"


def test_check_counts_what_a_killed_broker_left(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        make_streams(serving.url(), "s")
        fill(serving.url(), "s", bodies(500))
        serving.process.kill()
        serving.exit_code()
    told = checked(tmp_path / "data")
    assert told["sound"]
    assert [(queue["name"], queue["messages"]) for queue in told["queues"]] == [("s", 500)]
    lines = [json.loads(line) for line in done("dump", tmp_path / "data", "--queue", "s", "--bodies").splitlines()]
    found = [line for line in lines if line["kind"] == "message"]
    assert [line["offset"] for line in found] == list(range(500))
    assert [line["body"].encode() for line in found] == bodies(500)
    some = done("dump", tmp_path / "data", "--queue", "s", "--limit", "7").splitlines()
    assert sum(json.loads(line)["kind"] == "message" for line in some) == 7


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "data" / "streams").rglob("*.seg"))


@pytest.mark.parametrize("where", ["first", "last"])
def test_check_finds_damage(tmp_path: Path, where: str) -> None:
    with ForkedBroker(tmp_path) as serving:
        make_streams(serving.url(), "s")
        sent = 0
        while len(segments(tmp_path)) < 3:  # the next segment is begun in the background
            assert sent < 100_000
            fill(serving.url(), "s", bodies(100, sent))
            sent += 100
        stop(serving)
    path = segments(tmp_path)[0 if where == "first" else -1]
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    told = checked(tmp_path / "data", code=1)
    assert [damage["path"] for damage in told["stream_damage"]] == [str(path.relative_to(tmp_path / "data"))]
    assert "damage: streams/" in leveret("check", tmp_path / "data").stdout
    refusal = leveret("restore", tmp_path / "data", tmp_path / "other")
    assert refusal.returncode == 1
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url(), timeout=10) as client:
        client.call(BasicQos(0, sent), BasicQosOk)
        client.send(BasicConsume("s", "r", nowait=True, arguments={"x-stream-offset": "first"}))
        for _ in range(sent - 100):
            client.expect_content(BasicDeliver)
        assert "stream is damaged" in serving.log()
