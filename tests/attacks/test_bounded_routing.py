"""CWE-407, inefficient algorithmic complexity, and CWE-770, allocation of resources without limits: one client binds
patterns, headers or selectors that are expensive to match and publishes to them. All connections share one event loop,
so the work for one message is bounded, and so is the work for all messages of one read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties
from tests.support.attack_target import AttackTarget
from tests.support.raw_client import RawClient, publish_bytes
from tests.support.sizes import sized

QUEUE, EXCHANGE = "victim", "hostile"
WORDS = 127  # the most that fit a key of 255 bytes
KEY = ".".join(["a"] * WORDS)
TEXT = "a" * 4_000
EXPENSIVE_LIKE = f"h LIKE '{'%a_' * 1_250}'"


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path, watermark=600 << 20) as broker:  # bindings have a share of it
        yield broker


@pytest.fixture
def client(attacked: AttackTarget) -> Iterator[RawClient]:
    with RawClient.open(attacked.url(), timeout=30.0) as opened:
        opened.call(QueueDeclare(QUEUE), QueueDeclareOk)
        yield opened


def patterns(number: int) -> list[str]:
    """Different, and each with all of its places reachable by any word."""
    chance = random.Random(7)
    return ["#." + ".".join(chance.choice(["a", "*"]) for _ in range(WORDS - 1)) for _ in range(number)]


def topic_bindings() -> list[Method]:
    return [QueueBind(QUEUE, EXCHANGE, pattern, nowait=True) for pattern in patterns(sized(1_000))]


def chained_topics() -> list[Method]:
    """Each exchange alone is cheap enough."""
    made: list[Method] = []
    for number, pattern in enumerate(patterns(100)):
        name = EXCHANGE if number < 4 else f"{EXCHANGE}{number // 4}"
        if number % 4 == 0 and number:
            before = EXCHANGE if number == 4 else f"{EXCHANGE}{number // 4 - 1}"
            made += [ExchangeDeclare(name, "topic", nowait=True), ExchangeBind(name, before, "#", nowait=True)]
        made.append(QueueBind(QUEUE, name, pattern, nowait=True))
    return made


def selectors() -> list[Method]:
    texts = [f"{EXPENSIVE_LIKE} AND n = {number}" for number in range(sized(1_000))]
    return [QueueBind(QUEUE, EXCHANGE, KEY, nowait=True, arguments={"x-selector": text}) for text in texts]


def header_rules() -> list[Method]:
    """The last of many headers decides."""
    wanted: Table = {f"h{number}": 1 for number in range(500)}
    return [
        QueueBind(QUEUE, EXCHANGE, "", nowait=True, arguments={"x-match": "any", **wanted, "own": number})
        for number in range(sized(300))
    ]


ATTACKS = [
    pytest.param("topic", topic_bindings(), {}, id="topic patterns"),
    pytest.param("topic", chained_topics(), {}, id="a chain of topic exchanges"),
    pytest.param("direct", selectors(), {"h": TEXT}, id="selectors"),
    pytest.param("headers", header_rules(), {f"h{number}": 0 for number in range(500)}, id="headers"),
]


@pytest.mark.quiet
@pytest.mark.parametrize(("kind", "bindings", "headers"), ATTACKS)
def test_a_message_that_is_too_expensive_to_route_closes_the_channel(
    attacked: AttackTarget, client: RawClient, kind: str, bindings: list[Method], headers: Table
) -> None:
    client.call(ExchangeDeclare(EXCHANGE, kind), ExchangeDeclareOk)
    client.send_bytes(b"".join(method_frame(1, method) for method in bindings))
    client.is_alive()
    for _ in range(60):  # long enough for the bystander
        client.publish(EXCHANGE, KEY, b"expensive", Properties(headers=headers))
        closed = client.expect_channel_close(406)
        assert f"exchange '{EXCHANGE}'" in closed.reply_text
        assert "routing steps" in closed.reply_text
        client.open_channel(1)
    assert client.call(QueueDeclare(QUEUE, passive=True), QueueDeclareOk).message_count == 0
    attacked.check()
    metrics = attacked.api.send("GET", "/metrics")[1].decode()
    assert "\nleveret_messages_routing_refused_total 60\n" in metrics
    assert attacked.api.get("/api/nodes")[1][0]["messages_routing_refused"] == 60


@pytest.mark.quiet
def test_many_expensive_messages_in_one_read_are_routed_in_slices(attacked: AttackTarget, client: RawClient) -> None:
    """Each is within the bound; together they take seconds. All of them arrive, in order."""
    client.call(ExchangeDeclare(EXCHANGE, "topic"), ExchangeDeclareOk)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.send_bytes(
        b"".join(method_frame(1, QueueBind(QUEUE, EXCHANGE, each, nowait=True)) for each in ("#", *patterns(3)))
    )
    number = 300
    sent = [BasicPublish(EXCHANGE, f"{KEY[:-6]}.{each}") for each in range(number)]
    client.send_bytes(b"".join(publish_bytes(method, method.routing_key.encode()) for method in sent))
    confirmed = 0
    while confirmed < number:
        confirmed = client.expect(BasicAck).delivery_tag
    client.call(BasicConsume(QUEUE, "c", no_ack=True), BasicConsumeOk)
    assert [client.expect_content().body for _ in sent] == [method.routing_key.encode() for method in sent]
    attacked.check()


@pytest.mark.quiet
def test_selectors_of_many_consumers_are_asked_in_slices(attacked: AttackTarget, client: RawClient) -> None:
    """There is no client to report an error to: the message is delivered once all selectors were evaluated."""
    for number in range(sized(1_000)):
        selector = f"{EXPENSIVE_LIKE} AND n = {number}"
        client.send(BasicConsume(QUEUE, f"c{number}", no_ack=True, nowait=True, arguments={"x-selector": selector}))
    client.is_alive()
    client.publish("", QUEUE, b"for one", Properties(headers={"h": TEXT, "n": 999}))
    delivered = client.expect_content()
    assert (delivered.method.consumer_tag, delivered.body) == ("c999", b"for one")  # type: ignore[union-attr]
    attacked.check()
