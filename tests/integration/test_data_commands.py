"""``leveret check`` and ``leveret dump`` as processes, beside brokers that are processes too."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika

from tests.support.data_commands import (
    SECONDS,
    checked,
    done,
    drained,
    fill,
    leveret,
    refused,
    started,
    stop,
    stopped_broker,
    talking,
)
from tests.support.forked_broker import ForkedBroker
from tests.support.synchronous_store import picture, segments_of


def dumped(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done("dump", *arguments).splitlines()]


# ---- check


def test_check_finds_stopped_broker_sound_and_changes_nothing(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path, b"one", b"two")
    before = picture(path)
    text = done("check", path)
    assert f"{path} is sound." in text
    assert re.search(r"^  /      q +2 +\d+$", text, re.MULTILINE), text
    found = checked(path)
    assert (found["sound"], found["stopped_in_good_order"], found["messages"]) == (True, True, 2)
    assert found["definitions"] == {
        "vhosts": 1,
        "users": 1,
        "permissions": 1,
        "topic_permissions": 0,
        "exchanges": 0,
        "queues": 1,
        "bindings": 0,
        "parameters": 1,  # the id of the cluster
    }
    assert picture(path) == before


def test_check_tells_what_is_left_of_queues_that_were_deleted(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        for queue in ("q", "gone"):
            fill(serving, b"m", queue=queue)
        with talking(serving) as channel:
            channel.queue_delete("gone")
        serving.process.kill()
    assert [queue["name"] for queue in checked(tmp_path / "data")["queues"]] == ["q"]
    assert checked(tmp_path / "data")["deleted_queues"][0]["messages"] == 1
    assert "Of deleted queues: 1 message," in done("check", tmp_path / "data")


def test_check_refuses_a_directory_in_use_and_the_broker_goes_on(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        serving.url()
        for command in ("check", "dump"):
            told = refused(command, tmp_path / "data")
            assert f"in use by a broker (process {serving.process.pid}): stop the broker first" in told
        fill(serving, b"m")
        stop(serving)
    assert checked(tmp_path / "data")["messages"] == 1


def test_check_takes_a_torn_tail_for_what_a_crash_leaves(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path, b"one")
    last = segments_of(path)[-1]
    last.write_bytes(last.read_bytes() + b"half a rec")
    found = checked(path)
    (torn,) = found["damage"]
    assert (torn["kind"], torn["size"], torn["segment"]) == ("torn tail", 10, int(last.stem))
    assert found["messages"] == 1
    assert "torn tail" in done("check", path)


def test_check_tells_damage_by_its_exit_code_and_the_broker_loses_just_that(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path, b"first", b"second", b"third")
    (file,) = [file for file in segments_of(path) if b"second" in file.read_bytes()]
    data = file.read_bytes()
    file.write_bytes(data.replace(b"second", b"secret"))
    found = checked(path, 1)
    (damage,) = found["damage"]
    assert (damage["kind"], damage["segment"]) == ("damage", int(file.stem))
    assert damage["offset"] < data.index(b"second") < damage["offset"] + damage["size"]
    assert found["messages"] == 2
    result = leveret("check", path)
    assert result.returncode == 1
    assert "is damaged." in result.stdout
    assert "restore a backup" in result.stdout
    dump = leveret("dump", path, "--bodies")
    assert dump.returncode == 1
    assert [json.loads(line).get("body") for line in dump.stdout.splitlines()[-2:]] == ["first", "third"]
    with ForkedBroker(tmp_path) as serving:
        assert [body for body, _ in drained(serving)] == [b"first", b"third"]


def test_what_is_no_data_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "name the data directory" in refused("check", tmp_path / "nowhere")
    assert "not a Leveret data directory" in refused("dump", tmp_path)
    assert "not a Leveret data directory" in refused("backup", tmp_path, tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


# ---- dump


def test_dump_tells_what_was_published(tmp_path: Path) -> None:
    headers = {
        "text": "tea ☕",
        "number": 7,
        "far": 1 << 40,
        "money": Decimal("1.25"),
        "flag": True,
        "nothing": None,
        "raw": b"\x00\xff",
        "nested": {"list": [1, "two", {"three": 3}]},
        "when": datetime(2026, 1, 31, 12, tzinfo=UTC),
    }
    properties = pika.BasicProperties(
        content_type="text/plain",
        headers=headers,
        delivery_mode=2,
        priority=1,
        correlation_id="c-1",
        reply_to="replies",
        expiration="3600000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="order",
        user_id="guest",
        app_id="shop",
    )
    begun = datetime.now(UTC)
    with ForkedBroker(tmp_path) as serving:
        with talking(serving) as channel:
            channel.exchange_declare("events", "topic", durable=True)
            channel.queue_declare("mail", durable=True, arguments={"x-max-priority": 2})
            channel.queue_bind("mail", "events", "order.#")
            channel.basic_publish("events", "order.paid", "grün".encode(), properties)
            channel.basic_publish("events", "order.sent", b"\xff\x00", pika.BasicProperties(delivery_mode=2))
            channel.basic_publish("events", "order.urgent", b"", pika.BasicProperties(delivery_mode=2, priority=2))
        stop(serving)
    path = tmp_path / "data"
    lines = dumped(path, "--bodies")
    assert [line["kind"] for line in lines] == [
        *("vhost", "user", "permission", "exchange", "queue", "binding", "parameter"),
        *["message"] * 3,
    ]
    user, exchange, queue, binding = lines[1], lines[3], lines[4], lines[5]
    assert user["name"] == "guest"
    assert "$argon2" not in json.dumps(lines)
    assert (exchange["name"], exchange["type"]) == ("events", "topic")
    assert queue["arguments"] == {"x-max-priority": 2}
    assert (binding["source"], binding["destination"], binding["key"]) == ("events", "mail", "order.#")
    urgent, paid, sent = lines[7:]
    assert (urgent["lane"], urgent["routing_key"], urgent["body"], urgent["size"]) == (2, "order.urgent", "", 0)
    assert (paid["body"], paid["body_encoding"], paid["size"]) == ("grün", "utf-8", 5)
    assert (base64.b64decode(sent["body"]), sent["body_encoding"]) == (b"\xff\x00", "base64")
    assert (paid["vhost"], paid["queue"], paid["exchange"], paid["sequence"], paid["tries"]) == (
        *("/", "mail", "events"),
        *(1, 0),
    )
    assert begun <= datetime.fromisoformat(paid["published"]) <= datetime.now(UTC)
    expected = {name: value for name, value in vars(properties).items() if value is not None}
    expected["timestamp"] = "2023-11-14T22:13:20+00:00"
    expected["headers"] = {
        **headers,
        "money": "1.25",
        "raw": {"base64": "AP8="},
        "when": "2026-01-31T12:00:00+00:00",
    }
    assert paid["properties"] == expected
    assert sent["properties"] == {"delivery_mode": 2}
    assert [line.get("body") for line in dumped(path, "--limit", 1)] == [None] * 8
    assert [line["kind"] for line in dumped(path, "--queue", "mail", "--limit", 0)] == ["queue", "binding"]
    assert dumped(path, "--vhost", "nowhere") == []
    assert "has no queue 'letters': see 'leveret check" in refused("dump", path, "--queue", "letters")


def test_dump_ends_quietly_when_nobody_reads_on(tmp_path: Path) -> None:
    path = stopped_broker(tmp_path, *[b"x" * 1000] * 200)
    with started("dump", path, "--bodies") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(SECONDS) == 0
