"""A house with sharding: exchanges, policies and what is in the shards, in few words."""

from __future__ import annotations

from leveret.queues.classic import ClassicQueue
from leveret.sharding.ordered_slots import OrderedSlots
from leveret.sharding.shard_names import shard_name
from leveret.sharding.sharding import Sharding
from leveret.wire.content import body_of
from tests.support.peer_pair import Client, House

NODE = "house"


class Shards:
    """The exchange ``images`` of a house, which policies may shard."""

    def __init__(self, house: House, kind: str = "x-modulus-hash", *, durable: bool = False) -> None:
        self.house = house
        self.sharding = Sharding(house.broker)
        self.sharding.start()
        house.vhost.declare_exchange("images", kind, durable=durable)
        house.rest()

    def policy(self, number: int, **more: object) -> None:
        definition: dict[str, object] = {"shards-per-node": number}
        definition |= {name.replace("_", "-"): value for name, value in more.items()}
        self.house.broker.policies.set("/", "shards", "^images$", definition, apply_to="exchanges")
        self.house.turn()

    def ordered(self, number: int) -> None:
        self.policy(number, ordered_resize=True)

    def clear(self) -> None:
        self.house.broker.policies.delete("/", "shards")
        self.house.turn()

    # ---- what there is

    def names(self, number: int, node: str = NODE) -> list[str]:
        return [shard_name("images", node, index) for index in range(number)]

    def bound(self) -> list[str]:
        return sorted(binding.destination.name for binding in self.house.vhost.bindings.of_source("images"))

    def queue(self, index: int, node: str = NODE) -> ClassicQueue:
        return self.house.queue(shard_name("images", node, index))

    def counts(self) -> list[int]:
        """Ready messages in the shards of this node."""
        return [self.queue(index).ready for index in range(self.number())]

    def consumers(self) -> list[int]:
        return [len(self.queue(index).consumers) for index in range(self.number())]

    def number(self) -> int:
        index = 0
        while shard_name("images", NODE, index) in self.house.vhost.queues:
            index += 1
        return index

    def slots(self) -> OrderedSlots:
        found = self.sharding.find("/", "images")
        assert found is not None
        assert found.slots is not None
        return found.slots

    def held(self) -> int:
        """Messages that wait for a shard to be drained."""
        return sum(queue.ready for name, queue in self.house.vhost.internal.queues.items() if ".held." in name)

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
