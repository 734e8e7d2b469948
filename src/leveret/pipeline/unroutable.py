"""Messages that are routed to no queue, counted by exchange and routing key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from leveret.message import Address

MOST_KEYS = 100  # exchanges and keys that are named; the others are only counted


class MandatoryAddress(Address):
    """The address of rows that must be routed to a queue (column ``mandatory``)."""

    __slots__ = ()


class UnroutableKey(NamedTuple):
    exchange: str
    routing_key: str
    messages: int

    def __str__(self) -> str:
        return (
            f"routing key '{self.routing_key}' is not routed to any queue by exchange "
            f"'{self.exchange or 'amq.default'}' ({self.messages} messages)"
        )


class Unroutable:
    def __init__(self) -> None:
        self.total = 0
        self._keys: Counter[tuple[str, str]] = Counter()

    def add(self, address: Address, number: int) -> None:
        self.total += number
        key = (address.exchange, address.key)
        if key in self._keys or len(self._keys) < MOST_KEYS:
            self._keys[key] += number

    @property
    def keys(self) -> tuple[UnroutableKey, ...]:
        """The first ones found."""
        return tuple(UnroutableKey(*key, number) for key, number in self._keys.items())


def unroutable_view(total: int, keys: Sequence[UnroutableKey]) -> dict[str, object]:
    """For a response: the keys only if there are some."""
    return {"unroutable": total} | ({"unroutable_keys": [key._asdict() for key in keys]} if keys else {})
