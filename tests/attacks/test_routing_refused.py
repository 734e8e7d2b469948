"""CWE-407, inefficient algorithmic complexity: every way by which a message can come to expensive bindings is bounded,
the error reaches the client that published, and other messages and bindings are not harmed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import leveret
from leveret.config import Settings
from leveret.routing.bindings import Binding, Destination
from leveret.wire.methods import (
    BasicGet,
    BasicGetOk,
    BasicNack,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET, HttpApi
from tests.support.raw_client import RawClient

STEPS = 10_000  # the smallest that can be configured: a few patterns exceed it
LIMITED = replace(QUIET, max_routing_steps=STEPS)
KEY = ".".join(["a"] * 127)
PATTERNS = [f"#.{'*.' * number}a.{'*.' * (60 - number)}z" for number in range(10)]


pytestmark = pytest.mark.broker(LIMITED, fresh=True)


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[RawClient]:
    with RawClient.open(broker.amqp_url) as opened:
        opened.call(QueueDeclare("q"), QueueDeclareOk)
        opened.call(ExchangeDeclare("costly", "topic"), ExchangeDeclareOk)
        for pattern in PATTERNS:
            opened.call(QueueBind("q", "costly", pattern), QueueBindOk)
        opened.call(QueueBind("q", "costly", "cheap"), QueueBindOk)
        yield opened


def refused(broker: leveret.Broker) -> int:
    return broker.call(lambda: broker.node.broker.routing_work.refused)


def ready(client: RawClient, queue: str) -> int:
    return client.call(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count


@pytest.mark.parametrize(
    ("exchange", "key", "headers"),
    [
        pytest.param("costly", KEY, {}, id="directly"),
        pytest.param("before", KEY, {}, id="through another exchange"),
        pytest.param("alternate", KEY, {}, id="as alternate exchange"),
        pytest.param("costly", "cheap", {"CC": [KEY]}, id="by CC"),
        pytest.param("costly", "cheap", {"BCC": [KEY]}, id="by BCC"),
        pytest.param("delayed", KEY, {}, id="behind x-delayed-message"),
    ],
)
def test_publisher_gets_406_and_nothing_is_routed(
    broker: leveret.Broker, client: RawClient, exchange: str, key: str, headers: dict[str, list[str]]
) -> None:
    client.call(ExchangeDeclare("before", "fanout"), ExchangeDeclareOk)
    client.call(ExchangeBind("costly", "before"), ExchangeBindOk)
    client.call(ExchangeDeclare("alternate", "direct", arguments={"alternate-exchange": "costly"}), ExchangeDeclareOk)
    client.call(
        ExchangeDeclare("delayed", "x-delayed-message", arguments={"x-delayed-type": "topic"}), ExchangeDeclareOk
    )
    for pattern in PATTERNS:
        client.call(QueueBind("q", "delayed", pattern), QueueBindOk)
    client.publish(exchange, key, b"refused", Properties(headers=dict(headers)))
    closed = client.expect_channel_close(406)
    assert f"exchange '{exchange}'" in closed.reply_text
    assert f"more than {STEPS} routing steps" in closed.reply_text
    assert "max_routing_steps" in closed.reply_text
    client.open_channel(1)
    assert ready(client, "q") == 0
    assert refused(broker) == 1
    client.publish("costly", "cheap", b"taken")
    client.send(BasicGet("q", no_ack=True))
    assert client.expect_content(BasicGetOk).body == b"taken"


def test_a_transaction_is_refused_before_its_commit(broker: leveret.Broker, client: RawClient) -> None:
    client.call(TxSelect(), TxSelectOk)
    client.publish("costly", "cheap", b"with it")
    client.publish("costly", KEY, b"refused")
    client.expect_channel_close(406)
    client.open_channel(1)
    assert ready(client, "q") == 0
    client.call(TxSelect(), TxSelectOk)
    client.publish("costly", "cheap", b"alone")
    client.call(TxCommit(), TxCommitOk)
    assert ready(client, "q") == 1


def test_http_publish_is_refused(broker: leveret.Broker, client: RawClient) -> None:
    message = {"routing_key": KEY, "payload": "x", "payload_encoding": "string", "properties": {}}
    status, answer = HttpApi(broker.http_url).post("/api/exchanges/%2F/costly/publish", message)
    assert (status, ready(client, "q")) == (400, 0)
    assert "routing steps" in answer["reason"]


def test_dead_letters_that_are_too_expensive_are_dropped_and_counted(
    broker: leveret.Broker, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no publisher to notify: as with an unroutable dead letter, the message is dropped and this is logged."""
    client.call(QueueDeclare("origin", arguments={"x-dead-letter-exchange": "costly"}), QueueDeclareOk)
    client.call(ExchangeDeclare("in", "fanout"), ExchangeDeclareOk)
    client.call(QueueBind("origin", "in"), QueueBindOk)
    for key in (KEY, "cheap"):
        client.publish("in", key, key.encode())
        client.send(BasicGet("origin"))
        client.send(BasicNack(client.expect_content(BasicGetOk).method.delivery_tag, requeue=False))
    assert ready(client, "origin") == 0
    assert ready(client, "q") == 1
    assert refused(broker) == 1
    assert "dead-lettered message dropped" in caplog.text


BOUNDS = [
    pytest.param({"max_exchange_bindings": 3}, "x", "k3", "max_exchange_bindings", id="bindings of an exchange"),
    pytest.param({"max_vhost_bindings": 3}, "x", "k3", "max_vhost_bindings", id="bindings of a virtual host"),
    pytest.param({}, "x", ".a.".join(["#"] * 17), "17 times '#'", id="hashes of a pattern"),
]


@pytest.mark.parametrize(("bounds", "exchange", "key", "reason"), BOUNDS)
def test_a_binding_beyond_a_bound_is_refused_but_an_old_one_is_restored(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    bounds: dict[str, int],
    exchange: str,
    key: str,
    reason: str,
) -> None:
    kept: Settings = replace(QUIET, data_dir=tmp_path)
    keys = ["k0", "k1", "k2"]
    with leveret.Broker(replace(kept, **bounds)) as broker, RawClient.open(broker.amqp_url) as client:
        client.call(QueueDeclare("q", durable=True), QueueDeclareOk)
        client.call(ExchangeDeclare(exchange, "topic", durable=True), ExchangeDeclareOk)
        for each in keys:
            client.call(QueueBind("q", exchange, each), QueueBindOk)
        client.call(QueueBind("q", exchange, keys[0]), QueueBindOk)  # it is there already
        client.send(QueueBind("q", exchange, key))
        closed = client.expect_channel_close(406)
        assert reason in closed.reply_text
        assert f"exchange '{exchange}'" in closed.reply_text
        api = HttpApi(broker.http_url)
        status, answer = api.post(f"/api/bindings/%2F/e/{exchange}/q/q", {"routing_key": key})
        assert (status, reason in answer["reason"]) == (400, True)
        broker.call(lambda: made_before(broker, exchange, key))
    caplog.clear()
    with leveret.Broker(replace(kept, **bounds)) as broker:
        made = broker.call(lambda: [each.key for each in broker.node.broker.vhosts["/"].bindings.of_source(exchange)])
        assert sorted(made) == sorted([*keys, key])
    assert "stored binding exceeds a limit and is kept" in caplog.text


def made_before(broker: leveret.Broker, exchange: str, key: str) -> None:
    """As a version without bounds has left it."""
    broker.node.broker.vhosts["/"].restore_binding(Binding(exchange, Destination("queue", "q"), key))
