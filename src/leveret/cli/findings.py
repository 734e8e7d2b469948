"""Problems of queues, found in the API's JSON, each with a command that helps.

An *alarm* needs action now; a *warning* is likely to become a problem.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from leveret.cli.api_client import Row
from leveret.cli.tables import duration, numbered, printable, rate, value_at

Weight = Literal["alarm", "warning"]
Place = tuple[str, str]  # a virtual host, and the name of a queue in it

MANY = 5  # ready messages; with fewer, it is a warning
BUSY = 60.0  # seconds without an acknowledgement while messages are ready: tasks of workers often take some
LONG = 1800.0  # the same while none is ready: RabbitMQ's consumer timeout
DLX, DLX_KEY = "dead-letter-exchange", "dead-letter-routing-key"


class Finding(NamedTuple):
    weight: Weight
    what: str
    remedy: str


def queue_findings(
    queues: Iterable[Row], bindings: Iterable[Row], leased: Mapping[Place, int] | None = None
) -> Iterator[Finding]:
    """``leased``: messages of a queue held by leases; they count as unacked and need no consumer."""
    queues = list(queues)
    dead_letter_queues = find_dead_letter_queues(queues, bindings)
    for queue in queues:
        place = (queue["vhost"], queue["name"])
        if queue.get("type") == "stream":
            continue  # streams keep messages whether they are read or not
        ready = queue.get("messages_ready") or 0
        if ready and place in dead_letter_queues:
            what = f"{numbered(ready, 'dead letters')} in {_shown(queue)}"
            yield Finding("warning", what, f"{_command('browse', queue)}, then {_command('redrive', queue)}")
        elif queue.get("state") == "paused":
            yield Finding("warning", f"{_shown(queue)} is paused: {ready} ready", _command("queues resume", queue))
        elif ready and not queue.get("consumers"):
            yield from _without_consumers(queue, ready)
        yield from _unacked(queue, ready, (leased or {}).get(place, 0))


def _without_consumers(queue: Row, ready: int) -> Iterator[Finding]:
    grows = value_at(queue, "messages_details.rate") or 0
    taken = value_at(queue, "message_stats.deliver_get_details.rate") or 0  # with basic.get, or by leases
    if grows > 0 and not taken:
        what = f"{_shown(queue)} grows by {rate(grows)} and has no consumers: {ready} ready"
        weight: Weight = "alarm" if ready >= MANY else "warning"
        yield Finding(weight, what, f"start a consumer; {_command('queues show', queue)}")


def _unacked(queue: Row, ready: int, leased: int) -> Iterator[Finding]:
    """Consumers that are busy for long. RabbitMQ has no ``delivery_idle_time``: there the latest rates count."""
    unacked = max((queue.get("messages_unacknowledged") or 0) - leased, 0)
    moves = sum(value_at(queue, f"message_stats.{kind}_details.rate") or 0 for kind in ("ack", "deliver_get"))
    idle = queue.get("delivery_idle_time")
    if not unacked or moves or (idle is None and not ready) or (idle is not None and idle < (BUSY if ready else LONG)):
        return
    since = "" if idle is None else f" for {duration(idle)}"
    held = f"{numbered(unacked, 'messages')} of {_shown(queue)} unacknowledged{since}, {ready} ready"
    show = _command("queues show", queue)
    if queue.get("consumers_busy"):
        remedy = f"start more consumers; {show} lists the present ones with their prefetch"
        yield Finding("warning", f"{held}: its consumers are busy and have reached their prefetch limit", remedy)
    else:
        yield Finding("warning", held, f"{show}, then check what its consumers are doing")


def find_dead_letter_queues(queues: Iterable[Row], bindings: Iterable[Row]) -> set[Place]:
    """The queues that receive dead letters of other queues."""
    exchanges: set[Place] = set()
    found: set[Place] = set()
    for queue in queues:
        exchange, key = _setting(queue, DLX), _setting(queue, DLX_KEY)
        if exchange == "" and key:
            found.add((queue["vhost"], key))
        elif exchange:
            exchanges.add((queue["vhost"], exchange))
    for row in bindings:
        if (row["vhost"], row["source"]) in exchanges and row["destination_type"] == "queue":
            found.add((row["vhost"], row["destination"]))
    return found


def _setting(queue: Row, key: str) -> str | None:
    """From the arguments of the queue, else from its policies."""
    value = (queue.get("arguments") or {}).get(f"x-{key}", (queue.get("effective_policy_definition") or {}).get(key))
    return value if isinstance(value, str) else None


def _shown(queue: Row) -> str:
    return f"queue '{printable(queue['name'])}' in vhost '{printable(queue['vhost'])}'"


def _command(words: str, queue: Row) -> str:
    """A command to copy into a shell."""
    where = "" if queue["vhost"] == "/" else f" --vhost {shlex.quote(queue['vhost'])}"
    return f"leveret {words} {shlex.quote(printable(queue['name']))}{where}"
