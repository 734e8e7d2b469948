"""Ordered resizing through crashes: any order of events on a disk in memory, and a killed broker under load."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

import leveret
from leveret.sharding.slots import slot_of
from leveret.wire.methods import BasicReturn
from tests.support.broker_process import BrokerProcess
from tests.support.forked_broker import ForkedBroker
from tests.support.key_order import KeyConsumer, KeyOrder, KeyPublisher
from tests.support.peer_pair import Content
from tests.support.shards import Shards, send
from tests.support.stored_harness import StoredHarness, StoredLife
from tests.support.virtual_disk import VirtualDisk

# ---- any order of events


class Story:
    """Publishes numbers per key, takes them, resizes and cuts the power at random; each key's order is watched."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shards = Shards(StoredHarness(queue_memory=4096), durable=True)
        self.shards.ordered(2)
        self.sent: dict[str, int] = defaultdict(int)
        self.done: dict[str, int] = defaultdict(int)  # the last number of each key that was acked
        self.begin()

    def begin(self) -> None:
        self.publisher = self.shards.harness.client()
        self.consumer = self.shards.harness.client()
        self.consumer.qos(20)
        self.consumer.consume("images", "all", arguments={"x-shard-all": True})
        self.unacked: list[tuple[int, str, int]] = []
        self.seen: dict[str, set[int]] = defaultdict(set)  # in this run
        self.done_before = defaultdict(int, self.done)  # in earlier ones: a crash may bring them back

    @property
    def harness(self) -> StoredHarness:
        assert isinstance(self.shards.harness, StoredHarness)
        return self.shards.harness

    def step(self) -> None:
        actions = [self.publish, self.consume, self.resize, self.slow_down, self.cut, self.restore]
        (action,) = self.random.choices(actions, weights=[30, 30, 6, 6, 1, 1])
        action()

    def publish(self) -> None:
        for _ in range(self.random.randrange(1, 30)):
            key = f"key{self.random.randrange(12)}"
            self.sent[key] += 1
            send(self.publisher, key, b"%d" % self.sent[key], delivery_mode=2)

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
        """In each run a message is first seen after all earlier ones of its key, unless these were settled before."""
        seen = self.seen[key]
        if number not in seen:
            latest = max(seen, default=0)
            assert number > latest, f"{key} {number} after {latest}"
            if number > self.done_before[key]:
                assert number == max(latest, self.done_before[key]) + 1, f"{key} {number} after {latest}"
            seen.add(number)

    def slow_down(self) -> None:
        """Nothing is written, and nothing comes back from disk, until the next time: holds move in pieces."""
        self.harness.is_slow = not self.harness.is_slow
        self.harness.rest()

    def catch_up(self) -> None:
        self.harness.is_slow = False
        self.harness.rest()

    def cut(self) -> None:
        """Everything is confirmed, hence on disk."""
        self.catch_up()
        self.new_life(self.harness.crashed(image=self.random.randrange(8)))

    def restore(self) -> None:
        self.catch_up()
        self.new_life(self.harness.stopped())

    def new_life(self, life: StoredLife) -> None:
        self.shards = Shards(life.again(), durable=True)
        self.begin()

    def finish(self) -> None:
        self.catch_up()
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


# ---- a power cut after every operation of the disk


class Script:
    """One key whose slot moves to and fro; after each step it is known what must be there after a crash."""

    def __init__(self) -> None:
        self.shards = Shards(StoredHarness(), durable=True)
        harness = self.shards.harness
        assert isinstance(harness, StoredHarness)
        self.disk = harness.disk
        self.client = harness.client()
        self.sent = self.acked = 0
        self.steps: list[tuple[int, int, int]] = []  # operations, sent and acked by then
        self.shards.ordered(1)
        self.shards.ordered(3)
        last = self.shards.names(3)[2]
        slots = self.shards.slots()
        self.key = next(key for key in map(str, range(1000)) if slots.owner(slot_of(key)) == last)

    def note(self) -> None:
        self.steps.append((len(self.disk.operations), self.sent, self.acked))

    def publish(self, number: int) -> None:
        bodies = [b"%d" % each for each in range(self.sent + 1, self.sent + number + 1)]
        send(self.client, self.key, *bodies, delivery_mode=2)
        self.sent += number
        self.note()

    def resize(self, number: int) -> None:
        self.shards.ordered(number)
        self.note()

    def take(self, shard: int, number: int) -> None:
        for _ in range(number):
            self.acked += 1  # before it happens: a crash may have it already
            self.note()
            got = self.client.get(self.shards.names(shard + 1)[shard])
            assert got is not None
            assert int(got.body) == self.acked
            self.client.ack(got.tag)
            self.note()

    def play(self) -> None:
        self.publish(2)  # in 2
        self.resize(1)
        self.publish(2)  # held for 2
        self.take(2, 2)  # and moved to 0
        self.publish(1)
        self.resize(3)
        self.publish(2)  # held for 0
        self.resize(2)
        self.publish(1)
        self.take(0, 3)

    def state_at(self, operation: int) -> tuple[int, int]:
        """How many were certainly sent, and how many may have been acked, before this operation."""
        sent = max((sent for done, sent, _ in self.steps if done <= operation), default=0)
        acked = max((acked for done, _, acked in self.steps if done <= operation), default=0)
        return sent, acked


