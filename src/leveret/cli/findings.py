"""What may be wrong with queues, found in the JSON of the API: each with the command that helps.

An *alarm* stops somebody's work now; a *warning* will, or looks as if nobody knew of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from leveret.cli.api_client import Row
from leveret.cli.tables import at, numbered, printable, rate

Weight = Literal["alarm", "warning"]
Place = tuple[str, str]  # a virtual host, and the name of a queue in it

MANY = 5  # messages; fewer that wait are no trouble yet
DLX, DLX_KEY = "dead-letter-exchange", "dead-letter-routing-key"


class Finding(NamedTuple):
    weight: Weight
    what: str
    remedy: str


def queue_findings(
    queues: Iterable[Row], bindings: Iterable[Row], leased: Mapping[Place, int] | None = None
) -> Iterator[Finding]:
    """``leased``: how many messages of a queue are held by leases, which count as unacked and need no consumer."""
    queues = list(queues)
    buried_in = graveyards(queues, bindings)
    for queue in queues:
        place = (queue["vhost"], queue["name"])
        if queue.get("type") == "stream":
            continue  # it keeps what it has, read or not
        ready = queue.get("messages_ready") or 0
        if ready and place in buried_in:
            what = f"{_waiting(ready, 'dead letters')} in {_shown(queue)}"
            yield Finding("warning", what, f"{_command('browse', queue)}, then {_command('redrive', queue)}")
        elif queue.get("state") == "paused":
            yield Finding("warning", f"{_shown(queue)} is paused, {_waiting(ready)}", _command("queues resume", queue))
        elif ready and not queue.get("consumers"):
            yield from _without_consumers(queue, ready)
        yield from _unacked(queue, ready, (leased or {}).get(place, 0))


def _without_consumers(queue: Row, ready: int) -> Iterator[Finding]:
    grows = at(queue, "messages_details.rate") or 0
    taken = at(queue, "message_stats.deliver_get_details.rate") or 0  # one by one, or by leases
    if grows > 0 and not taken:
        what = f"{_shown(queue)} grows by {rate(grows)} and nobody consumes: {_waiting(ready)}"
        weight: Weight = "alarm" if ready >= MANY else "warning"
        yield Finding(weight, what, f"start a consumer; {_command('queues show', queue)}")


def _unacked(queue: Row, ready: int, leased: int) -> Iterator[Finding]:
    unacked = max((queue.get("messages_unacknowledged") or 0) - leased, 0)
    moves = sum(at(queue, f"message_stats.{kind}_details.rate") or 0 for kind in ("ack", "deliver_get"))
    held = f"consumers of {_shown(queue)} hold {numbered(unacked, 'messages')} and acknowledge none"
    if unacked and ready and not moves:
        what = f"{held}, {_waiting(ready)} behind them"
        yield Finding("warning", what, f"{_command('queues show', queue)}, then leveret connections close NAME")
    elif unacked and not moves:
        yield Finding("warning", held, _command("queues show", queue))


def graveyards(queues: Iterable[Row], bindings: Iterable[Row]) -> set[Place]:
    """The queues, with their virtual hosts, to which dead letters of others go."""
    wells: set[Place] = set()
    found: set[Place] = set()
    for queue in queues:
        exchange, key = _said(queue, DLX), _said(queue, DLX_KEY)
        if exchange == "" and key:
            found.add((queue["vhost"], key))
        elif exchange:
            wells.add((queue["vhost"], exchange))
    for row in bindings:
        if (row["vhost"], row["source"]) in wells and row["destination_type"] == "queue":
            found.add((row["vhost"], row["destination"]))
    return found


def _said(queue: Row, key: str) -> str | None:
    """By the arguments of the queue, else by its policies."""
    said = (queue.get("arguments") or {}).get(f"x-{key}", (queue.get("effective_policy_definition") or {}).get(key))
    return said if isinstance(said, str) else None


def _waiting(number: int, things: str = "") -> str:
    """2 wait, 1 dead letter waits."""
    shown = numbered(number, things) if things else str(number)
    return f"{shown} {'waits' if number == 1 else 'wait'}"


def _shown(queue: Row) -> str:
    return f"queue '{printable(queue['name'])}' in vhost '{printable(queue['vhost'])}'"


def _command(words: str, queue: Row) -> str:
    """A command that can be pasted as it is."""
    where = "" if queue["vhost"] == "/" else f" --vhost {shlex.quote(queue['vhost'])}"
    return f"leveret {words} {shlex.quote(printable(queue['name']))}{where}"
