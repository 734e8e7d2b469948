"""Messages over a restart, killed or stopped: what is there, in which order, and what is marked redelivered."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.properties import Properties
from tests.support.broker_process import BrokerProcess
from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import (
    PERSISTENT,
    TRANSIENT,
    Publishing,
    bodies_of,
    count,
    declare,
    declare_at,
    fill,
    take_all,
)
from tests.support.raw_client import Content, RawClient, eventually

TEN = [b"%d" % number for number in range(10)]
CRASHING_CONSUMER = """
import os, sys, pika
def callback(channel, method, properties, body):
    print(body.decode(), flush=True)
    os.kill(os.getpid(), 9)
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
channel.basic_consume("q", callback)
channel.start_consuming()
"""


def consume(client: RawClient, number: int, *, no_ack: bool = False) -> list[Content]:
    """Take so many and hold them."""
    client.call(BasicQos(prefetch_count=number), BasicQosOk)
    client.call(BasicConsume("q", no_ack=no_ack), BasicConsumeOk)
    return [client.expect_content() for _ in range(number)]


def kill(serving: BrokerProcess) -> None:
    serving.process.kill()
    serving.exit_code()


def stop(serving: BrokerProcess) -> None:
    serving.terminate()
    assert serving.exit_code(15) == 0, serving.log()


@pytest.mark.feature("S4-54")
def test_a_message_is_delivered_again_after_its_callback_and_the_broker_crashed(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", [b"job"])
        command = [sys.executable, "-c", CRASHING_CONSUMER, serving.url()]
        consumer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (consumer.returncode, consumer.stdout) == (-9, "job\n"), consumer.stderr
        kill(serving)
    with ForkedBroker(tmp_path) as serving:
        (again,) = take_all(serving.url(), "q")
        assert (again.body, again.redelivered) == (b"job", True)


@pytest.mark.feature("S4-29", "S4-30")
def test_what_was_unacked_at_the_kill_is_ready_again_in_order_and_marked(tmp_path: Path) -> None:
    """Unacked and ready messages are one line again."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", TEN)
        with RawClient.open(serving.url()) as consumer:
            consume(consumer, 6)
            kill(serving)
    with ForkedBroker(tmp_path) as serving:
        found = take_all(serving.url(), "q")
        assert [each.body for each in found] == TEN
        assert [each.redelivered for each in found[:6]] == [True] * 6


@pytest.mark.feature("S4-29", "S4-30")
def test_after_a_clean_stop_exactly_what_was_delivered_before_is_marked(tmp_path: Path) -> None:
    """And what was acked is gone."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", TEN)
        with RawClient.open(serving.url()) as consumer:
            found = consume(consumer, 6)
            for number in (0, 3):
                consumer.send(BasicAck(found[number].method.delivery_tag))
            assert [consumer.expect_content().body for _ in range(2)] == [b"6", b"7"]  # so the acks have counted
            serving.terminate()
            consumer.expect_close(320)
        assert serving.exit_code() == 0
    with ForkedBroker(tmp_path) as serving:
        found = take_all(serving.url(), "q")
    assert [int(each.body) for each in found] == [1, 2, 4, 5, 6, 7, 8, 9]
    assert [int(each.body) for each in found if each.redelivered] == [1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("highest", [0, 5])
@pytest.mark.feature("S4-29")
def test_a_mark_outlives_a_clean_stop_after_a_crash(tmp_path: Path, highest: int) -> None:
    """Delivered in the first run, which is killed; the second run, without consumers, is stopped."""
    arguments = {"x_max_priority": highest} if highest else {}
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q", **arguments)
        fill(serving.url(), "q", TEN)
        with RawClient.open(serving.url()) as consumer:
            consume(consumer, 6)
            kill(serving)
    with ForkedBroker(tmp_path) as serving:
        fill(serving.url(), "q", [b"new"])
        stop(serving)
    with ForkedBroker(tmp_path) as serving:
        found = take_all(serving.url(), "q")
    assert [each.body for each in found] == [*TEN, b"new"]
    assert [each.redelivered for each in found[:6]] == [True] * 6
    assert not found[-1].redelivered


@pytest.mark.feature("S4-30")
def test_recovering_twice_in_a_row_gives_the_same(tmp_path: Path) -> None:
    """A start that is killed at once harms nothing, nor does one that is stopped."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", TEN)
        kill(serving)
    for end in (kill, stop, kill):
        with ForkedBroker(tmp_path) as serving:
            with RawClient.open(serving.url()) as client:
                assert count(client, "q") == len(TEN)
            end(serving)
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == TEN


