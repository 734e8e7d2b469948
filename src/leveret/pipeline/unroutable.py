"""Messages that are routed to no queue, counted by exchange and routing key.

Mandatory rows are checked when they are staged, but their queues may be gone at the commit. Then the rows are lost, and
the commit has to report them: so a stage keeps the addresses of its mandatory rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from leveret.message import Address

MOST_KEYS = 100  # exchanges and keys that are named; the others are only counted
MOST_MANDATORY = 256  # addresses that a stage keeps; of the exchanges of others, all messages count as mandatory


class MandatoryAddress(Address):
    """The address of rows that must be routed to a queue (column ``mandatory``)."""

    __slots__ = ()


class MandatoryAddresses:
    """The addresses of the mandatory rows of a stage."""

    def __init__(self) -> None:
        self._addresses: set[tuple[str, str]] = set()
        self._exchanges: set[str] = set()

    def __contains__(self, address: Address) -> bool:
        return address.exchange in self._exchanges or (address.exchange, address.key) in self._addresses

    def add(self, address: Address) -> None:
        if address not in self:
            if len(self._addresses) < MOST_MANDATORY:
                self._addresses.add((address.exchange, address.key))
            else:
                self._exchanges.add(address.exchange)

    def encoded(self) -> dict[str, list[Any]]:
        return {"addresses": sorted(self._addresses), "exchanges": sorted(self._exchanges)}

    @staticmethod
    def decoded(facts: dict[str, list[Any]]) -> MandatoryAddresses:
        found = MandatoryAddresses()
        found._addresses = {(str(exchange), str(key)) for exchange, key in facts.get("addresses", ())}
        found._exchanges = set(facts.get("exchanges", ()))
        return found


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
        self.mandatory = 0  # of the total
        self.mandatory_addresses = MandatoryAddresses()  # of the messages that come next
        self._keys: Counter[tuple[str, str]] = Counter()

    def add(self, address: Address, number: int) -> None:
        self.total += number
        if address in self.mandatory_addresses:
            self.mandatory += number
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
