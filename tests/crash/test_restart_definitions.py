"""Exchanges, queues and bindings over a kill: there, with every flag and argument, or gone for good."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leveret.wire.properties import Properties
from tests.support.broker_process import BrokerProcess
from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import PERSISTENT, bodies_of, count, declare, declare_at, fill
from tests.support.raw_client import RawClient

NESTED: Table = {
    "table": {"list": [1, -2, 3.5, "four", None, True, {"deep": [b"\0\xff"]}]},
    "x-some": "thing",
    "": 0,
}
EXCHANGES = [
    ExchangeDeclare("x.direct", "direct", durable=True, arguments=NESTED),
    ExchangeDeclare("x.topic", "topic", durable=True, auto_delete=True),
    ExchangeDeclare("x.fanout", "fanout", durable=True, internal=True, arguments=NESTED),
    ExchangeDeclare("x.headers", "headers", durable=True),
]
QUEUES = [
    QueueDeclare("q.plain", durable=True),
    QueueDeclare("q.fleeting", durable=True, auto_delete=True),
    QueueDeclare("q.argued", durable=True, arguments={**NESTED, "x-max-priority": 4, "x-message-ttl": 3_600_000}),
    QueueDeclare("q späť ☃", durable=True),
]
BINDINGS = [
    QueueBind("q.plain", "x.direct", "key"),
    QueueBind("q.argued", "x.topic", "a.*.#"),
    QueueBind("q späť ☃", "x.headers", "", arguments={"x-match": "all", "kind": "snow", "nested": {"n": [1]}}),
    QueueBind("q.plain", "x.fanout", "ignored"),
]


def killed(serving: BrokerProcess) -> None:
    serving.process.kill()
    serving.exit_code()


def differs(method: ExchangeDeclare | QueueDeclare) -> list[ExchangeDeclare | QueueDeclare]:
    """The same thing with one flag or argument changed."""
    arguments = {**method.arguments, "x-note": "other"}
    if isinstance(method, QueueDeclare):
        return [
            QueueDeclare(method.queue, durable=True, auto_delete=not method.auto_delete, arguments=method.arguments),
            QueueDeclare(method.queue, durable=False, auto_delete=method.auto_delete, arguments=method.arguments),
            QueueDeclare(
                method.queue, durable=True, auto_delete=method.auto_delete, arguments={**arguments, "x-expires": 9999}
            ),
        ]
    name, kind, arguments = method.exchange, method.type, method.arguments
    flags = {"auto_delete": method.auto_delete, "internal": method.internal}
    return [
        ExchangeDeclare(name, "fanout" if kind != "fanout" else "topic", durable=True, arguments=arguments, **flags),
        ExchangeDeclare(name, kind, durable=False, arguments=arguments, **flags),
        ExchangeDeclare(
            name, kind, durable=True, arguments=arguments, auto_delete=not method.auto_delete, internal=method.internal
        ),
        ExchangeDeclare(
            name, kind, durable=True, arguments=arguments, auto_delete=method.auto_delete, internal=not method.internal
        ),
    ]


@pytest.mark.feature("S4-15")
def test_everything_durable_survives_with_all_flags_and_arguments(tmp_path: Path) -> None:
    """Declared again the same it agrees, and with any flag or argument changed it is refused."""
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        for exchange in EXCHANGES:
            client.call(exchange, ExchangeDeclareOk)
        for queue in QUEUES:
            client.call(queue, QueueDeclareOk)
        for binding in BINDINGS:
            client.call(binding, QueueBindOk)
        client.call(ExchangeBind("x.fanout", "x.direct", "through", arguments=NESTED), ExchangeBindOk)
        killed(serving)
    for _ in range(2):
        with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
            for method in [*EXCHANGES, *QUEUES]:
                answer = ExchangeDeclareOk if isinstance(method, ExchangeDeclare) else QueueDeclareOk
                client.call(method, answer)
                for other in differs(method):
                    client.send(other)
                    client.expect_channel_close(406)
                    client.open_channel(1)
            assert_routes(serving.url())
            killed(serving)


def assert_routes(url: str) -> None:
    """Each binding leads where it led, and the arguments of bindings count."""
    snow: Table = {"kind": "snow", "nested": {"n": [1]}}
    publishes = [
        ("x.direct", "key", None, "q.plain"),
        ("x.direct", "through", None, "q.plain"),
        ("x.topic", "a.b.c.d", None, "q.argued"),
        ("x.headers", "", snow, "q späť ☃"),
        ("", "q.fleeting", None, "q.fleeting"),
    ]
    with RawClient.open(url) as client:
        for number, (exchange, key, headers, _) in enumerate(publishes):
            client.publish(exchange, key, b"%d" % number, Properties(delivery_mode=1, headers=headers), mandatory=True)
        client.publish("x.headers", "", b"lost", Properties(headers={"kind": "snow", "nested": {"n": [2]}}))
        client.publish("x.direct", "no such key", b"lost")
        client.is_alive()
    for number, (_, _, _, queue) in enumerate(publishes):
        if (queue, number) != ("q.plain", 1):
            assert bodies_of(url, queue) == [b"0", b"1"] if queue == "q.plain" else [b"%d" % number]


@pytest.mark.feature("S4-13")
def test_definitions_are_in_one_sqlite_file_made_at_the_first_start(tmp_path: Path) -> None:
    def databases() -> dict[str, int]:
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        return {path.name: path.stat().st_ino for path in files if path.read_bytes()[:15] == b"SQLite format 3"}

    seen = []
    for _ in range(3):
        with ForkedBroker(tmp_path) as serving:
            declare_at(serving.url(), "q")
            seen.append(databases())
            killed(serving)
    assert len(seen[0]) == 1
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.feature("S4-14")
def test_the_default_exchange_reaches_recovered_queues(tmp_path: Path) -> None:
    """And the exchanges that every vhost has are there, once."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        killed(serving)
    with ForkedBroker(tmp_path) as serving:
        fill(serving.url(), "q", [b"m"])
        assert bodies_of(serving.url(), "q") == [b"m"]
        with RawClient.open(serving.url()) as client:
            for exchange in ("amq.direct", "amq.topic", "amq.fanout", "amq.headers"):
                client.call(ExchangeDeclare(exchange, passive=True), ExchangeDeclareOk)
                client.call(QueueBind("q", exchange, "k"), QueueBindOk)


