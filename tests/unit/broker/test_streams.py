"""Streams in a broker: declaring, publishing and consuming over frames, and policies."""

from __future__ import annotations

import pytest

from leveret.wire.content import properties_of
from leveret.wire.methods import (
    BasicAck,
    ConfirmSelect,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from tests.support.peer_pair import Content
from tests.support.stored_harness import StoredHarness
from tests.support.stream_clients import STREAM, declare, read, stream_of
from tests.support.stream_harness import numbered


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


# ---- declaring


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ({"durable": False}, 406, "invalid property 'non-durable'"),
        ({"durable": True, "exclusive": True}, 406, "invalid property 'exclusive-owner'"),
        ({"durable": True, "auto_delete": True}, 406, "invalid property 'auto-delete'"),
        ({"durable": True, "arguments": {**STREAM, "x-message-ttl": 5}}, 406, "invalid arg 'x-message-ttl'"),
        ({"durable": True, "arguments": {**STREAM, "x-max-age": "soon"}}, 406, "invalid arg 'x-max-age'"),
        ({"durable": True, "queue": ""}, 406, "cannot declare a server-named queue for type stream"),
    ],
)
def test_declarations_that_do_not_fit(harness: StoredHarness, more: dict[str, object], code: int, told: str) -> None:
    client = harness.client()
    client.send(QueueDeclare(**{"queue": "s", "arguments": STREAM, **more}))  # type: ignore[arg-type]
    found, text = client.error()
    assert found == code
    assert told in text
    assert "s" not in harness.vhost.queues


def test_a_stream_is_not_declared_again_as_something_else(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client, max_age="1h")
    declare(client, max_age="1h")
    client.send(QueueDeclare("s", durable=True, arguments={**STREAM, "x-max-age": "2h"}))
    code, text = client.error()
    assert (code, "inequivalent arg 'x-max-age'" in text) == (406, True)
    client = harness.client()
    client.send(QueueDeclare("s", durable=True))
    code, text = client.error()
    assert (code, "inequivalent arg 'x-queue-type'" in text) == (406, True)


def test_declare_ok_counts_what_is_confirmed_and_who_reads(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", b"a", b"b")
    client.qos(10)
    client.consume("s")
    answer = client.declare("s", passive=True)
    assert (answer.message_count, answer.consumer_count) == (2, 1)


def test_a_stream_in_use_or_not_empty_is_spared(harness: StoredHarness) -> None:
    for flags in ({"if_unused": True}, {"if_empty": True}):
        client = harness.client()
        declare(client)
        client.publish("s", b"a")
        client.qos(10)
        client.consume("s")
        client.heard()
        client.send(QueueDelete("s", **flags))
        assert client.error()[0] == 406


@pytest.mark.parametrize(
    ("prefetch", "no_ack", "code", "told"),
    [
        (0, False, 406, "consumer prefetch count is not set for stream queue 's' in vhost '/'"),
        (0, True, 406, "consumer prefetch count is not set for stream queue 's' in vhost '/'"),
        (10, True, 540, "automatic acknowledgement not supported by stream queue 's' in vhost '/'"),
    ],
)
def test_consuming_as_streams_cannot(harness: StoredHarness, prefetch: int, no_ack: bool, code: int, told: str) -> None:
    client = harness.client()
    declare(client)
    client.qos(prefetch)
    client.consume("s", no_ack=no_ack)
    found, text = client.error()
    assert found == code
    assert told in text
    assert len(harness.queue("s").consumers) == 0


def test_a_shared_prefetch_is_one_too(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(10))
    client.qos(3, shared=True)
    client.consume("s", arguments={"x-stream-offset": "first"})
    assert client.bodies() == numbered(3)


def test_get_and_purge_close_the_connection(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", b"m")
    client.send(QueuePurge("s"))
    assert client.error()[0] == 540
    client = harness.client()
    assert client.get("s") is None
    assert harness.queue("s").ready == 1


# ---- confirms and transactions


def test_a_confirm_waits_for_the_journal_also_for_a_transient_message(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.ask(ConfirmSelect())
    harness.is_slow = True
    client.publish("s", b"m", delivery_mode=1)
    assert client.heard() == []
    harness.write()
    assert [type(what) for what in client.heard()] == [BasicAck]
    assert stream_of(harness).next_offset == 0, "the confirm does not wait for the stream's own files"
    harness.work()
    assert stream_of(harness).next_offset == 1


def test_a_transaction_is_read_when_it_is_committed(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.ask(TxSelect())
    client.publish("s", b"a", b"b")
    assert harness.queue("s").ready == 0
    client.ask(TxCommit())
    assert read(harness) == [(0, b"a"), (1, b"b")]


# ---- ways in


def test_dead_letters_go_to_a_stream_with_their_story(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.ask(
        QueueDeclare("q", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "s"})
    )
    client.publish("q", b"a", b"b", delivery_mode=2)
    client.consume("q")
    tags = [what.tag for what in client.heard() if isinstance(what, Content)]
    client.nack(tags[1], requeue=False)
    client.nack(tags[0], requeue=False)
    harness = harness.crashed().again()
    assert read(harness) == [(0, b"b"), (1, b"a")]
    assert harness.queue("q").ready == 0
    stream = stream_of(harness)
    headers = properties_of(stream.files.read(0, 1, 1)[0].messages[0][0]).headers or {}
    assert headers["x-first-death-queue"] == "q"


def test_a_fanout_to_a_stream_and_a_classic_queue(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.declare("q", durable=True)
    for queue in ("s", "q"):
        client.ask(QueueBind(queue, "amq.fanout"))
    before = len(harness.disk.content(_segment(harness)))
    body = b"x" * 5000
    client.feed(client.published("amq.fanout", "", body, delivery_mode=2))
    assert len(harness.disk.content(_segment(harness))) - before < 7000, "written to the journal once"
    assert read(harness) == [(0, body)]
    assert client.get("q") is not None
    harness.stopped()


def _segment(harness: StoredHarness) -> str:
    return f"journal/{[name for name in harness.disk.names('journal') if name.endswith('.seg')][-1]}"


# ---- policies


def test_policies_set_retention_and_leave_out_what_streams_cannot(harness: StoredHarness) -> None:
    declare(harness.client())
    definition = {"max-length-bytes": 5000, "max-age": "1h", "message-ttl": 5000, "dead-letter-exchange": "x"}
    harness.broker.policies.set("/", "p", ".*", definition, apply_to="queues")
    stream = stream_of(harness)
    assert (stream.retention.max_bytes, stream.retention.max_age) == (5000, 3600)
    declare(harness.client(), "later")
    assert stream_of(harness, "later").retention.max_age == 3600
    harness.broker.policies.delete("/", "p")
    assert stream.retention.max_age is None
    harness.broker.policies.set("/", "p", ".*", {"max-age": "5m"}, apply_to="streams")
    assert stream.retention.max_age == 300
    harness = harness.stopped().again()
    assert stream_of(harness).retention.max_age == 300
