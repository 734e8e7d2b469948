"""Ordered resizing over lives: rows, holds and slots, after a stop and after a power cut at any time."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from leveret.sharding.sharding import Sharding
from leveret.sharding.slots import slot_of
from leveret.wire.methods import BasicReturn
from tests.support.peer_pair import Client, Content
from tests.support.shards import Shards, send
from tests.support.stored_house import StoredHouse, StoredLife


def again(life: StoredLife) -> Shards:
    """The next life; the exchange and its policy come from the disk."""
    return Shards(life.again(), durable=True)


def begun() -> Shards:
    return Shards(StoredHouse(queue_memory=4096), durable=True)


def put(client: Client, key: str, *numbers: int) -> None:
    send(client, key, *(b"%d" % number for number in numbers), delivery_mode=2)


def holding() -> tuple[Shards, str]:
    """Message 1 of a key is in shard 0, messages 2 and 3 are held until it is gone; they will go to shard 1."""
    shards = begun()
    client = shards.house.client()
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


def stored(shards: Shards) -> StoredHouse:
    assert isinstance(shards.house, StoredHouse)
    return shards.house


def take(shards: Shards, index: int) -> list[bytes]:
    client = shards.house.client()
    bodies = []
    while (got := client.get(shards.names(index + 1)[index])) is not None:
        bodies.append(got.body)
        client.ack(got.tag)
    return bodies


@pytest.mark.parametrize("end", ["stopped", "crashed"])
def test_what_is_held_is_held_in_the_next_life(end: str) -> None:
    shards, key = holding()
    house = stored(shards)
    shards = again(house.stopped() if end == "stopped" else house.crashed())
    put(shards.house.client(), key, 4)
    assert (shards.counts(), shards.held()) == ([1, 0], 3)
    assert take(shards, 0) == [b"1"]
    assert take(shards, 1) == [b"2", b"3", b"4"]
    assert shards.slots().is_settled


def write_before_the_turn(house: StoredHouse) -> None:
    """What was recorded until now is on disk; what the turn would do is not done."""
    house.is_slow = True
    house.store.journal.hand_over()
    while house.store.write():
        pass


def test_a_hold_that_moves_goes_on_in_the_next_life_whatever_is_in_the_old_shard() -> None:
    """What is there came after the mark, and has other keys."""
    shards, _ = holding()
    house = stored(shards)
    old = shards.queue(0)
    taken = old.get(False)
    assert taken is not None
    staying = next(key for key in map(str, range(1000)) if shards.slots().owner(slot_of(key)) == old.name)
    put(house.client(), staying, 7)
    old.settle(taken.lane, taken.sequence, [taken.message])
    write_before_the_turn(house)
    assert shards.held() == 2
    shards = again(house.crashed())
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
    house = stored(shards)
    house.broker.policies.delete("/", "shards")
    write_before_the_turn(house)
    assert shards.held() == 2
    shards = again(house.crashed())
    assert shards.held() == 0
    assert take(shards, 0) + take(shards, 1) == [b"1", b"2", b"3"]
    assert stored(shards).vhost.parameters.get("sharding", "images") is None


# ---- any order of events


class Story:
    """Publishes numbers per key, takes them, resizes and cuts the power at random; each key's order is watched."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shards = begun()
        self.shards.ordered(2)
        self.sent: dict[str, int] = defaultdict(int)
        self.done: dict[str, int] = defaultdict(int)  # the last number of each key that was acked
        self.begin()

    def begin(self) -> None:
        self.publisher = self.shards.house.client()
        self.consumer = self.shards.house.client()
        self.consumer.qos(20)
        self.consumer.consume("images", "all", arguments={"x-shard-all": True})
        self.unacked: list[tuple[int, str, int]] = []
        self.seen: dict[str, set[int]] = defaultdict(set)  # in this life
        self.done_before = defaultdict(int, self.done)  # in earlier ones: a crash may bring them back

    def step(self) -> None:
        action = self.random.choices(
            [self.publish, self.consume, self.resize, self.cut, self.restore], weights=[30, 30, 6, 1, 1]
        )[0]
        action()

    def publish(self) -> None:
        for _ in range(self.random.randrange(1, 30)):
            key = f"key{self.random.randrange(12)}"
            self.sent[key] += 1
            put(self.publisher, key, self.sent[key])

    def resize(self) -> None:
        self.shards.ordered(self.random.randrange(1, 6))

    def consume(self) -> None:
        self.hear()
        for tag, key, number in self.unacked:
            if number <= self.done[key]:
                assert number <= self.done_before[key], f"{key} {number} came twice"
                self.consumer.ack(tag)
            elif number > self.done[key] + 1 or self.random.random() < 0.1:
                self.consumer.nack(tag)  # an earlier one was sent back
            else:
                self.done[key] = number
                self.consumer.ack(tag)
        self.unacked = []

    def hear(self) -> None:
        for what in self.consumer.heard():
            if isinstance(what, Content):
                assert not isinstance(what.method, BasicReturn)
                key, number = what.method.routing_key, int(what.body)
                self.check_order(key, number)
                self.unacked.append((what.tag, key, number))

    def check_order(self, key: str, number: int) -> None:
        """In each life a message is first seen when all earlier ones of its key were, if they were not done before."""
        seen = self.seen[key]
        if number not in seen:
            latest = max(seen, default=0)
            assert number > latest, f"{key} {number} after {latest}"
            if number > self.done_before[key]:
                assert number == max(latest, self.done_before[key]) + 1, f"{key} {number} after {latest}"
            seen.add(number)

    def cut(self) -> None:
        """Everything confirmed is on disk: the house writes after each step."""
        self.new_life(stored(self.shards).crashed(image=self.random.randrange(8)))

    def restore(self) -> None:
        self.new_life(stored(self.shards).stopped())

    def new_life(self, life: StoredLife) -> None:
        self.shards = again(life)
        self.begin()

    def finish(self) -> None:
        for _ in range(1000):
            if self.done == self.sent:
                break
            self.consume()
        assert self.done == self.sent
        assert self.shards.slots().is_settled


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_no_key_is_out_of_order_and_nothing_is_lost(seed: int) -> None:
    story = Story(seed)
    for _ in range(120):
        story.step()
    story.finish()


def test_sharding_starts_without_any_exchange() -> None:
    Sharding(StoredHouse().broker).start()
