"""The sharding policy: queues that are made and bound, and what changes them."""

from __future__ import annotations

import pytest

from leveret.routing.exchange import Exchange
from leveret.wire.methods import BasicAck, ConfirmSelect, ConfirmSelectOk, QueueDelete
from tests.support.peer_pair import Content, Harness, split_frames
from tests.support.shards import Shards, send


@pytest.fixture
def shards(harness: Harness) -> Shards:
    return Shards(harness)


def exchange_of(harness: Harness) -> Exchange:
    return harness.vhost.exchange("images")


@pytest.mark.feature("S2-01", "S2-02")
def test_a_policy_makes_shards_and_binds_them_with_its_key(harness: Harness, shards: Shards) -> None:
    assert shards.bound() == []
    shards.policy(3, routing_key="k")
    assert shards.bound() == shards.names(3)
    assert {binding.key for binding in harness.vhost.bindings.of_source("images")} == {"k"}


@pytest.mark.feature("S2-03")
def test_without_a_key_they_are_bound_with_an_empty_one(harness: Harness, shards: Shards) -> None:
    shards.policy(1)
    assert [binding.key for binding in harness.vhost.bindings.of_source("images")] == [""]


@pytest.mark.feature("S2-04")
def test_names_have_exchange_node_and_number(shards: Shards) -> None:
    shards.policy(2)
    assert shards.bound() == ["sharding: images - harness - 0", "sharding: images - harness - 1"]


@pytest.mark.parametrize("durable", [False, True])
def test_shards_are_durable_if_the_exchange_is(harness: Harness, durable: bool) -> None:
    shards = Shards(harness, durable=durable)
    shards.policy(1)
    assert shards.queue(0).durable is durable


@pytest.mark.feature("S2-01")
def test_an_exchange_that_is_declared_later_is_sharded_too(harness: Harness, shards: Shards) -> None:
    harness.broker.policies.set("/", "p", "^late$", {"shards-per-node": 2})
    harness.vhost.declare_exchange("late", "x-modulus-hash")
    assert len(harness.vhost.bindings.of_source("late")) == 2


@pytest.mark.feature("S2-05", "S2-08")
def test_a_key_goes_to_one_shard_and_always_to_the_same(harness: Harness, shards: Shards) -> None:
    shards.policy(4)
    client = harness.client()
    for number in range(200):
        send(client, f"key{number % 20}", b"%d" % (number % 20))
    assert sum(shards.counts()) == 200
    assert min(shards.counts()) > 0
    for number in range(20):
        assert len(set(shards.where(b"%d" % number))) == 1


@pytest.mark.parametrize(
    ("kind", "key", "reached"),
    [("x-consistent-hash", None, 40), ("x-consistent-hash", "10", 40), ("x-random", None, 40), ("direct", "k1", 20)],
)
@pytest.mark.feature("S2-09")
def test_other_types_are_sharded_too(harness: Harness, kind: str, key: str | None, reached: int) -> None:
    """The keys of a consistent hash are weights; a direct exchange takes only what has the key: K copies of it."""
    shards = Shards(harness, kind)
    shards.policy(2, **({} if key is None else {"routing_key": key}))
    client = harness.client()
    for number in range(40):
        send(client, f"k{number % 4}", b"")
    assert sum(shards.counts()) == reached
    assert min(shards.counts()) > 0


@pytest.mark.feature("S2-09")
def test_a_fanout_exchange_ignores_the_key(harness: Harness) -> None:
    shards = Shards(harness, "fanout")
    shards.policy(2, routing_key="k")
    send(harness.client(), "other", b"")
    assert shards.counts() == [1, 1]