def found_after(image: VirtualDisk, key: str) -> list[int]:
    """The next run resizes and publishes at once; returns what a consumer receives, in order."""
    shards = Shards(StoredHarness(image), durable=True)
    client = shards.harness.client()
    shards.ordered(4)
    send(client, key, b"1000", delivery_mode=2)
    shards.ordered(1)
    send(client, key, b"1001", delivery_mode=2)
    client.qos(1)
    client.consume("images", "all", arguments={"x-shard-all": True})
    found = []
    while heard := [what for what in client.heard() if isinstance(what, Content)]:
        found += [int(what.body) for what in heard]
        client.ack(heard[-1].tag)
    assert shards.slots().is_settled
    return found


def test_a_power_cut_at_any_time_loses_nothing_confirmed_and_keeps_the_order_of_a_key() -> None:
    script = Script()
    begin = len(script.disk.operations)
    script.play()
    state = VirtualDisk()
    for number, operation in enumerate(script.disk.operations):
        if number >= begin:
            sent, acked = script.state_at(number)
            for name, image in state.images(Random(number), most=2):
                found = found_after(image, script.key)
                assert found == sorted(set(found)), f"{found} after operation {number}, {name}"
                missing = {*range(acked + 1, sent + 1), 1000, 1001} - {*found}
                assert not missing, f"{found} lacks {missing} after operation {number}, {name}"
        state.redo(operation)


# ---- a real broker

KEYS = [f"key{number}" for number in range(200)]
EACH = 4_000  # messages of one publisher in one run


def resize(folder: Path, number: int) -> None:
    """By a broker in this process on the same data; shards that have messages begin to move."""
    settings = leveret.Settings(data_dir=folder / "data", amqp_port=None, http_port=None, stomp_port=None)
    with leveret.Broker(settings) as broker:
        vhost = broker.vhost()
        vhost.declare_exchange("images", "x-modulus-hash", durable=True)
        definition = {"shards-per-node": number, "ordered-resize": True}
        vhost.set_policy("shards", "^images$", definition, apply_to="exchanges")


def load(serving: BrokerProcess, order: KeyOrder, *, kill_at: int | None) -> None:
    """Two publishers and a consumer of all shards; the broker is killed when so many more were acked."""
    order.begin_life()
    killing = None if kill_at is None else order.reaches(order.received + kill_at)
    publishers = [KeyPublisher(serving.url(), order, KEYS[first::2], EACH, order.life + first) for first in (0, 1)]
    consumer = KeyConsumer(serving.url(), order, requeues=0, prefetch=100)
    for thread in (*publishers, consumer):
        thread.start()
    if killing is not None:
        assert killing.wait(120)
        serving.process.kill()
        serving.exit_code()
    for publisher in publishers:
        publisher.join(120)
        assert kill_at is not None or publisher.failure is None, publisher.failure
    if kill_at is None:
        order.await_confirmed(120)
        consumer.stop()
    consumer.join(120)


def test_killed_while_it_is_resized_nothing_confirmed_is_lost_and_keys_stay_in_order(tmp_path: Path) -> None:
    """What comes twice is marked: a kill may lose acks. Each run ends in the middle of moving slots, or soon after."""
    order = KeyOrder()
    for number, kill_at in ((4, 3000), (8, 50), (8, 1500), (2, 50), (2, 1500)):
        resize(tmp_path, number)
        with ForkedBroker(tmp_path) as serving:
            load(serving, order, kill_at=kill_at)
    with ForkedBroker(tmp_path) as serving:
        load(serving, order, kill_at=None)
    order.assert_kept()
