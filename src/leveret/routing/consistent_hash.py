"""x-consistent-hash exchanges: a key keeps its destination while others are added and removed.

This is weighted rendezvous hashing. Each destination gets a score for the key: an exponentially distributed number,
computed from the hash of key and name, divided by the weight. The lowest score wins. So destinations win in proportion
to their weights; a new destination takes only its own share, equally from all others, and removing one moves only its
own keys. Compared with points on a ring, the distribution is even with a weight of 1, and a weight of a million costs
no more; the cost is one hash per destination.

The weight is the binding key. The hashed value is the routing key, or the header or property that the argument
``hash-header`` or ``hash-property`` names; messages without it all go to one destination. A destination that is bound
several times counts once, with the largest weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf, log
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from leveret.delivery.selector import MessageFields, seconds_of
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import SCORE_STEPS, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange

HASH_HEADER, HASH_PROPERTY = "hash-header", "hash-property"
HASH_PROPERTIES = ("message_id", "correlation_id", "timestamp")
HEAVIEST = 1_000_000
ALL_HASHES = 2.0**64


class Candidate(NamedTuple):
    """A destination, its name in the form that is hashed, and its weight."""

    destination: Destination
    name: bytes
    weight: int


class ConsistentHashExchange(Exchange):
    kind = "x-consistent-hash"
    looks_at_all_keys = False

    def prepare(self) -> None:
        self._weights: dict[Destination, list[int]] = {}
        self._candidates: list[Candidate] | None = None  # built from the weights on first use
        self._header = self._name_in(HASH_HEADER)
        self._property = self._name_in(HASH_PROPERTY)
        if self._header is not None and self._property is not None:
            raise PreconditionFailed(
                f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive: give exchange '{self.name}' one of them"
            )
        if self._property is not None and self._property not in HASH_PROPERTIES:
            raise PreconditionFailed(
                f"Unsupported property: {self._property} for arg '{HASH_PROPERTY}' in exchange '{self.name}': expected "
                f"{', '.join(HASH_PROPERTIES)}"
            )
        self.looks_at_headers = self._header is not None or self._property is not None

    def _name_in(self, argument: str) -> str | None:
        name = self.arguments.get(argument)
        if name is None or isinstance(name, str):
            return name
        raise PreconditionFailed(f"invalid arg '{argument}' for exchange '{self.name}': expected a string")

    def accept(self, binding: Binding) -> None:
        weight_of(binding)

    def link(self, binding: Binding) -> None:
        self._weights.setdefault(binding.destination, []).append(weight_of(binding))
        self._candidates = None

    def unlink(self, binding: Binding) -> None:
        weights = self._weights[binding.destination]
        weights.remove(weight_of(binding))
        if not weights:
            del self._weights[binding.destination]
        self._candidates = None

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        if self._candidates is None:
            self._candidates = [candidate(stop, max(weights)) for stop, weights in sorted(self._weights.items())]
        work.spend(SCORE_STEPS * len(self._candidates))
        return winner(self._candidates, self._hashed(key, headers))

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        weights = [(stop, weight) for stop, bound in self._weights.items() for weight in bound]
        weights += [(binding.destination, weight_of(binding)) for binding in taking]
        work.spend(SCORE_STEPS * len(weights))
        return winner([candidate(*one) for one in sorted(weights)], self._hashed(key, headers))

    def selector_view(self) -> Exchange:
        return FanoutExchange(self.name)  # every selector is evaluated

    def _hashed(self, key: str, headers: Mapping[str, object]) -> int:
        value: object = key
        if self._header is not None:
            value = headers.get(self._header)
        elif self._property is not None:
            value = getattr(headers.properties, self._property) if isinstance(headers, MessageFields) else None
        return xxh3_64_intdigest(as_text(value).encode("utf-8", "surrogateescape"))


def weight_of(binding: Binding) -> int:
    """The weight of a binding; PreconditionFailed if its key is not a weight."""
    key = binding.key
    digits = key.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise PreconditionFailed(f"The binding key must be an integer: '{key}' is not a weight")
    if key != digits or not digits.strip("0"):
        raise PreconditionFailed(f"The binding key must be greater than 0: '{key}' is not a weight")
    if len(digits.lstrip("0")) > len(str(HEAVIEST)) or int(digits) > HEAVIEST:
        raise PreconditionFailed(f"The binding key must be at most {HEAVIEST}: '{key}' is not a weight")
    return int(digits)


def candidate(destination: Destination, weight: int) -> Candidate:
    return Candidate(destination, f"{destination.kind} {destination.name}".encode(), weight)


def winner(candidates: Iterable[Candidate], hashed: int) -> Iterable[Destination]:
    """The destination with the lowest score, the first of equals. Of several weights of one, the largest counts."""
    best: tuple[Destination, ...] = ()
    lowest = inf
    for destination, name, weight in candidates:
        score = -log((xxh3_64_intdigest(name, hashed) + 1) / ALL_HASHES) / weight
        if score < lowest:
            best, lowest = (destination,), score
    return best


def as_text(value: object) -> str:
    """The text of a header that is hashed: equal values have equal texts in every process, None the empty text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, datetime):
        return str(seconds_of(value))
    if isinstance(value, Mapping):
        return "".join(f"{name}={as_text(member)};" for name, member in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return "".join(f"{as_text(member)};" for member in value)
    return str(value)
