"""Resizing in order: what is held, until when, and where it goes then."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.sharding.slots import SLOTS, slot_of
from leveret.wire.methods import TxCommit, TxCommitOk, TxSelect, TxSelectOk
from tests.support.peer_pair import Client, Content, Harness, split_frames
from tests.support.shards import Shards, send


@pytest.fixture
def shards(harness: Harness) -> Shards:
    made = Shards(harness)
    made.ordered(1)
    return made


@pytest.fixture
def client(harness: Harness, shards: Shards) -> Client:
    return harness.client()


def moving_key(shards: Shards, *, to: str = "sharding: images - harness - 1") -> str:
    """A key whose slot belongs to that shard."""
    return next(key for key in map(str, range(10_000)) if shards.slots().owner(slot_of(key)) == to)


def drain(client: Client, shards: Shards, index: int) -> list[bytes]:
    bodies = []
    while (got := client.get(shards.names(index + 1)[index])) is not None:
        bodies.append(got.body)
        client.ack(got.tag)
    return bodies


def test_slots_are_dealt_evenly(shards: Shards) -> None:
    shards.ordered(3)
    counts = Counter(shards.slots().owner(slot) for slot in range(SLOTS))
    assert sorted(counts.values()) == [341, 341, 342]


def test_while_shards_are_empty_nothing_is_held(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    assert shards.slots().is_settled
    send(client, moving_key(shards), b"new")
    assert shards.counts() == [0, 1]


def test_new_messages_of_a_moved_slot_wait_until_the_old_ones_are_acked(client: Client, shards: Shards) -> None:
    """Ready, unacked or returned: they are all waited for."""
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1", b"2")
    shards.ordered(2)
    send(client, key, b"3", b"4")
    assert (shards.counts(), shards.held()) == ([2, 0], 2)
    first, second = client.get(shards.names(1)[0]), client.get(shards.names(1)[0])
    assert first is not None
    assert second is not None
    client.ack(second.tag)
    client.nack(first.tag)
    send(client, key, b"5")
    assert (shards.counts(), shards.held()) == ([1, 0], 3)
    assert drain(client, shards, 0) == [b"1"]
    assert (shards.counts(), shards.held()) == ([0, 3], 0)
    send(client, key, b"6")
    assert drain(client, shards, 1) == [b"3", b"4", b"5", b"6"]
    assert shards.slots().is_settled


def test_slots_that_stay_are_not_held(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    staying = moving_key(shards, to=shards.names(1)[0])
    shards.ordered(1)
    send(client, staying, b"1")
    shards.ordered(2)
    send(client, staying, b"2")
    assert (shards.counts(), shards.held()) == ([2, 0], 0)


def test_what_comes_to_the_old_shard_later_is_not_waited_for(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    moving, staying = moving_key(shards), moving_key(shards, to=shards.names(1)[0])
    shards.ordered(1)
    send(client, staying, b"old")
    shards.ordered(2)
    send(client, moving, b"held")
    send(client, staying, b"later")
    got = client.get(shards.names(1)[0])
    assert got is not None
    client.ack(got.tag)
    assert (shards.counts(), shards.held()) == ([1, 1], 0)


def test_a_shard_that_loses_all_slots_is_unbound_drained_and_stays(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    send(client, key, b"1")
    shards.ordered(1)
    assert shards.bound() == shards.names(1)
    assert shards.slots().draining == [shards.names(2)[1]]
    send(client, key, b"2")
    assert (shards.counts(), shards.held()) == ([0, 1], 1)
    assert drain(client, shards, 1) == [b"1"]
    assert (shards.counts(), shards.held()) == ([1, 0], 0)
    assert shards.slots().draining == []


def test_a_second_resize_sends_what_is_held_elsewhere(client: Client, shards: Shards) -> None:
    shards.ordered(4)
    key = moving_key(shards, to=shards.names(4)[3])
    shards.ordered(1)
    send(client, key, b"1")
    shards.ordered(4)
    send(client, key, b"2")
    shards.ordered(2)
    send(client, key, b"3")
    assert shards.held() == 2 or shards.slots().owner(slot_of(key)) == shards.names(1)[0]
    assert drain(client, shards, 0)[0] == b"1"
    owner = shards.names(4).index(shards.slots().owner(slot_of(key)))
    assert owner < 2
    assert shards.held() == 0


def test_slots_that_come_back_before_they_went_are_not_held_any_longer(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1")
    shards.ordered(2)
    send(client, key, b"2")
    shards.ordered(1)
    send(client, key, b"3")
    assert drain(client, shards, 0) == [b"1", b"2", b"3"]
    assert shards.held() == 0


def test_a_deleted_shard_is_waited_for_no_more(client: Client, harness: Harness, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    send(client, key, b"lost")
    shards.ordered(1)
    send(client, key, b"held")
    harness.vhost.delete_queue(shards.names(2)[1])
    harness.turn()
    assert drain(client, shards, 0) == [b"held"]


def test_the_slots_of_a_deleted_shard_go_to_the_others(client: Client, harness: Harness, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    harness.vhost.delete_queue(shards.names(2)[1])
    send(client, key, b"here")
    assert drain(client, shards, 0) == [b"here"]


def test_without_any_shard_messages_are_unroutable_and_what_is_held_is_kept(
    client: Client, harness: Harness, shards: Shards
) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    send(client, key, b"1")
    shards.ordered(1)
    send(client, key, b"2")
    for name in shards.names(2):
        harness.vhost.delete_queue(name)
    harness.turn()
    send(client, key, b"nowhere")
    assert shards.held() == 1
    shards.policy(2, ordered_resize=True, routing_key="again")
    assert [drain(client, shards, index) for index in range(2)] in ([[b"2"], []], [[], [b"2"]])


def test_order_can_be_asked_for_later_and_with_fewer_shards(client: Client, shards: Shards) -> None:
    """A power of two has its keys where they were."""
    shards.policy(4)
    for number in range(40):
        send(client, f"key{number}", b"%d" % number)
    places = [shards.where(b"%d" % number) for number in range(40)]
    assert min(shards.counts()) > 0
    shards.ordered(2)
    for number in range(40):
        send(client, f"key{number}", b"again")
    assert shards.held() == sum(place[0] >= 2 for place in places)
    for index in (2, 3):
        drain(client, shards, index)
    assert shards.held() == 0
    assert shards.slots().is_settled


def test_queues_that_users_bind_are_shards_too(client: Client, harness: Harness, shards: Shards) -> None:
    client.declare("mine")
    harness.vhost.bind(Binding("images", Destination("queue", "mine"), "any"))
    key = moving_key(shards, to="mine")
    send(client, key, b"to mine")
    assert client.count("mine") == 1


def test_exchanges_and_selectors_cannot_be_bound(harness: Harness, shards: Shards) -> None:
    for binding in (
        Binding("images", Destination("exchange", "amq.direct"), ""),
        Binding("images", Destination("queue", shards.names(1)[0]), "", {"x-selector": "a = 1"}),
    ):
        with pytest.raises(PreconditionFailed, match="resized in order by a policy"):
            harness.vhost.bind(binding)


@pytest.mark.parametrize("end", ["policy", "key", "exchange"])
def test_when_order_is_no_longer_asked_for_what_is_held_goes_on(
    client: Client, harness: Harness, shards: Shards, end: str
) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1")
    shards.ordered(2)
    send(client, key, b"2")
    if end == "policy":
        shards.clear()
    elif end == "key":
        shards.policy(2)
    else:
        harness.vhost.delete_exchange("images")
        harness.turn()
    assert (shards.counts(), shards.held()) == ([1, 1], 0)
    assert not [name for name in harness.vhost.internal.queues if ".held." in name]
    assert harness.vhost.hidden == {}


def test_nobody_reaches_a_hold_by_its_name(client: Client, harness: Harness, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1")
    shards.ordered(2)
    send(client, key, b"2")
    (name,) = [name for name in harness.vhost.internal.queues if ".held." in name]
    client.publish(name, b"foreign")
    assert shards.held() == 1


# ---- publishes that were routed before the resize


def test_content_that_comes_after_a_resize_goes_where_the_slot_is_then(
    client: Client, harness: Harness, shards: Shards
) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1")
    method, *content = split_frames(client.published("images", key, b"2"))
    client.feed(method)
    shards.ordered(2)
    client.feed(b"".join(content))
    assert (shards.counts(), shards.held()) == ([1, 0], 1)


def test_what_is_committed_after_a_resize_goes_where_the_slot_is_then(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1")
    assert client.ask(TxSelect()) == TxSelectOk()
    send(client, key, b"2")
    shards.ordered(2)
    assert client.ask(TxCommit()) == TxCommitOk()
    assert (shards.counts(), shards.held()) == ([1, 0], 1)


# ---- consumers


def test_consumers_of_the_name_take_from_draining_shards_too(client: Client, harness: Harness, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    send(client, key, b"1")
    shards.ordered(1)
    send(client, key, b"2")
    other = harness.client()
    other.consume("images", "late")
    (first,) = other.heard()
    assert isinstance(first, Content)
    assert first.body == b"1"
    other.ack(first.tag)
    assert other.bodies() == [b"2"]
    assert shards.consumers() == [1, 0]


def test_consumers_stay_even_when_shards_come_and_go(harness: Harness, shards: Shards) -> None:
    client = harness.client()
    for number in range(8):
        client.consume("images", f"tag{number}")
    assert shards.consumers() == [8]
    shards.ordered(4)
    assert shards.consumers() == [2, 2, 2, 2]
    shards.ordered(3)
    assert sorted(shards.consumers()) == [0, 2, 3, 3]
    shards.ordered(8)
    assert shards.consumers() == [1] * 8


def test_get_prefers_a_draining_shard_among_equals(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    send(client, moving_key(shards), b"old")
    shards.ordered(1)
    got = client.get("images")
    assert got is not None
    assert got.body == b"old"


# ---- what a hold does to messages


def test_a_shard_that_refuses_more_takes_what_was_confirmed_already(client: Client, harness: Harness) -> None:
    shards = Shards(harness)
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    definition = {"max-length": 1, "overflow": "reject-publish"}
    harness.broker.policies.set("/", "limits", "^sharding", definition, apply_to="queues")
    send(client, key, b"1")
    shards.ordered(2)
    send(client, key, b"2", b"3", b"4")
    drain(client, shards, 0)
    assert drain(client, shards, 1) == [b"2", b"3", b"4"]


def test_the_row_of_a_durable_exchange_says_where_slots_are(harness: Harness) -> None:
    shards = Shards(harness, durable=True)
    shards.ordered(2)
    value = harness.vhost.parameters.get("sharding", "images")
    assert value is not None
    row = json.loads(value)
    assert row["shards"] == shards.names(2)
    assert Counter(row["owners"]) == {0: 512, 1: 512}
    shards.clear()
    assert harness.vhost.parameters.get("sharding", "images") is None


def test_publish_by_mandatory_to_a_held_slot_is_routed(client: Client, shards: Shards) -> None:
    shards.ordered(2)
    key = moving_key(shards)
    shards.ordered(1)
    send(client, key, b"1")
    shards.ordered(2)
    send(client, key, b"2", mandatory=True)
    assert client.heard() == []
    assert shards.held() == 1
