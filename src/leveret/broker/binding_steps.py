"""The bindings that led a message to its queues, for message traces and the route tester.

Routing (routing/router.py) has been done already and its outcome is passed in, so exchanges that choose at random or
round-robin do not choose again. To find out whether a binding of an exchange matches a message, the message is routed
by an exchange of the same type with only that binding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leveret.broker.vhost import Vhost
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange

MOST_TRIED = 500  # bindings of one exchange: the work is done for each traced message
STAND_IN = Destination("exchange", "\x00")  # no queue or exchange has this name

Step = dict[str, Any]


def binding_steps(
    vhost: Vhost, exchange: Exchange, keys: Sequence[str], fields: Mapping[str, object], queues: Collection[str]
) -> tuple[list[Step], bool]:
    """The steps from ``exchange`` to ``queues``, and whether routing depended on the routing keys alone."""
    steps: list[Step] = []
    seen, to_visit = {exchange.name}, [exchange]
    for current in to_visit:  # grows while we walk
        taken = [binding for binding in _leading(vhost, current, queues) if _takes(current, binding, keys, fields)]
        found = [_step(binding.source, binding.destination, binding.key, "binding") for binding in taken]
        named = _named(current, keys, queues)
        found += [_step(current.name, Destination("queue", name), name, "name") for name in named]
        if not found and current.alternate is not None and queues:
            stop = Destination("exchange", current.alternate)
            found = [_step(current.name, stop, keys[0], "alternate-exchange")]
        steps += found
        for name in [step["destination"] for step in found if step["destination_type"] == "exchange"]:
            target = vhost.exchanges.get(name)
            if target is not None and name not in seen:
                seen.add(name)
                to_visit.append(target)
    return steps, not any(each.looks_at_headers for each in to_visit)


def _leading(vhost: Vhost, exchange: Exchange, queues: Collection[str]) -> list[Binding]:
    bindings = dict.fromkeys(vhost.bindings.of_source(exchange.name))
    leading = [each for each in bindings if each.destination.kind == "exchange" or each.destination.name in queues]
    return leading[:MOST_TRIED]


def _takes(exchange: Exchange, binding: Binding, keys: Sequence[str], fields: Mapping[str, object]) -> bool:
    alone = exchange.selector_view()
    alone.bind(Binding(binding.source, STAND_IN, binding.key, binding.arguments))
    asked = keys if exchange.looks_at_all_keys else keys[:1]
    return any(STAND_IN in alone.destinations(key, fields) for key in asked)


def _named(exchange: Exchange, keys: Sequence[str], queues: Collection[str]) -> list[str]:
    """Queues that the exchange reaches by name, without a binding."""
    if exchange.name and not exchange.arguments.get("x-implicit-bindings"):
        return []
    return [key for key in dict.fromkeys(keys) if key in queues]


def _step(source: str, stop: Destination, key: str, by: str) -> Step:
    return {
        "source": source,
        "destination": stop.name,
        "destination_type": stop.kind,
        "routing_key": key,
        "by": by,
    }
