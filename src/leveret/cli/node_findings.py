"""What may be wrong with a broker as a whole: its memory, disk, files, store, certificate and clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime

from leveret.cli.api_client import Row
from leveret.cli.findings import Finding
from leveret.cli.tables import duration, printable, size

NEAR = 0.8  # of a limit
DISK_NEAR = 2.0  # times the space that must be free
FEW_FILES = 4096  # each connection is one
MOST_APART = 60.0  # seconds between two clocks, the way there and back included
ENDS_SOON = ("1", "months")  # for a certificate


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
        yield Finding("warning", f"memory of node '{name}' is near its limit: {size(used)} of {size(limit)}", largest)


def _disk(name: str, node: Row) -> Iterator[Finding]:
    free, least = node.get("disk_free") or 0, node.get("disk_free_limit") or 0
    largest = "leveret queues list --sort message_bytes --reverse"
    if node.get("disk_free_alarm"):
        yield Finding(
            "alarm", f"disk alarm on node '{name}': {size(free)} free, {size(least)} needed, publishers wait", largest
        )
    elif least and free < DISK_NEAR * least:
        yield Finding(
            "warning", f"disk of node '{name}' is near its limit: {size(free)} free, {size(least)} needed", largest
        )


def _files(name: str, node: Row) -> Iterator[Finding]:
    used, most = node.get("fd_used") or 0, node.get("fd_total") or 0
    more = "ulimit -n before leveret serve, or LimitNOFILE of the service"
    if most > 0 and used >= NEAR * most:
        what = f"node '{name}' has {used} of {most} file descriptors open: soon nobody can connect"
        yield Finding("warning", what, f"leveret connections list, then {more}")
    elif 0 < most < FEW_FILES:
        what = f"node '{name}' may open {most} files at most, and each connection is one"
        yield Finding("warning", what, more)


def store_findings(failed: Row | None) -> Iterator[Finding]:
    """``failed``: what the check of virtual hosts answered, if it was not ok. They go down with the store."""
    if failed is not None:
        remedy = "look for 'error' in the broker's log, mend the disk, then restart the broker"
        yield Finding("alarm", f"nothing can be stored: {_reason(failed)}", remedy)


def certificate_findings(failed: Row | None) -> Iterator[Finding]:
    """``failed``: what the check of certificates answered, if it was not ok."""
    if failed is None:
        return
    ends = [_end(row) for row in failed.get("expired") or [{}]]
    what = " and ".join(f"a certificate ends at {end}" if end else _reason(failed) for end in ends)
    remedy = (
        "put renewed files in the place of tls_cert and tls_key: they are used within a minute, see leveret config show"
    )
    yield Finding("warning", printable(what), remedy)


def _end(row: Row) -> str:
    """As we say it, or as RabbitMQ does."""
    ends = row.get("ends_at") or row.get("certfile_expires_on") or ""
    return str(ends[0] if isinstance(ends, list) else ends)


def clock_findings(date: str | None, here: float) -> Iterator[Finding]:
    """``date``: what the broker's clock showed when it answered; ``here``: what ours shows, in seconds since 1970."""
    try:
        apart = parsedate_to_datetime(date or "").timestamp() - here
    except (ValueError, OverflowError):
        return
    if abs(apart) > MOST_APART:
        way = "ahead of" if apart > 0 else "behind"
        what = f"the broker's clock is {duration(abs(apart))} {way} that of this machine: schedules and ages are off"
        yield Finding("warning", what, "timedatectl on both machines tells which of them is wrong")


def _reason(failed: Row) -> str:
    return printable(str(failed.get("reason") or "a check failed"))
