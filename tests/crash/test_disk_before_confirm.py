"""Which operations wait for the disk and which do not, observed by clients with a slow disk (see shim.c)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.support.fault_shim import Shim
from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import PERSISTENT, TRANSIENT, Publishing, bodies_of, declare, declare_at, fill
from tests.support.raw_client import RawClient

SLOW = 1.0  # a sync
A_WHILE = 0.3  # in which a confirm that did not wait would come
MIB = 1 << 20


@pytest.mark.feature("S0-11", "S4-42")
def test_consumers_get_a_message_before_the_disk_and_confirms_come_after(tmp_path: Path, shim: Shim) -> None:
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        with RawClient.open(serving.url()) as consumer, Publishing(serving.url()) as publisher:
            declare(consumer, "q")
            consumer.call(BasicConsume("q"), BasicConsumeOk)
            shim.hold("sync")
            publisher.publish("q", [b"m"])
            assert consumer.expect_content().body == b"m"
            assert not publisher.hear(lambda: publisher.acked or publisher.nacked, A_WHILE), publisher
            shim.clear()
            publisher.hear_verdicts()
            assert len(publisher.acked) == 1


@pytest.mark.feature("S0-12")
def test_what_need_not_be_kept_is_confirmed_at_once(tmp_path: Path, shim: Shim) -> None:
    """A transient message in a durable queue, a persistent one in a transient queue; while others wait for the disk."""
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        url = serving.url()
        declare_at(url, "durable")
        with RawClient.open(url) as client, Publishing(url) as waiting, Publishing(url) as publisher:
            client.call(QueueDeclare("transient"), QueueDeclareOk)
            shim.hold("sync")
            waiting.publish("durable", [b"m"])
            publisher.publish("durable", [b"m"] * 5, TRANSIENT)
            publisher.publish("transient", [b"m"] * 5, PERSISTENT)
            publisher.hear_verdicts()
            assert len(publisher.acked) == 10
            assert not waiting.hear(lambda: waiting.acked or waiting.nacked, A_WHILE), waiting
            shim.clear()
            waiting.hear_verdicts()
            assert len(waiting.acked) == 1


@pytest.mark.feature("S0-14")
def test_a_message_for_several_queues_is_confirmed_once_and_is_in_all_of_them(tmp_path: Path, shim: Shim) -> None:
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        url = serving.url()
        with RawClient.open(url) as client, Publishing(url) as publisher:
            client.call(ExchangeDeclare("fan", "fanout", durable=True), ExchangeDeclareOk)
            for queue in ("a", "b", "c"):
                declare(client, queue)
                client.call(QueueBind(queue, "fan", ""), QueueBindOk)
            client.call(QueueDeclare("transient"), QueueDeclareOk)
            client.call(QueueBind("transient", "fan", ""), QueueBindOk)
            shim.slow("sync", SLOW)
            begun = time.monotonic()
            publisher.publish("", [b"m"], exchange="fan")
            publisher.hear_verdicts()
            assert publisher.acked[1] - begun >= SLOW
            shim.clear()
            publisher.client.timeout = 60
            publisher.client.is_alive()  # nothing more was said about it
            serving.process.kill()
    with ForkedBroker(tmp_path) as serving:
        assert [bodies_of(serving.url(), queue) for queue in ("a", "b", "c")] == [[b"m"]] * 3


def test_commits_declares_and_deletes_wait_for_the_disk(tmp_path: Path, shim: Shim) -> None:
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        with RawClient.open(serving.url()) as client:
            declare(client, "q")
            client.call(TxSelect(), TxSelectOk)
            client.publish("", "q", b"m", PERSISTENT)
            calls = [
                (TxCommit(), TxCommitOk),
                (QueueDeclare("d", durable=True), QueueDeclareOk),
                (ExchangeDeclare("x", durable=True), ExchangeDeclareOk),
                (QueueBind("d", "x", "k"), QueueBindOk),
                (QueueDelete("d"), QueueDeleteOk),
            ]
            shim.slow("sync", SLOW / 2)
            for method, answer in calls:
                begun = time.monotonic()
                client.call(method, answer)
                assert time.monotonic() - begun >= SLOW / 2, method
            shim.hold("sync")
            client.call(QueueDeclare("t"), QueueDeclareOk)  # a transient queue has nothing to wait for
            shim.clear()


@pytest.mark.parametrize("no_ack", [True, False])
@pytest.mark.feature("S0-18")
def test_what_is_delivered_without_acks_is_not_written(tmp_path: Path, shim: Shim, no_ack: bool) -> None:
    """1 MiB to an idle consumer on a durable queue. With acks the body is written, so the measure works."""
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        with RawClient.open(serving.url()) as consumer, Publishing(serving.url()) as publisher:
            declare(consumer, "q")
            fill(serving.url(), "q", [b"the journal has begun"])
            consumer.call(BasicConsume("q", no_ack=no_ack), BasicConsumeOk)
            consumer.expect_content()
            written, size = shim.written(), size_of(tmp_path / "data")
            publisher.publish("q", [bytes(MIB)])
            assert len(consumer.expect_content().body) == MIB
            publisher.hear_verdicts()
            assert len(publisher.acked) == 1
            growth = (shim.written() - written, size_of(tmp_path / "data") - size)
    if no_ack:
        assert max(growth) < MIB // 16, growth
    else:
        assert growth[0] > MIB, growth


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
