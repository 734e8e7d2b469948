"""``leveret consume`` and ``leveret tail`` against a running broker: what is shown, and what becomes of it. S4-77."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from leveret import Broker, Settings
from leveret.embedded_vhost import EmbeddedVhost
from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from leveret.wire.properties import Properties
from tests.support.command_line import Cli
from tests.support.live_command import LiveCommand
from tests.support.raw_client import RawClient, eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def queue(broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """With three messages."""
    name = request.node.name
    broker.vhost().declare_queue(name)
    for number in range(3):
        broker.vhost().publish("", name, f"body {number}".encode())
    yield name
    broker.vhost().delete_queue(name)


@pytest.mark.feature("S4-77")
@pytest.mark.parametrize("command", ["consume", "tail"])
def test_without_ack_messages_are_shown_and_nothing_changes(
    cli: Cli, queue: str, vhost: EmbeddedVhost, command: str
) -> None:
    told = cli.run(command, queue, "--no-follow")
    assert told.stdout == "".join(f"(AMQP default)  {queue}  body {number}\n" for number in range(3))
    assert told.stderr == f"3 messages shown, no messages were consumed from queue '{queue}'\n"
    assert cli.done(command, queue, "--count", "1") == f"(AMQP default)  {queue}  body 0\n"
    assert [json.loads(line)["payload"] for line in cli.done(command, queue, "--json", "--no-follow").splitlines()] == [
        f"body {number}" for number in range(3)
    ]
    assert vhost.message_count(queue) == 3
    first = vhost.get(queue, auto_ack=True)
    assert first is not None
    assert (first.body, first.redelivered) == (b"body 0", False)


@pytest.mark.parametrize(
    "shows",
    [
        ("consume", "--no-follow"),
        ("tail", "--no-follow"),
        ("get", "--count", "9"),
        ("browse",),
    ],
    ids=lambda shows: shows[0],
)
def test_showing_messages_never_reaches_the_delivery_limit(
    cli: Cli, vhost: EmbeddedVhost, shows: tuple[str, ...]
) -> None:
    vhost.declare_queue("limited", durable=True, arguments={"x-delivery-limit": 1, "x-queue-type": "quorum"})
    vhost.publish("", "limited", b"kept")
    for _ in range(4):
        assert "kept" in cli.done(shows[0], "limited", *shows[1:])
    assert vhost.message_count("limited") == 1
    vhost.delete_queue("limited")


def test_taking_counts_deliveries_warns_and_reports_what_was_discarded(cli: Cli, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("limited", durable=True, arguments={"x-delivery-limit": 1})
    vhost.publish("", "limited", b"old")
    first = cli.run("tail", "limited", "--take", "--count", "1")
    warning, back = first.stderr.splitlines()
    assert warning.startswith("Queue 'limited' has a delivery limit of 1: ")
    assert back == "1 message requeued to queue 'limited'; the broker counts this as a delivery"
    vhost.publish("", "limited", b"new")
    second = cli.run("tail", "limited", "--take", "--count", "2")
    assert second.stdout.splitlines() == ["(AMQP default)  limited  (redelivered)  old", "(AMQP default)  limited  new"]
    assert second.stderr.splitlines()[1:] == [
        "1 message requeued to queue 'limited'; the broker counts this as a delivery",
        "1 message exceeded the delivery limit: dead-lettered, or dropped without a dead letter exchange",
    ]
    eventually(lambda: vhost.message_count("limited") == 1)


def test_a_queue_is_followed_while_others_consume_it(
    cli: Cli, queue: str, vhost: EmbeddedVhost, tmp_path: Path
) -> None:
    with LiveCommand("tail", queue, "--raw", "--url", cli.url, folder=tmp_path) as tail:
        tail.until("body 2\n")
        vhost.publish("", queue, b"more")
        assert tail.until("more\n") == "body 0\nbody 1\nbody 2\nmore\n"
        vhost.purge_queue(queue)
        vhost.publish("", queue, b"unseen")
        assert vhost.get(queue, auto_ack=True) is not None
        vhost.publish("", queue, b"later")
        assert tail.until("later\n").count("body") == 3
        tail.interrupt()
        code, told = tail.ended()
    shown, *missed = told.splitlines()
    number = 5 + tail.shown.count("unseen")  # a request may come between the publish and the get
    assert (code, shown) == (0, f"{number} messages shown, no messages were consumed from queue '{queue}'")
    assert [line.partition(":")[0] for line in missed] == (["1 message not shown"] if number == 5 else [])
    assert vhost.message_count(queue) == 1


@pytest.mark.feature("S4-77")
def test_with_ack_just_as_many_are_taken_as_were_asked_for(cli: Cli, queue: str, vhost: EmbeddedVhost) -> None:
    assert cli.done("consume", queue, "--ack", "--raw", "--count", "2") == "body 0\nbody 1\n"
    assert vhost.message_count(queue) == 1
    left = vhost.get(queue, auto_ack=True)
    assert left is not None
    assert (left.body, left.redelivered) == (b"body 2", False)


def test_more_than_the_broker_hands_out_at_once_are_taken_and_no_more(cli: Cli, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("many")
    for number in range(600):
        vhost.publish("", "many", b"%d" % number)
    taken = cli.done("consume", "many", "--ack", "--raw", "--count", "500").split()
    assert taken == [str(number) for number in range(500)]
    left = vhost.get("many", auto_ack=True)
    assert left is not None
    assert (left.body, left.redelivered) == (b"500", False)
    assert vhost.message_count("many") == 99


def test_a_body_is_shown_as_text_json_or_bytes(cli: Cli, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("bodies")
    headers = {"kind": "order", "blob": b"\xff", "limits": [math.inf, {"x": math.nan}]}
    vhost.publish("", "bodies", b"\x1b[2J", Properties(headers=headers, message_id="7"))
    vhost.publish("", "bodies", b"\xff\x00")
    lines = cli.done("consume", "bodies", "--no-follow").splitlines()
    assert [line.split("  ")[2] for line in lines] == ["\\x1b[2J", "ff 00"]
    assert "1b 5b 32 4a" in cli.done("consume", "bodies", "--count", "1", "--hex")
    lines = cli.done("consume", "bodies", "--json", "--ack", "--no-follow").splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert rows[0]["payload"] == "\x1b[2J"
    shown = {"kind": "order", "blob": "/w==", "limits": ["inf", {"x": "nan"}]}
    assert rows[0]["properties"] == {"headers": shown, "message_id": "7"}
    assert (rows[1]["payload"], rows[1]["payload_encoding"], rows[1]["payload_bytes"]) == ("/wA=", "base64", 2)
    assert "use only one of them" in cli.refused("consume", "bodies", "--json", "--raw", code=2)


def test_a_stream_is_read_from_where_it_is_asked_and_keeps_all(cli: Cli, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("events", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(4):
        vhost.publish("", "events", b"%d" % number)
    assert cli.done("tail", "events", "--offset", "first", "--raw", "--count", "4").split() == ["0", "1", "2", "3"]
    assert (
        cli.done("tail", "events", "--offset", "2", "--no-follow")
        == "2  (AMQP default)  events  2\n3  (AMQP default)  events  3\n"
    )
    assert vhost.message_count("events") == 4


def test_an_exchange_is_followed_by_copies_until_ctrl_c(cli: Cli, vhost: EmbeddedVhost, tmp_path: Path) -> None:
    vhost.declare_queue("sports")
    vhost.bind("sports", "amq.topic", "sport.#")
    following = ("tail", "--exchange", "amq.topic", "--key", "sport.*", "--url", cli.url)
    with LiveCommand(*following, folder=tmp_path) as tail:
        eventually(lambda: len(cli.json("queues", "list")) > len({"sports"}) and _bound(cli, "sport.*"))
        vhost.publish("amq.topic", "news.golf", b"other")
        vhost.publish("amq.topic", "sport.golf", b"hole in one")
        assert tail.until("\n") == "amq.topic  sport.golf  hole in one\n"
        tail.interrupt()
        assert tail.ended() == (0, "")
    assert vhost.message_count("sports") == 1
    assert not _bound(cli, "sport.*")


def _bound(cli: Cli, key: str) -> bool:
    return any(row["routing_key"] == key for row in cli.json("bindings", "list"))


def test_what_was_shown_is_acked_on_ctrl_c_and_the_rest_goes_back(
    cli: Cli, queue: str, vhost: EmbeddedVhost, tmp_path: Path
) -> None:
    with LiveCommand("consume", queue, "--ack", "--raw", "--url", cli.url, folder=tmp_path) as consume:
        consume.until("body 2\n")
        consume.interrupt()
        assert consume.ended() == (0, "")
    assert vhost.message_count(queue) == 0
    vhost.publish("", queue, b"later")
    with LiveCommand("tail", queue, "--take", "--url", cli.url, folder=tmp_path) as tail:
        tail.until("later\n")
        tail.interrupt()
        counted = f"1 message requeued to queue '{queue}'; the broker counts this as a delivery\n"
        assert tail.ended() == (0, counted)
    assert vhost.message_count(queue) == 1


def test_a_reader_that_goes_away_is_no_trace_and_takes_nothing_unseen(
    cli: Cli, queue: str, vhost: EmbeddedVhost, tmp_path: Path
) -> None:
    with LiveCommand("consume", queue, "--ack", "--raw", "--url", cli.url, folder=tmp_path) as consume:
        consume.until("body 2\n")
        consume.stop_reading()
        vhost.publish("", queue, b"nobody sees this")
        code, told = consume.ended()
    assert (code, told) == (1, "")
    eventually(lambda: vhost.message_count(queue) == 1)


@pytest.mark.parametrize(
    ("option", "cause"), [("--ack", "the queue was deleted"), ("--follow", "no queue ")], ids=["consumed", "browsed"]
)
def test_a_deleted_queue_ends_the_command_with_the_cause(
    cli: Cli, queue: str, vhost: EmbeddedVhost, tmp_path: Path, option: str, cause: str
) -> None:
    with LiveCommand("consume", queue, option, "--url", cli.url, folder=tmp_path) as consume:
        consume.until("body 2\n")
        vhost.delete_queue(queue)
        code, told = consume.ended()
    assert code == 1
    assert told.startswith(f"leveret: {cause}")
    assert told.count("\n") == 1


def test_what_cannot_be_followed_is_one_line(cli: Cli, broker: Broker, vhost: EmbeddedVhost, queue: str) -> None:
    assert "no queue 'nope'" in cli.refused("consume", "nope")
    assert "no exchange 'nope'" in cli.refused("tail", "--exchange", "nope")
    assert "either QUEUE or --exchange" in cli.refused("tail", code=2)
    assert "either QUEUE or --exchange" in cli.refused("tail", queue, "--exchange", "amq.topic", code=2)
    assert "only copies are consumed" in cli.refused("tail", "--exchange", "amq.topic", "--ack", code=2)
    assert "is only for streams" in cli.refused("tail", queue, "--offset", "first", code=2)
    assert "at most 1000 messages can be" in cli.refused("tail", queue, "--take", "--count", "1001", code=2)
    assert "no connection to amqp://guest@127.0.0.1:1" in cli.refused(
        "consume", queue, "--ack", "--amqp", "amqp://127.0.0.1:1", code=3
    )
    assert "which other users of this machine can read" in cli.refused(
        "consume", queue, "--ack", "--amqp", "amqp://a:b@localhost", code=2
    )
    assert "invalid --amqp" in cli.refused("consume", queue, "--ack", "--amqp", "localhost:5672", code=2)
    with RawClient.open(broker.amqp_url) as other:
        other.call(QueueDeclare("others", exclusive=True), QueueDeclareOk)
        assert "RESOURCE_LOCKED" in cli.refused("consume", "others", "--ack")
        assert "exclusive" in cli.refused("consume", "others")


def test_a_user_who_is_not_told_the_port_names_it(cli: Cli, broker: Broker, queue: str, tmp_path: Path) -> None:
    cli.done("users", "create", "anna", "--tag", "management", given="secret\n")
    cli.done("permissions", "set", "anna", "--configure", "", "--write", "", "--read", ".*")
    anna = Cli(broker.http_url, tmp_path, "anna", "secret")
    assert "--amqp amqp://127.0.0.1:5672" in anna.refused("consume", queue, "--ack")
    assert "body 0" in anna.done("consume", queue, "--no-follow")
    address = broker.amqp_url.replace("guest:guest@", "").removesuffix("/%2F")
    assert "body 0" in anna.done("consume", queue, "--ack", "--count", "1", "--amqp", address)


def test_over_tls_with_a_certificate_that_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    settings = Settings(
        amqp_port=None,
        amqps_port=0,
        http_port=0,
        https_port=None,
        stomp_port=None,
        tls_cert=tmp_path / "server.pem",
        tls_key=tmp_path / "server.pem",
        shutdown_timeout=0.5,
    )
    with Broker(settings) as broker:
        broker.vhost().declare_queue("q")
        broker.vhost().publish("", "q", b"hello")
        cli = Cli(broker.http_url, tmp_path)
        assert "certificate" in cli.refused("tail", "q", "--take", "--no-follow", code=3)
        consume = ("tail", "q", "--take", "--count", "1", "--raw")
        assert cli.done(*consume, "--ca-file", str(tmp_path / "ca.pem")) == "hello\n"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert cli.done(*consume) == "hello\n"
