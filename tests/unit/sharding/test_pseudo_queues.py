"""The name of a sharded exchange as a queue: which shard each method reaches, and which methods are refused."""

from __future__ import annotations

import pytest

from leveret.broker.interceptors import InterceptContext
from leveret.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.support.peer_pair import Client, Content, Harness
from tests.support.shards import Shards, send


@pytest.fixture
def shards(harness: Harness) -> Shards:
    made = Shards(harness)
    made.policy(3)
    return made


@pytest.fixture
def client(harness: Harness, shards: Shards) -> Client:
    return harness.client()


def key_for(shards: Shards, client: Client, index: int) -> str:
    """A routing key that leads to this shard."""
    for number in range(100):
        before = shards.counts()[index]
        send(client, f"probe{number}", b"probe")
        found = shards.counts()[index] > before
        for each in range(shards.number()):
            shards.queue(each).purge()
        if found:
            return f"probe{number}"
    raise AssertionError("no key leads there")


@pytest.mark.feature("S2-14")
def test_a_consumer_gets_the_shard_with_the_fewest_consumers(client: Client, shards: Shards) -> None:
    client.consume(shards.names(3)[0], "direct")
    client.consume("images", "a")
    client.consume("images", "b")
    assert shards.consumers() == [1, 1, 1]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.feature("S2-18")
def test_many_consumes_in_one_read_are_spread_evenly(client: Client, shards: Shards, ordered: bool) -> None:
    if ordered:
        shards.ordered(3)
    client.send(*(BasicConsume("images", f"tag{number}", nowait=True) for number in range(100)))
    assert sorted(shards.consumers()) == [33, 33, 34]


@pytest.mark.feature("S2-15")
def test_get_reads_from_the_shard_with_the_fewest_consumers(client: Client, shards: Shards) -> None:
    """It is empty if that one is, whatever is in the others."""
    key = key_for(shards, client, 2)
    for index in (0, 1):
        client.consume(shards.names(3)[index], f"tag{index}")
    send(client, key, b"here")
    got = client.get("images")
    assert got is not None
    assert got.body == b"here"
    client.ack(got.tag)
    client.consume(shards.names(3)[2], "tag2")
    assert client.ask(BasicGet("images")) == BasicGetEmpty()


@pytest.mark.feature("S2-16")
def test_with_three_shards_one_consumer_sees_a_part_and_three_see_all(client: Client, shards: Shards) -> None:
    client.consume("images", "a", no_ack=True)
    keys = [f"{number}" for number in range(60)]
    for key in keys:
        send(client, key, key.encode())
    seen = client.bodies()
    assert 0 < len(seen) < 60
    client.consume("images", "b", no_ack=True)
    client.consume("images", "c", no_ack=True)
    assert sorted(seen + client.bodies()) == sorted(key.encode() for key in keys)


@pytest.mark.feature("S2-17")
def test_order_holds_within_a_shard(client: Client, shards: Shards) -> None:
    for number in range(30):
        send(client, f"{number % 7}", b"%d" % number)
    client.consume("images", "all", no_ack=True, arguments={"x-shard-all": True})
    bodies = [int(body) for body in client.bodies()]
    assert sorted(bodies) == list(range(30))
    for key in range(7):
        own = [number for number in bodies if number % 7 == key]
        assert own == sorted(own)


@pytest.mark.feature("S2-19", "S2-20")
def test_a_declare_is_about_the_first_shard_whatever_it_asks_for(
    client: Client, harness: Harness, shards: Shards
) -> None:
    send(client, key_for(shards, client, 0), b"one", b"two")
    assert client.ask(QueueDeclare("images")) == QueueDeclareOk("images", 2, 0)
    assert client.ask(QueueDeclare("images", passive=True)) == QueueDeclareOk("images", 2, 0)
    assert client.ask(QueueDeclare("images", durable=True, exclusive=True)) == QueueDeclareOk("images", 2, 0)
    assert "images" not in harness.vhost.queues


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(QueueBind("images", "amq.direct", "k"), id="s2_21"),
        pytest.param(QueueUnbind("images", "amq.direct", "k"), id="s2_22"),
        pytest.param(QueuePurge("images"), id="s2_23"),
        pytest.param(QueueDelete("images"), id="s2_24"),
    ],
)
@pytest.mark.feature("S2-21", "S2-22", "S2-23", "S2-24")
def test_bind_unbind_purge_and_delete_are_refused(client: Client, shards: Shards, method: Method) -> None:
    client.send(method)
    code, text = client.error()
    assert code == 406
    assert text.startswith(f"PRECONDITION_FAILED - {method.NAME} is not possible on pseudo-queue 'images'")
    assert shards.bound() == shards.names(3)


@pytest.mark.feature("S2-27")
def test_without_the_policy_the_name_is_no_queue(client: Client, shards: Shards) -> None:
    shards.clear()
    client.send(BasicConsume("images", "tag"))
    assert client.error() == (404, "NOT_FOUND - no queue 'images' in vhost '/'")


def test_without_sharded_exchanges_no_method_is_looked_at(harness: Harness, shards: Shards) -> None:
    assert harness.broker.interceptors.concerns(BasicGet.id)
    shards.clear()
    assert not harness.broker.interceptors.concerns(BasicGet.id)
    shards.policy(1)
    assert harness.broker.interceptors.concerns(BasicGet.id)


