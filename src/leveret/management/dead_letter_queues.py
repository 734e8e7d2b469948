"""Where dead letters come to rest: the queues that are reached from what queues say about their dead.

A queue names an exchange, and perhaps a key, for what dies in it: by its arguments, by a policy, or one dead letter
queue for each queue. With a key the exchange tells where that leads. Without one, and where more than the key decides,
all that the exchange leads to may be reached. Streams are left out: nothing can be driven back from them.
"""

from __future__ import annotations

from leveret.broker.vhost import Vhost
from leveret.management.turns import Turn
from leveret.queues.classic import ClassicQueue
from leveret.queues.stream import StreamQueue
from leveret.routing.exchange import Exchange

Way = tuple[str, str | None]  # exchange and key


async def dead_letter_queues(vhost: Vhost) -> dict[str, list[str]]:
    """By name, each with the names of the queues whose dead may come there. Others get their turn in between."""
    senders: dict[Way, list[str]] = {}
    turn = Turn()
    for queue in list(vhost.queues.values()):
        way = _way_of(queue)
        if way is not None:
            senders.setdefault(way, []).append(queue.name)
        await turn.rest()
    found: dict[str, list[str]] = {}
    for way, names in senders.items():
        for reached in reached_by(vhost, *way):
            if reached in vhost.queues and not isinstance(vhost.queues[reached], StreamQueue):
                found.setdefault(reached, []).extend(name for name in names if name != reached)
        await turn.rest()
    return found


def _way_of(queue: ClassicQueue) -> Way | None:
    target = queue.options.dead_letter
    if target is None:
        return None
    return target.exchange, target.key if target.key_prefix is None else target.key_prefix + queue.name


def reached_by(vhost: Vhost, name: str, key: str | None) -> list[str]:
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        return []
    if key is not None:
        routed = vhost.route(exchange, (key,), {})
        if routed.by_key_only:
            return routed.queues
    return _all_behind(vhost, exchange)


def _all_behind(vhost: Vhost, start: Exchange) -> list[str]:
    """Whatever bindings and alternate exchanges lead to. The default exchange leads to all, which tells nothing."""
    queues: dict[str, None] = {}
    seen = {start.name}
    to_visit = [start]
    for exchange in to_visit:  # grows while we walk
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
