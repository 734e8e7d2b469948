"""A harness with sharding: exchanges, policies and what is in the shards, in few words."""

from __future__ import annotations

from leveret.queues.classic import ClassicQueue
from leveret.sharding.ordered_slots import OrderedSlots
from leveret.sharding.sharded_exchange import shard_name
from leveret.sharding.sharding import Sharding
from leveret.wire.content import body_of
from tests.support.peer_pair import Client, Harness

NODE = "harness"


class Shards:
    """The exchange ``images`` of a harness, which policies may shard."""

    def __init__(self, harness: Harness, kind: str = "x-modulus-hash", *, durable: bool = False) -> None:
        self.harness = harness
        self.sharding = Sharding(harness.broker)
        self.sharding.start()
        harness.vhost.declare_exchange("images", kind, durable=durable)
        harness.rest()

    def policy(self, number: int, **more: object) -> None:
        definition: dict[str, object] = {"shards-per-node": number}
        definition |= {name.replace("_", "-"): value for name, value in more.items()}
        self.harness.broker.policies.set("/", "shards", "^images$", definition, apply_to="exchanges")
        self.harness.turn()

    def ordered(self, number: int) -> None:
        self.policy(number, ordered_resize=True)

    def clear(self) -> None:
        self.harness.broker.policies.delete("/", "shards")
        self.harness.turn()

    # ---- what there is

    def names(self, number: int, node: str = NODE) -> list[str]:
        return [shard_name("images", node, index) for index in range(number)]

    def bound(self) -> list[str]:
        return sorted(binding.destination.name for binding in self.harness.vhost.bindings.of_source("images"))

    def queue(self, index: int, node: str = NODE) -> ClassicQueue:
        return self.harness.queue(shard_name("images", node, index))

    def counts(self) -> list[int]:
        """Ready messages in the shards of this node."""
        return [self.queue(index).ready for index in range(self.number())]

    def consumers(self) -> list[int]:
        return [len(self.queue(index).consumers) for index in range(self.number())]

    def number(self) -> int:
        index = 0
        while shard_name("images", NODE, index) in self.harness.vhost.queues:
            index += 1
        return index

    def slots(self) -> OrderedSlots:
        found = self.sharding.find("/", "images")
        assert found is not None
        assert found.slots is not None
        return found.slots

    def held(self) -> int:
        """Messages that wait for a shard to be drained."""
        return sum(queue.ready for name, queue in self.harness.vhost.internal.queues.items() if ".held." in name)

    def where(self, body: bytes) -> list[int]:
        """The shards in which a message with this body is ready, in memory."""
        return [
            index
            for index in range(self.number())
            for _, _, message in self.queue(index).lane
            if body_of(message[0]) == body
        ]


def send(client: Client, key: str, *bodies: bytes, **properties: object) -> None:
    client.feed(b"".join(client.published("images", key, body, **properties) for body in bodies))
