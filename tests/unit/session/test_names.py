"""Line breaks in the names of queues and exchanges. RabbitMQ 3.10.8 was asked the same, frame by frame."""

from __future__ import annotations

import pytest

from leveret.wire.methods import (
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.support.peer_pair import Client, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    """With queue "ab", exchanges "xy" and "z"."""
    client = harness.client()
    client.declare("ab")
    for name in ("xy", "z"):
        client.ask(ExchangeDeclare(name, "direct"))
    return client


REMOVED = [
    (QueueDeclare("a\r\nb"), "queue.declare-ok"),
    (QueueDeclare("a\nb", passive=True), "queue.declare-ok"),
    (QueueBind("a\nb", "x\ny", "key"), "queue.bind-ok"),
    (QueueUnbind("a\nb", "x\ny", "key"), "queue.unbind-ok"),
    (QueueDelete("\nab\r"), "queue.delete-ok"),
    (ExchangeDeclare("x\r\ny", "direct"), "exchange.declare-ok"),
    (ExchangeDeclare("x\r\ny", passive=True), "exchange.declare-ok"),
    (ExchangeBind("z\n", "x\ry", "key"), "exchange.bind-ok"),
    (ExchangeUnbind("z\n", "x\ry", "key"), "exchange.unbind-ok"),
    (ExchangeDelete("x\ny"), "exchange.delete-ok"),
]


@pytest.mark.parametrize(("method", "answer"), REMOVED, ids=[method.NAME for method, _ in REMOVED])
def test_line_breaks_are_removed_from_names(harness: Harness, client: Client, method: Method, answer: str) -> None:
    assert answer == client.ask(method).NAME
    assert not [name for name in (*harness.vhost.queues, *harness.vhost.exchanges) if set(name) & {"\r", "\n"}]
    assert ("ab" in harness.vhost.queues) == (answer != "queue.delete-ok")
    assert ("xy" in harness.vhost.exchanges) == (answer != "exchange.delete-ok")


@pytest.mark.parametrize("method", [BasicGet("a\nb"), BasicConsume("a\nb"), QueuePurge("a\nb")], ids=lambda m: m.NAME)
def test_other_methods_take_names_as_they_are(client: Client, method: Method) -> None:
    client.send(method)
    assert client.error() == (404, "NOT_FOUND - no queue 'a\nb' in vhost '/'")


def test_a_name_of_line_breaks_is_an_empty_name(client: Client) -> None:
    assert client.declare("\r\n").queue.startswith("amq.gen-")
    client.send(ExchangeDeclare("\n", "direct"))
    assert client.error()[0] == 403


def test_keys_keep_their_line_breaks(client: Client) -> None:
    client.ask(QueueBind("ab", "xy", "k\ney"))
    client.feed(client.published("xy", "key", b"no") + client.published("xy", "k\ney", b"yes"))
    assert client.get("ab").body == b"yes"  # type: ignore[union-attr]
