"""Routes a message from an exchange to queues, over exchange-to-exchange bindings and alternate exchanges. Hot path.

Each exchange is visited once, so cycles end. An exchange without a match for any key of the message passes the message
to its alternate exchange, if that exists, also in the middle of a chain of exchanges. Queues are listed in the order in
which they are found, those of nearer exchanges first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from leveret.routing.bindings import Destination
from leveret.routing.bounds import EXCHANGE_STEPS, RoutingRefused, RoutingWork
from leveret.routing.exchange import Exchange


class Routed(NamedTuple):
    """``by_key_only``: no visited exchange used more than the keys, so the same keys lead to the same queues until a
    binding, an exchange or, if ``has_queue`` was passed, a queue changes."""

    queues: list[str]
    by_key_only: bool


def route(
    exchange: Exchange,
    keys: Sequence[str],
    headers: Mapping[str, object],
    find_exchange: Callable[[str], Exchange | None],
    has_queue: Callable[[str], bool] | None = None,
    work: RoutingWork | None = None,
) -> Routed:
    """The names of the queues that a message reaches, each once. ``keys``: the routing key and those of CC and BCC.

    With ``has_queue`` a queue that does not exist counts as not matched. Only implicit bindings can name such a queue;
    the check lets a message for a missing queue go to the alternate exchange. RoutingRefused if ``work`` has fewer
    steps left than routing takes.
    """
    if work is None:
        work = RoutingWork()
    queues: dict[str, None] = {}
    seen = {exchange.name}
    to_visit = [exchange]
    by_key_only = True
    try:
        for current in to_visit:  # grows while we walk
            if current.looks_at_headers:
                by_key_only = False
            for kind, name in _next_stops(current, keys, headers, has_queue, work):
                if kind == "queue":
                    queues[name] = None
                elif name not in seen:
                    seen.add(name)
                    found = find_exchange(name)
                    if found is not None:
                        to_visit.append(found)
    except RoutingRefused as refusal:
        work.refused += 1
        raise RoutingRefused(f"cannot route a message of exchange '{exchange.name}': {refusal.text}") from None
    return Routed(list(queues), by_key_only)


def _next_stops(
    exchange: Exchange,
    keys: Sequence[str],
    headers: Mapping[str, object],
    has_queue: Callable[[str], bool] | None,
    work: RoutingWork,
) -> list[Destination]:
    """The destinations that the exchange matches for all keys together, or else its alternate exchange."""
    matched: list[Destination] = []
    for key in keys if exchange.looks_at_all_keys else keys[:1]:
        matched += exchange.destinations(key, headers, work)
        work.spend(EXCHANGE_STEPS + len(matched))
    if has_queue is not None:
        matched = [stop for stop in matched if stop.kind == "exchange" or has_queue(stop.name)]
    if not matched and exchange.alternate is not None:
        return [Destination("exchange", exchange.alternate)]
    return matched