def test_a_key_that_the_exchange_refuses_is_said_and_harms_nobody(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    shards = Shards(harness, "x-consistent-hash")
    shards.policy(1, routing_key="no weight")
    assert shards.bound() == []
    assert "shard cannot be declared" in caplog.text


def test_ordered_resize_on_another_type_is_said_and_has_no_effect(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    shards = Shards(harness, "x-random")
    shards.ordered(3)
    shards.ordered(1)
    assert shards.bound() == shards.names(3)
    assert "ordered-resize has no effect" in caplog.text


@pytest.mark.feature("S2-11")
def test_a_node_that_joins_gets_shards(shards: Shards) -> None:
    shards.policy(2)
    shards.sharding.membership.join("other")
    assert shards.bound() == shards.names(2) + shards.names(2, "other")
    shards.sharding.membership.join("other")
    assert len(shards.bound()) == 4


@pytest.mark.feature("S2-12")
def test_old_messages_stay_and_new_ones_spread_over_all(harness: Harness, shards: Shards) -> None:
    shards.policy(1)
    client = harness.client()
    for number in range(100):
        send(client, f"{number}", b"old")
    shards.policy(4)
    assert shards.counts() == [100, 0, 0, 0]
    for number in range(100):
        send(client, f"{number}", b"new")
    assert min(shards.counts()[1:]) > 0
    assert sum(shards.counts()) == 200


@pytest.mark.feature("S2-13")
def test_the_shards_of_a_node_that_leaves_are_unbound_and_stay(harness: Harness, shards: Shards) -> None:
    shards.policy(2)
    shards.sharding.membership.join("other")
    shards.sharding.membership.leave("other")
    assert shards.bound() == shards.names(2)
    assert shards.queue(1, "other").alive


@pytest.mark.feature("S2-13")
def test_confirms_and_returns_tell_of_what_was_under_way_when_the_node_left(harness: Harness, shards: Shards) -> None:
    """Its queue is unbound: the message is there all the same. Its queue is gone: the message is returned."""
    shards.policy(1)
    shards.sharding.membership.join("other")
    client = harness.client()
    assert client.ask(ConfirmSelect()) == ConfirmSelectOk()
    far = shards.names(1, "other")[0]
    key = next(
        key for key in map(str, range(100)) if harness.vhost.route(exchange_of(harness), (key,), {}).queues == [far]
    )
    method, *content = split_frames(client.published("images", key, b"1", mandatory=True))
    client.feed(method)
    shards.sharding.membership.leave("other")
    client.feed(b"".join(content))
    assert client.heard() == [BasicAck(1)]
    assert shards.queue(0, "other").ready == 1
    shards.sharding.membership.join("other")
    client.feed(method)
    shards.sharding.membership.leave("other")
    harness.vhost.delete_queue(far)
    client.feed(b"".join(content))
    returned, ack = client.heard()
    assert isinstance(returned, Content)
    assert ack == BasicAck(2)


@pytest.mark.feature("S2-27")
def test_a_larger_number_adds_shards_and_a_smaller_one_changes_nothing(shards: Shards) -> None:
    shards.policy(2)
    shards.policy(4)
    assert shards.bound() == shards.names(4)
    shards.policy(1)
    assert shards.bound() == shards.names(4)


@pytest.mark.feature("S2-27")
def test_clearing_the_policy_ends_management_and_queues_stay(harness: Harness, shards: Shards) -> None:
    shards.policy(2)
    shards.clear()
    assert shards.bound() == shards.names(2)
    shards.sharding.membership.join("other")
    assert shards.bound() == shards.names(2)
    client = harness.client()
    client.send(QueueDelete("images"))
    assert shards.number() == 2


@pytest.mark.feature("S2-27")
def test_sharded_false_ends_management_as_clearing_does(shards: Shards) -> None:
    shards.policy(2)
    shards.policy(3, sharded=False)
    assert shards.bound() == shards.names(2)
    shards.policy(3, sharded=True)
    assert shards.bound() == shards.names(3)


def test_shards_outlive_their_exchange(harness: Harness, shards: Shards) -> None:
    shards.policy(2)
    harness.vhost.delete_exchange("images")
    assert shards.number() == 2
    harness.vhost.declare_exchange("images", "x-modulus-hash")
    assert shards.bound() == shards.names(2)


def test_another_key_takes_the_place_of_the_old_one(harness: Harness, shards: Shards) -> None:
    shards.policy(2, routing_key="a")
    shards.policy(2, routing_key="b")
    assert [binding.key for binding in harness.vhost.bindings.of_source("images")] == ["b", "b"]


def test_a_vhost_that_may_have_no_more_queues_gets_as_many_as_it_may(harness: Harness, shards: Shards) -> None:
    harness.broker.limit_vhost("/", max_queues=2, max_connections=None)
    shards.policy(3)
    assert shards.bound() == shards.names(2)


def test_a_vhost_with_sharded_exchanges_can_be_deleted(harness: Harness, shards: Shards) -> None:
    shards.ordered(2)
    send(harness.client(), "k", b"waits")
    harness.broker.delete_vhost("/")
    assert shards.sharding.find("/", "images") is None