@pytest.mark.feature("S4-15")
def test_bindings_of_the_exchanges_that_every_vhost_has_survive(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        declare(client, "q")
        client.call(QueueBind("q", "amq.direct", "k"), QueueBindOk)
        client.call(ExchangeBind("amq.direct", "amq.topic", "t.#"), ExchangeBindOk)
        killed(serving)
    with ForkedBroker(tmp_path) as serving:
        with RawClient.open(serving.url()) as client:
            client.publish("amq.direct", "k", b"1", PERSISTENT)
            client.is_alive()
        assert bodies_of(serving.url(), "q") == [b"1"]


def test_what_was_unbound_or_deleted_stays_so(tmp_path: Path) -> None:
    """A thing that is declared anew under the name of a deleted one has none of its bindings."""
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        for exchange in ("x", "deleted", "again"):
            client.call(ExchangeDeclare(exchange, "direct", durable=True), ExchangeDeclareOk)
            for queue in ("q", "r"):
                declare(client, queue)
                client.call(QueueBind(queue, exchange, "k"), QueueBindOk)
        client.call(ExchangeBind("x", "again", "e"), ExchangeBindOk)
        client.call(ExchangeUnbind("x", "again", "e"), ExchangeUnbindOk)
        client.call(QueueUnbind("q", "x", "k"), QueueUnbindOk)
        client.call(ExchangeDelete("deleted"), ExchangeDeleteOk)
        client.call(ExchangeDelete("again"), ExchangeDeleteOk)
        client.call(ExchangeDeclare("again", "direct", durable=True), ExchangeDeclareOk)
        client.call(QueueDelete("r"), QueueDeleteOk)
        declare(client, "r")
        killed(serving)
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        client.publish("x", "k", b"m")
        client.publish("again", "k", b"m")
        client.publish("again", "e", b"m")
        client.is_alive()
        assert (count(client, "q"), count(client, "r")) == (0, 0)
        client.send(ExchangeDeclare("deleted", passive=True))
        client.expect_channel_close(404)


@pytest.mark.feature("S4-15")
def test_what_is_not_durable_is_gone(tmp_path: Path) -> None:
    """Exchange, queue, a binding of a durable exchange to a transient queue, and an exclusive queue called durable."""
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        client.call(ExchangeDeclare("transient", "direct"), ExchangeDeclareOk)
        client.call(ExchangeDeclare("x", "direct", durable=True), ExchangeDeclareOk)
        client.call(QueueDeclare("q"), QueueDeclareOk)
        client.call(QueueBind("q", "x", "k"), QueueBindOk)
        client.call(QueueDeclare("mine", durable=True, exclusive=True), QueueDeclareOk)
        killed(serving)
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        passive = [ExchangeDeclare("transient", passive=True), QueueDeclare("q", passive=True)]
        for method in [*passive, QueueDeclare("mine", passive=True)]:
            client.send(method)
            client.expect_channel_close(404)
            client.open_channel(1)
        client.call(ExchangeDeclare("x", passive=True), ExchangeDeclareOk)
        declare(client, "q")
        client.publish("x", "k", b"m")
        client.is_alive()
        assert count(client, "q") == 0


@pytest.mark.slow
@pytest.mark.quiet
@pytest.mark.feature("S4-13", "S4-15")
def test_ten_thousand_durable_queues_in_ten_seconds(tmp_path: Path) -> None:
    """Declared over one connection, all at once; all are there after a kill."""
    names = [f"queue {number}" for number in range(10_000)]
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url(), timeout=20) as client:
        begun = time.monotonic()
        pipelined(client, [QueueDeclare(name, durable=True) for name in names])
        assert time.monotonic() - begun < 10
        killed(serving)
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url(), timeout=20) as client:
        pipelined(client, [QueueDeclare(name, passive=True) for name in names])


def pipelined(client: RawClient, declares: list[QueueDeclare]) -> None:
    """Send a thousand, then read a thousand answers: all at once could fill both directions."""
    for start in range(0, len(declares), 1000):
        part = declares[start : start + 1000]
        client.send_bytes(b"".join(method_frame(1, method) for method in part))
        for method in part:
            assert client.expect(QueueDeclareOk).queue == method.queue
