"""The queues that the dead letters of a queue can reach, according to the topology, never to message headers.

A queue has a dead-letter exchange and perhaps a dead-letter routing key. With a key, routing it gives the queues.
Without a key, or if an exchange routes by more than the key, every queue behind the exchange may be reached.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from leveret.broker.vhost import Vhost
from leveret.routing.bounds import RoutingRefused
from leveret.routing.exchange import Exchange

MOST_QUEUES = 1_000  # reached from one queue; further queues are left out


class Reach(NamedTuple):
    """``by_key``: dead letters go to the default exchange with the key of the message."""

    queues: frozenset[str]
    by_key: bool


class DeadLetterPaths:
    """The queues that the dead letters of each queue can reach over any number of hops, cached until the topology
    changes."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._known: dict[str, Reach] = {}
        self._state = (-1, -1)

    def lead(self, origin: str, to: str, key: str) -> bool:
        """Whether a dead letter of ``origin`` can reach queue ``to``, where it has this routing key."""
        state = (self._vhost.epoch, self._vhost.deletions)
        if self._state != state:
            self._known.clear()
            self._state = state
        reach = self._known.get(origin)
        if reach is None:
            reach = self._known[origin] = self._reach(origin)
        return to in reach.queues or (reach.by_key and to == key)

    def _reach(self, origin: str) -> Reach:
        vhost, by_key = self._vhost, False
        found: dict[str, None] = {}
        to_visit = [origin]
        for name in to_visit:  # grows during the walk
            queue = vhost.queues.get(name)
            target = None if queue is None else queue.options.dead_letter
            if target is None:
                continue
            key = target.key_of(name)
            by_key = by_key or (key is None and not target.exchange)
            for reached in reached_by(vhost, target.exchange, key):
                if reached not in found and len(found) < MOST_QUEUES:
                    found[reached] = None
                    to_visit.append(reached)
        return Reach(frozenset(found), by_key)


def reached_by(vhost: Vhost, name: str, key: str | None) -> list[str]:
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        return []
    if key is not None:
        with suppress(RoutingRefused):
            routed = vhost.route(exchange, (key,), {})
            if routed.by_key_only:
                return routed.queues
    return _all_behind(vhost, exchange)


def _all_behind(vhost: Vhost, start: Exchange) -> list[str]:
    """Queues behind bindings and alternate exchanges. The default exchange reaches every queue and is left out."""
    queues: dict[str, None] = {}
    seen = {start.name}
    to_visit = [start]
    for exchange in to_visit:  # grows during the walk
        further = [] if exchange.alternate is None else [exchange.alternate]
        for binding in vhost.bindings.of_source(exchange.name) if exchange.name else ():
            if binding.destination.kind == "queue":
                queues[binding.destination.name] = None
            else:
                further.append(binding.destination.name)
        for name in further:
            found = vhost.exchanges.get(name)
            if found is not None and name not in seen:
                seen.add(name)
                to_visit.append(found)
    return list(queues)
