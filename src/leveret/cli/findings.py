"""What may be wrong with a broker, found in the JSON of its API: each with the command that helps.

An *alarm* stops somebody's work now; a *warning* will, or looks as if nobody knew of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from leveret.cli.api_client import Row
from leveret.cli.tables import at, printable, rate, size

Weight = Literal["alarm", "warning"]

NEAR = 0.8  # of a limit
DISK_NEAR = 2.0  # times the space that must be free
DLX, DLX_KEY = "dead-letter-exchange", "dead-letter-routing-key"


class Finding(NamedTuple):
    weight: Weight
    what: str
    remedy: str


def node_findings(nodes: Iterable[Row]) -> Iterator[Finding]:
    for node in nodes:
        name = printable(str(node.get("name", "")))
        if node.get("running") is False:
            yield Finding("alarm", f"node '{name}' does not run", "leveret serve")
            continue
        yield from _memory(name, node)
        yield from _disk(name, node)
        yield from _files(name, node)


def _memory(name: str, node: Row) -> Iterator[Finding]:
    used, limit = node.get("mem_used") or 0, node.get("mem_limit") or 0
    largest = "leveret queues list --sort memory --reverse"
    if node.get("mem_alarm"):
        yield Finding(
            "alarm", f"memory alarm on node '{name}': {size(used)} of {size(limit)}, publishers wait", largest
        )
    elif limit and used >= NEAR * limit:
        yield Finding("warning", f"memory of node '{name}' is near its mark: {size(used)} of {size(limit)}", largest)


def _disk(name: str, node: Row) -> Iterator[Finding]:
    free, least = node.get("disk_free") or 0, node.get("disk_free_limit") or 0
    largest = "leveret queues list --sort message_bytes --reverse"
    if node.get("disk_free_alarm"):
        yield Finding(
            "alarm", f"disk alarm on node '{name}': {size(free)} free, {size(least)} needed, publishers wait", largest
        )
    elif least and free < DISK_NEAR * least:
        yield Finding(
            "warning", f"disk of node '{name}' is near its mark: {size(free)} free, {size(least)} needed", largest
        )


def _files(name: str, node: Row) -> Iterator[Finding]:
    used, most = node.get("fd_used") or 0, node.get("fd_total") or 0
    if most and used >= NEAR * most:
        what = f"node '{name}' has {used} of {most} file descriptors open: soon nobody can connect"
        yield Finding("warning", what, "leveret connections list, then ulimit -n or LimitNOFILE of the service")


def queue_findings(queues: Iterable[Row], bindings: Iterable[Row]) -> Iterator[Finding]:
    queues = list(queues)
    buried_in = graveyards(queues, bindings)
    for queue in queues:
        place = (queue["vhost"], queue["name"])
        ready = queue.get("messages_ready") or 0
        if ready and place in buried_in:
            what = f"{ready} dead letters wait in {_shown(queue)}"
            yield Finding("warning", what, f"{_command('browse', queue)}, then {_command('redrive', queue)}")
        elif queue.get("state") == "paused":
            yield Finding("warning", f"{_shown(queue)} is paused, {ready} wait", _command("queues resume", queue))
        elif ready and not queue.get("consumers"):
            yield from _without_consumers(queue, ready)
        yield from _unacked(queue, ready)


def _without_consumers(queue: Row, ready: int) -> Iterator[Finding]:
    grows = at(queue, "messages_details.rate") or 0
    if grows > 0:
        what = f"{_shown(queue)} grows by {rate(grows)} and nobody consumes: {ready} wait"
        yield Finding("alarm", what, f"start a consumer; {_command('queues show', queue)}")


def _unacked(queue: Row, ready: int) -> Iterator[Finding]:
    unacked = queue.get("messages_unacknowledged") or 0
    moves = sum(at(queue, f"message_stats.{kind}_details.rate") or 0 for kind in ("ack", "deliver_get"))
    if unacked and ready and not moves:
        what = f"consumers of {_shown(queue)} hold {unacked} messages and acknowledge none, {ready} wait behind them"
        yield Finding("warning", what, f"{_command('queues show', queue)}, then leveret connections close NAME")
    elif unacked and not moves:
        what = f"consumers of {_shown(queue)} hold {unacked} messages and acknowledge none"
        yield Finding("warning", what, _command("queues show", queue))


def graveyards(queues: Iterable[Row], bindings: Iterable[Row]) -> set[tuple[str, str]]:
    """The queues, with their virtual hosts, to which dead letters of others go."""
    wells: set[tuple[str, str]] = set()
    found: set[tuple[str, str]] = set()
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


def _shown(queue: Row) -> str:
    return f"queue '{printable(queue['name'])}' in vhost '{printable(queue['vhost'])}'"


def _command(words: str, queue: Row) -> str:
    """A command that can be pasted as it is."""
    where = "" if queue["vhost"] == "/" else f" --vhost {shlex.quote(queue['vhost'])}"
    return f"leveret {words} {shlex.quote(printable(queue['name']))}{where}"