def test_without_a_shard_of_this_node_there_is_nothing_to_consume_from(
    client: Client, harness: Harness, shards: Shards
) -> None:
    for name in shards.names(3):
        harness.vhost.delete_queue(name)
    client.send(BasicConsume("images", "tag", arguments={"x-shard-all": True}))
    assert client.error() == (404, "NOT_FOUND - no queue 'images' in vhost '/'")


def test_permissions_are_asked_for_the_shards(harness: Harness, shards: Shards) -> None:
    harness.user("by exchange", allowed="^images$")
    harness.user("by shard", allowed="^sharding: images ")
    for arguments in ({}, {"x-shard-all": True}):
        refused = harness.client("by exchange")
        refused.send(BasicConsume("images", "tag", arguments=arguments))
        assert refused.error()[0] == 403
        assert harness.client("by shard").ask(BasicConsume("images", "t", arguments=arguments)) == BasicConsumeOk("t")
    assert sum(shards.consumers()) == 4


@pytest.mark.feature("S2-25")
def test_users_interceptors_run_first_and_may_lead_to_a_pseudo_queue(
    client: Client, harness: Harness, shards: Shards
) -> None:
    def translate(context: InterceptContext, method: Method) -> Method:
        assert isinstance(method, BasicConsume)
        method.queue = method.queue.replace("pictures", "images")
        return method

    harness.broker.interceptors.register(BasicConsume, translate)
    client.consume("pictures")
    assert shards.consumers() == [1, 0, 0]


# ---- all shards by one consumer


def take_all(client: Client, **more: object) -> None:
    client.consume("images", "all", arguments={"x-shard-all": True, **more})


@pytest.mark.feature("S2-16")
def test_one_consumer_takes_all_shards_under_one_tag(client: Client, shards: Shards) -> None:
    take_all(client)
    assert shards.consumers() == [1, 1, 1]
    for number in range(30):
        send(client, f"{number}", b"%d" % number)
    heard = [what for what in client.heard() if isinstance(what, Content)]
    assert {what.method.consumer_tag for what in heard} == {"all"}
    assert [what.tag for what in heard] == list(range(1, 31))
    client.ack(30, multiple=True)
    assert [shards.queue(index).unacked for index in range(3)] == [0, 0, 0]


@pytest.mark.feature("S2-16")
def test_prefetch_counts_over_all_shards(client: Client, shards: Shards) -> None:
    client.qos(4)
    take_all(client)
    for number in range(30):
        send(client, f"{number}", b"")
    assert len(client.bodies()) == 4
    client.ack(3, multiple=True)
    assert len(client.bodies()) == 3
    client.nack(4)
    (again,) = client.heard()
    assert isinstance(again, Content)
    assert again.redelivered


@pytest.mark.feature("S2-16")
def test_cancel_leaves_all_shards_and_what_was_delivered_stays(client: Client, shards: Shards) -> None:
    take_all(client)
    for number in range(9):
        send(client, f"{number}", b"")
    client.send(BasicCancel("all", nowait=True))
    assert shards.consumers() == [0, 0, 0]
    assert sum(shards.queue(index).unacked for index in range(3)) == 9
    client.ack(9, multiple=True)
    assert sum(shards.queue(index).unacked for index in range(3)) == 0


@pytest.mark.feature("S2-16")
def test_new_shards_are_joined_also_those_of_other_nodes(client: Client, shards: Shards) -> None:
    take_all(client)
    shards.policy(5)
    shards.sharding.membership.join("other")
    assert shards.consumers() == [1] * 5
    assert len(shards.queue(4, "other").consumers) == 1


def test_the_consumer_lives_while_it_has_a_shard_and_is_cancelled_with_the_last(
    client: Client, harness: Harness, shards: Shards
) -> None:
    take_all(client)
    for name in shards.names(3)[:2]:
        harness.vhost.delete_queue(name)
    assert client.heard() == []
    harness.vhost.delete_queue(shards.names(3)[2])
    harness.turn()
    assert [what.NAME for what in client.heard() if isinstance(what, Method)] == ["basic.cancel"]


def test_an_exclusive_consumer_gets_all_shards_or_none(client: Client, harness: Harness, shards: Shards) -> None:
    client.consume(shards.names(3)[2], "direct")
    other = harness.client()
    other.send(BasicConsume("images", "all", exclusive=True, arguments={"x-shard-all": True}))
    assert other.error()[0] == 403
    assert shards.consumers() == [0, 0, 1]
    shards.policy(4)
    assert shards.consumers() == [0, 0, 1, 0]


def test_one_shot_consumer_gets_one_message_of_all_shards(client: Client, shards: Shards) -> None:
    for number in range(9):
        send(client, f"{number}", b"")
    take_all(client, **{"x-pull-one": True})
    assert len(client.bodies()) == 1
    assert shards.consumers() == [0, 0, 0]


def test_shard_all_is_true_or_false(client: Client) -> None:
    client.send(BasicConsume("images", "tag", arguments={"x-shard-all": "yes"}))
    assert client.error() == (406, "PRECONDITION_FAILED - invalid arg 'x-shard-all': 'yes' is not true or false")
    client.open_channel(2)
    assert client.ask(BasicConsume("images", "t", arguments={"x-shard-all": False}), 2) == BasicConsumeOk("t")


def test_the_peer_that_vanishes_leaves_all_shards_and_gives_back(client: Client, shards: Shards) -> None:
    take_all(client)
    send(client, "k", b"back")
    client.vanish()
    assert shards.consumers() == [0, 0, 0]
    assert sum(shards.counts()) == 1
