"""What a standby answers itself on its HTTP port: probes of this node, and its own metrics. The rest is relayed.

The request line decides, so a probe needs a connection of its own, as probes have. Such requests need no login, since
a standby has no users; the answers say nothing about queues or messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

LONGEST_LINE = 256  # bytes: all paths below are shorter
LONGEST_HEAD = 64 << 10
END = b"\r\n\r\n"
METHODS = (b"GET", b"HEAD")
REASONS = {200: "OK", 503: "Service Unavailable"}
JSON, TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8"


class StandbyState(NamedTuple):
    """``why_not_ready`` is empty if this node follows and relays to a leader."""

    why_not_ready: str
    connections: int


class Answer(NamedTuple):
    status: int
    kind: str
    body: bytes


def _ready(state: StandbyState) -> Answer:
    if state.why_not_ready:
        return Answer(503, JSON, msgspec.json.encode({"status": "failed", "reason": state.why_not_ready}))
    return _alive(state)


def _alive(state: StandbyState) -> Answer:
    return Answer(200, JSON, msgspec.json.encode({"status": "ok"}))


def _probed(state: StandbyState) -> Answer:
    """Without the reason, as of a broker."""
    return _alive(state) if not state.why_not_ready else Answer(503, JSON, msgspec.json.encode({"status": "failed"}))


def _metrics(state: StandbyState) -> Answer:
    """Those of the leader are not repeated: sums over all nodes would count them once for each node."""
    gauges = (
        ("standby_ready", "Whether this standby follows the log and relays to a leader", int(not state.why_not_ready)),
        ("standby_relayed_connections", "Client connections that this standby relays", state.connections),
    )
    lines = [
        line
        for name, text, value in gauges
        for line in (f"# HELP leveret_{name} {text}", f"# TYPE leveret_{name} gauge", f"leveret_{name} {value}")
    ]
    return Answer(200, TEXT, "\n".join([*lines, ""]).encode())


OWN: dict[str, Callable[[StandbyState], Answer]] = {
    "/health/live": _alive,
    "/health/ready": _probed,
    "/api/health/checks/ready-to-serve-clients": _ready,
    "/api/health/checks/is-in-service": _ready,
    "/api/healthchecks/node": _ready,
    "/api/health/checks/local-alarms": _alive,  # a standby does not block publishers: the leader does
    "/metrics": _metrics,
    "/metrics/per-object": _metrics,
    "/metrics/detailed": _metrics,
}


def is_undecided(head: bytes) -> bool:
    """Whether the request line may go on."""
    return b"\n" not in head and len(head) < LONGEST_LINE


def own_path(head: bytes) -> str | None:
    """The path, if this node answers the request."""
    method, _, rest = head.partition(b"\n")[0].partition(b" ")
    target, _, version = rest.rstrip(b"\r").partition(b" ")
    path = target.partition(b"?")[0].decode("latin-1")
    return path if method in METHODS and path in OWN and version.startswith(b"HTTP/1.") else None


def is_complete(head: bytes) -> bool:
    return END in head


def response(head: bytes, path: str, state: StandbyState) -> bytes:
    """To the request with this head. The connection ends with it."""
    return _written(head, OWN[path](state))


def no_leader(head: bytes) -> bytes:
    """To a request that could not be relayed."""
    error = {"error": "no_leader", "reason": "the cell has no leader: try again, or see the logs of the nodes"}
    return _written(head, Answer(503, JSON, msgspec.json.encode(error)))


def _written(head: bytes, answer: Answer) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {REASONS[answer.status]}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Retry-After: 1"] if answer.status == 503 else []),
    ]
    return "\r\n".join(lines).encode() + END + (b"" if head.startswith(b"HEAD ") else answer.body)
