"""Looking into streams, and streams that are the partitions of one."""

from __future__ import annotations

import pytest

from leveret.broker.queue_jobs import Browse, Delete, Forward, Redrive, Scope, matching
from leveret.broker.super_streams import partitions_of
from leveret.errors import NotFound, PreconditionFailed
from leveret.queues.stream import StreamQueue
from leveret.wire.content import body_of, properties_of
from leveret.wire.methods import (
    ExchangeDeclare,
    QueueBind,
)
from tests.support.peer_pair import Content
from tests.support.shards import Shards
from tests.support.stored_harness import StoredHarness
from tests.support.stream_clients import declare
from tests.support.stream_harness import numbered


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


# ---- looking, and what people do to messages


def test_a_stream_can_be_looked_into(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.publish("s", *numbered(1200))
    background = harness.broker.background
    job = Browse(harness.queue("s"), background, Scope(limit=700))
    job.start()
    harness.turn()
    assert job.is_over
    assert [body_of(seen.message[0]) for seen in job.found] == numbered(700)
    assert properties_of(job.found[5].message[0]).headers == {"x-stream-offset": 5}
    everything = Browse(harness.queue("s"), background)
    everything.start()
    harness.turn()
    assert (everything.is_over, everything.examined) == (True, 1200)
    assert harness.queue("s").ready == 1200


def test_an_empty_stream_can_be_looked_into(harness: StoredHarness) -> None:
    declare(harness.client())
    job = Browse(harness.queue("s"), harness.broker.background, Scope(only=matching("n = 1")))
    job.start()
    harness.turn()
    assert (job.is_over, job.found) == (True, [])


def test_messages_of_a_stream_are_copied_and_never_taken(harness: StoredHarness) -> None:
    client = harness.client()
    declare(client)
    client.declare("q", durable=True)
    client.publish("s", *numbered(20))
    queue, vhost, background = harness.queue("s"), harness.vhost, harness.broker.background
    with pytest.raises(PreconditionFailed, match="messages of stream 's' in vhost '/' cannot be moved or deleted"):
        Delete(queue, background)
    with pytest.raises(PreconditionFailed, match="cannot be moved"):
        Forward(vhost, queue, background, "", "q")
    with pytest.raises(PreconditionFailed, match="cannot be moved"):
        Redrive(vhost, queue, background, harness.broker.timers)
    job = Forward(vhost, queue, background, "", "q", Scope(limit=5), keeps=True)
    job.start()
    harness.turn()
    assert (job.is_over, job.done) == (True, 5)
    assert (harness.queue("q").ready, queue.ready) == (5, 20)


# ---- partitions


def test_a_policy_shards_an_exchange_over_streams(harness: StoredHarness) -> None:
    shards = Shards(harness, durable=True)
    shards.policy(3, shard_queue_type="stream")
    assert all(isinstance(shards.queue(index), StreamQueue) for index in range(3))
    client = harness.client()
    for number in range(60):
        client.feed(client.published("images", f"key{number % 20}", b"%d" % number))
    assert sum(shards.counts()) == 60
    assert [queue.name for queue in partitions_of(harness.vhost, "images")] == shards.names(3)
    client.qos(1000)
    client.consume("images", arguments={"x-shard-all": True, "x-stream-offset": "first"})
    found = [what for what in client.heard() if isinstance(what, Content)]
    assert sorted(int(each.body) for each in found) == list(range(60))
    for key in range(20):
        assert [int(each.body) for each in found if int(each.body) % 20 == key] == [key, key + 20, key + 40]


def test_streams_are_never_waited_for_when_shards_change(harness: StoredHarness) -> None:
    """An ordered resize holds messages back until the old shard is empty, which a stream never is."""
    shards = Shards(harness, durable=True)
    shards.policy(2, shard_queue_type="stream", ordered_resize=True)
    client = harness.client()
    for number in range(40):
        client.feed(client.published("images", f"key{number}", b"%d" % number))
    shards.policy(4, shard_queue_type="stream", ordered_resize=True)
    shards.policy(4, ordered_resize=True)  # the streams are there already
    shards.policy(5, ordered_resize=True)
    for number in range(40):
        client.feed(client.published("images", f"key{number}", b"%d" % number))
    assert sum(shards.counts()) == 80


def test_a_super_stream_as_rabbitmq_declares_it(harness: StoredHarness) -> None:
    client = harness.client()
    client.ask(ExchangeDeclare("invoices", "direct", durable=True, arguments={"x-super-stream": True}))
    for number in (2, 0, 1):
        declare(client, f"invoices-{number}")
        order = {"x-stream-partition-order": number}
        client.ask(QueueBind(f"invoices-{number}", "invoices", str(number), arguments=order))
    assert [queue.name for queue in partitions_of(harness.vhost, "invoices")] == [f"invoices-{n}" for n in range(3)]
    harness = harness.stopped().again()
    assert [queue.name for queue in partitions_of(harness.vhost, "invoices")] == [f"invoices-{n}" for n in range(3)]


def test_partitions_without_an_order_are_sorted_by_key_or_name(harness: StoredHarness) -> None:
    client = harness.client()
    client.ask(ExchangeDeclare("x", "direct", durable=True))
    for name, key in (("b", "10"), ("c", "9"), ("a", "amer"), ("d", "emea")):
        declare(client, name)
        client.ask(QueueBind(name, "x", key))
    assert [queue.name for queue in partitions_of(harness.vhost, "x")] == ["c", "b", "a", "d"]


def test_what_is_no_super_stream(harness: StoredHarness) -> None:
    client = harness.client()
    client.ask(ExchangeDeclare("x", "direct", durable=True))
    with pytest.raises(NotFound, match="super stream 'x' in vhost '/' has no partitions"):
        partitions_of(harness.vhost, "x")
    with pytest.raises(NotFound, match="no exchange 'nobody'"):
        partitions_of(harness.vhost, "nobody")
    declare(client)
    client.declare("q", durable=True)
    for name in ("s", "q"):
        client.ask(QueueBind(name, "x", name))
    with pytest.raises(PreconditionFailed, match="queue 'q' is not a stream"):
        partitions_of(harness.vhost, "x")
