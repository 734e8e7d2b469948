"""Hash slots: a routing key always belongs to the same one of 1,024 slots, and a slot to one shard until it is moved.

A resize moves as few slots as possible, and leaves all shards with the same number, plus or minus one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xxhash import xxh3_64_intdigest

SLOTS = 1024
NO_SHARD = ""


def slot_of(key: str) -> int:
    return xxh3_64_intdigest(key.encode()) % SLOTS


def dealt(shards: Sequence[str]) -> list[str]:
    """The owners of all slots of a new exchange. For a power of two shards this is the hash modulo their number."""
    return [shards[slot % len(shards)] for slot in range(SLOTS)] if shards else [NO_SHARD] * SLOTS


def resettled(owners: Sequence[str], shards: Sequence[str], homes: Mapping[int, str]) -> list[str]:
    """The owners after a resize. ``homes``: the shards that slots on the move have not left yet.

    A shard with too many slots first loses those whose messages have not arrived; a slot returns to its home if it can.
    """
    if not shards:
        return [NO_SHARD] * SLOTS
    quotas = _quotas(owners, shards)
    after = list(owners)
    kept: Counter[str] = Counter()
    homeless: list[int] = []
    # Settled slots are assigned first, so that slots on the move change their owners rather than settled ones.
    for slot in sorted(range(SLOTS), key=lambda each: each in homes):
        owner = owners[slot]
        if kept[owner] < quotas.get(owner, 0):
            kept[owner] += 1
        else:
            homeless.append(slot)
    for slot in [each for each in homeless if each in homes]:
        home = homes[slot]
        if kept[home] < quotas.get(home, 0):
            kept[home] += 1
            after[slot] = home
            homeless.remove(slot)
    vacant = [shard for shard in shards for _ in range(quotas[shard] - kept[shard])]
    for slot, shard in zip(sorted(homeless), vacant, strict=True):
        after[slot] = shard
    return after


def _quotas(owners: Sequence[str], shards: Sequence[str]) -> dict[str, int]:
    """The number of slots of each shard; the shards with the most may keep one more."""
    had = Counter(owners)
    share, more = divmod(SLOTS, len(shards))
    largest = sorted(shards, key=lambda shard: -had[shard])[:more]
    return {shard: share + (shard in largest) for shard in shards}