@pytest.mark.feature("S0-17")
def test_what_went_straight_to_a_consumer_survives_until_it_is_acked(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        with RawClient.open(serving.url()) as consumer, Publishing(serving.url()) as publisher:
            declare(consumer, "q")
            consumer.call(BasicConsume("q"), BasicConsumeOk)
            publisher.publish("q", TEN)
            assert [consumer.expect_content().body for _ in TEN] == TEN
            publisher.hear_verdicts()
            assert len(publisher.acked) == len(TEN)
            kill(serving)
    with ForkedBroker(tmp_path) as serving:
        found = take_all(serving.url(), "q")
        assert [each.body for each in found] == TEN
        assert all(each.redelivered for each in found)


@pytest.mark.feature("S4-30")
def test_what_was_given_back_keeps_its_place(tmp_path: Path) -> None:
    """Requeued before the kill, in the wrong order."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", TEN)
        with RawClient.open(serving.url()) as consumer:
            for content in reversed(consume(consumer, 5)):
                consumer.send(BasicNack(content.method.delivery_tag, requeue=True))
            consumer.expect_content()
            kill(serving)
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == TEN


def test_transient_messages_and_queues_are_gone(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        with RawClient.open(serving.url()) as client:
            client.call(QueueDeclare("transient"), QueueDeclareOk)
        fill(serving.url(), "transient", [b"persistent"])
        fill(serving.url(), "q", [b"a", b"b"])
        fill(serving.url(), "q", [b"transient"], TRANSIENT)
        fill(serving.url(), "q", [b"c"])
        kill(serving)
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == [b"a", b"b", b"c"]
        with RawClient.open(serving.url()) as client:
            client.send(QueueDeclare("transient", passive=True))
            client.expect_channel_close(404)


@pytest.mark.feature("S4-30")
def test_body_and_properties_are_as_they_were_sent(tmp_path: Path) -> None:
    """All fourteen properties; bodies of none, one and many frames."""
    everything = Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"nested": {"list": [1, 2.5, "three", None, [True]]}, "bytes": b"\0\xff", "": ""},
        delivery_mode=2,
        priority=3,
        correlation_id="c" * 255,
        reply_to="r",
        expiration="3600000",
        message_id="m",
        timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="l",
    )
    bodies = [b"", b"one", bytes(range(256)) * 4096]
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", bodies, everything)
        kill(serving)
    with ForkedBroker(tmp_path) as serving:
        found = take_all(serving.url(), "q")
    assert [each.body == body for each, body in zip(found, bodies, strict=True)] == [True] * 3
    assert all(each.properties == everything for each in found)


def test_priorities_are_kept(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q", x_max_priority=3)
        for number in range(12):
            priority = (number * 5) % 4
            fill(serving.url(), "q", [b"%d:%d" % (priority, number)], Properties(delivery_mode=2, priority=priority))
        with RawClient.open(serving.url()) as consumer:
            consume(consumer, 2)
            kill(serving)
    with ForkedBroker(tmp_path) as serving:
        found = bodies_of(serving.url(), "q")
    assert len(found) == 12
    assert found == sorted(found, key=lambda body: (-int(body[:1]), int(body[2:])))


@pytest.mark.feature("S4-30")
def test_deadlines_go_on_while_the_broker_is_down(tmp_path: Path) -> None:
    """TTL of the queue and expiration of the message count from the publish, not from the restart."""
    ttl = 8.0
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "by queue", x_message_ttl=int(ttl * 1000))
        declare_at(serving.url(), "by message", "short")
        published = time.monotonic()
        fill(serving.url(), "by queue", [b"m"])
        fill(serving.url(), "by message", [b"m"], Properties(delivery_mode=2, expiration=str(int(ttl * 1000))))
        fill(serving.url(), "short", [b"m"], Properties(delivery_mode=2, expiration="300"))
        over = time.monotonic() + 0.4
        kill(serving)
    while time.monotonic() - published < ttl / 2:  # each of these starts takes a while
        with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
            is_over = time.monotonic() > over
            long, short = [count(client, queue) for queue in ("by queue", "by message")], count(client, "short")
            assert long == [1, 1] or time.monotonic() - published > ttl
            assert short == 0 or not is_over
            kill(serving)
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        eventually(lambda: count(client, "by queue") + count(client, "by message") == 0)
        gone = time.monotonic()
        assert published + ttl - 0.1 < gone < serving.begun + ttl, "they began anew"


def test_what_was_purged_or_deleted_stays_away(tmp_path: Path) -> None:
    """A queue declared anew under the same name is empty."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "purged", "deleted", "again")
        for queue in ("purged", "deleted", "again"):
            fill(serving.url(), queue, TEN)
        with RawClient.open(serving.url()) as client:
            assert client.call(QueuePurge("purged"), QueuePurgeOk).message_count == 10
            assert client.call(QueueDelete("deleted"), QueueDeleteOk).message_count == 10
            client.call(QueueDelete("again"), QueueDeleteOk)
            declare(client, "again")
            kill(serving)
    with ForkedBroker(tmp_path) as serving, RawClient.open(serving.url()) as client:
        assert count(client, "purged") == 0
        assert count(client, "again") == 0
        client.send(QueueDelete("deleted"))
        assert client.expect(QueueDeleteOk).message_count == 0
        declare(client, "deleted")
        assert count(client, "deleted") == 0


def test_a_committed_transaction_holds_and_another_does_not(tmp_path: Path) -> None:
    """Its publishes and its acks: of what was not committed nothing is seen after a kill."""
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q", "other")
        fill(serving.url(), "q", TEN)
        with RawClient.open(serving.url()) as client:
            client.call(TxSelect(), TxSelectOk)
            held = consume(client, 4)
            client.publish("", "other", b"committed", PERSISTENT)
            client.send(BasicAck(held[1].method.delivery_tag, multiple=True))
            client.call(TxCommit(), TxCommitOk)
            client.publish("", "other", b"not committed", PERSISTENT)
            client.send(BasicAck(held[3].method.delivery_tag, multiple=True))
            kill(serving)
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == TEN[2:]
        assert bodies_of(serving.url(), "other") == [b"committed"]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_either_durability_survives_a_kill(tmp_path: Path, durability: str) -> None:
    flags = ("--durability", durability)
    with ForkedBroker(tmp_path, *flags) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", TEN)
        kill(serving)
    with ForkedBroker(tmp_path, *flags) as serving:
        assert bodies_of(serving.url(), "q") == TEN
