"""Ordered resizing over lives: rows, holds and slots, after a stop and after a power cut at any time."""

from __future__ import annotations

import pytest

from leveret.sharding.sharding import Sharding
from leveret.sharding.slots import slot_of
from tests.support.peer_pair import Client
from tests.support.shards import Shards, send
from tests.support.stored_harness import StoredHarness, StoredLife


def again(life: StoredLife) -> Shards:
    """The next life; the exchange and its policy come from the disk."""
    return Shards(life.again(), durable=True)


def begun() -> Shards:
    return Shards(StoredHarness(queue_memory=4096), durable=True)


def put(client: Client, key: str, *numbers: int) -> None:
    send(client, key, *(b"%d" % number for number in numbers), delivery_mode=2)


def holding() -> tuple[Shards, str]:
    """Message 1 of a key is in shard 0, messages 2 and 3 are held until it is gone; they will go to shard 1."""
    shards = begun()
    client = shards.harness.client()
    shards.ordered(1)
    shards.ordered(2)
    owners = shards.slots()
    key = next(key for key in map(str, range(1000)) if owners.owner(slot_of(key)) == shards.names(2)[1])
    shards.ordered(1)
    put(client, key, 1)
    shards.ordered(2)
    put(client, key, 2, 3)
    assert (shards.counts(), shards.held()) == ([1, 0], 2)
    return shards, key


def stored(shards: Shards) -> StoredHarness:
    assert isinstance(shards.harness, StoredHarness)
    return shards.harness


def take(shards: Shards, index: int) -> list[bytes]:
    client = shards.harness.client()
    bodies = []
    while (got := client.get(shards.names(index + 1)[index])) is not None:
        bodies.append(got.body)
        client.ack(got.tag)
    return bodies


@pytest.mark.parametrize("end", ["stopped", "crashed"])
def test_what_is_held_is_held_in_the_next_life(end: str) -> None:
    shards, key = holding()
    harness = stored(shards)
    shards = again(harness.stopped() if end == "stopped" else harness.crashed())
    put(shards.harness.client(), key, 4)
    assert (shards.counts(), shards.held()) == ([1, 0], 3)
    assert take(shards, 0) == [b"1"]
    assert take(shards, 1) == [b"2", b"3", b"4"]
    assert shards.slots().is_settled


def write_before_the_turn(harness: StoredHarness) -> None:
    """What was recorded until now is on disk; what the turn would do is not done."""
    harness.is_slow = True
    harness.store.journal.hand_over()
    while harness.store.write():
        pass


def test_a_hold_that_moves_goes_on_in_the_next_life_whatever_is_in_the_old_shard() -> None:
    """What is there came after the mark, and has other keys."""
    shards, _ = holding()
    harness = stored(shards)
    old = shards.queue(0)
    taken = old.get(False)
    assert taken is not None
    staying = next(key for key in map(str, range(1000)) if shards.slots().owner(slot_of(key)) == old.name)
    put(harness.client(), staying, 7)
    old.settle(taken.lane, taken.sequence, [taken.message])
    write_before_the_turn(harness)
    assert shards.held() == 2
    shards = again(harness.crashed())
    assert shards.held() == 0
    assert (take(shards, 0), take(shards, 1)) == ([b"7"], [b"2", b"3"])


def test_shards_are_found_and_not_made_twice() -> None:
    shards = begun()
    shards.ordered(3)
    owners = [shards.slots().owner(slot) for slot in range(1024)]
    shards = again(stored(shards).stopped())
    assert shards.bound() == shards.names(3)
    assert [shards.slots().owner(slot) for slot in range(1024)] == owners


def test_the_shards_of_other_nodes_stay_bound_until_those_leave() -> None:
    shards = begun()
    shards.ordered(2)
    shards.sharding.membership.join("other")
    shards = again(stored(shards).stopped())
    assert len(shards.bound()) == 4
    shards.sharding.membership.join("other")
    shards.sharding.membership.leave("other")
    assert shards.bound() == shards.names(2)


def test_what_an_exchange_held_goes_on_if_it_is_not_ordered_any_more() -> None:
    """The policy was cleared, and the power cut before the hold was empty."""
    shards, _ = holding()
    harness = stored(shards)
    harness.broker.policies.delete("/", "shards")
    write_before_the_turn(harness)
    assert shards.held() == 2
    shards = again(harness.crashed())
    assert shards.held() == 0
    assert take(shards, 0) + take(shards, 1) == [b"1", b"2", b"3"]
    assert stored(shards).vhost.parameters.get("sharding", "images") is None


@pytest.mark.parametrize("back", ["policy", "exchange"])
def test_order_that_is_asked_for_again_before_the_hold_is_empty_goes_on(back: str) -> None:
    """The hold is on disk, and the disk is slow: it has not moved when the policy, or the exchange, is there again."""
    shards, key = holding()
    harness = stored(shards)
    client = harness.client()
    put(client, key, *range(4, 304))
    shards.queue(0).touch()
    (hold,) = [queue for name, queue in harness.vhost.internal.queues.items() if ".held." in name]
    assert hold.lane.paged > 0
    harness.is_slow = True
    if back == "policy":
        shards.clear()
        shards.ordered(2)
    else:
        harness.vhost.delete_exchange("images")
        harness.vhost.declare_exchange("images", "x-modulus-hash", durable=True)
    assert shards.held() > 0
    put(client, key, 304)
    harness.is_slow = False
    harness.rest()
    assert shards.held() == 0
    assert shards.slots().is_settled
    assert take(shards, 1) == [b"%d" % number for number in range(2, 305)]
    assert harness.vhost.parameters.get("sharding", "images") is not None


def test_sharding_starts_without_any_exchange() -> None:
    Sharding(StoredHarness().broker).start()
