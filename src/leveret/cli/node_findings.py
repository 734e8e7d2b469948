"""Problems of a node: memory, disk, file descriptors, store, certificates and clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime

from leveret.cli.api_client import Row
from leveret.cli.findings import Finding
from leveret.cli.tables import duration, printable, size

NEAR = 0.8  # share of a limit
DISK_NEAR = 2.0  # times the disk free limit
FEW_FILES = 4096  # each connection uses one
MAX_SKEW = 60.0  # seconds between two clocks, including the round trip
EXPIRES_WITHIN = ("1", "months")  # for a certificate


def node_findings(nodes: Iterable[Row]) -> Iterator[Finding]:
    for node in nodes:
        name = printable(str(node.get("name", "")))
        if node.get("running") is False:
            yield Finding("alarm", f"node '{name}' is not running", "leveret serve")
            continue
        yield from _memory(name, node)
        yield from _disk(name, node)
        yield from _files(name, node)


def _memory(name: str, node: Row) -> Iterator[Finding]:
    used, limit = node.get("mem_used") or 0, node.get("mem_limit") or 0
    largest = "leveret queues list --sort memory --reverse"
    if node.get("mem_alarm"):
        yield Finding(
            "alarm",
            f"memory alarm on node '{name}': {size(used)} used, high watermark {size(limit)}; publishers are blocked",
            largest,
        )
    elif limit and used >= NEAR * limit:
        what = f"memory of node '{name}' is near the high watermark: {size(used)} of {size(limit)}"
        yield Finding("warning", what, largest)


def _disk(name: str, node: Row) -> Iterator[Finding]:
    free, least = node.get("disk_free") or 0, node.get("disk_free_limit") or 0
    largest = "leveret queues list --sort message_bytes --reverse"
    if node.get("disk_free_alarm"):
        yield Finding(
            "alarm",
            f"disk alarm on node '{name}': {size(free)} free, limit {size(least)}; publishers are blocked",
            largest,
        )
    elif least and free < DISK_NEAR * least:
        yield Finding(
            "warning", f"disk of node '{name}' is near the free limit: {size(free)} free, limit {size(least)}", largest
        )


def _files(name: str, node: Row) -> Iterator[Finding]:
    used, most = node.get("fd_used") or 0, node.get("fd_total") or 0
    more = "raise the limit: ulimit -n before 'leveret serve', or LimitNOFILE= of the service"
    if most > 0 and used >= NEAR * most:
        what = f"node '{name}' has {used} of {most} file descriptors open: new connections will soon be refused"
        yield Finding("warning", what, f"leveret connections list; {more}")
    elif 0 < most < FEW_FILES:
        what = f"node '{name}' can open only {most} files, and each connection needs one"
        yield Finding("warning", what, more)


def store_findings(failed: Row | None) -> Iterator[Finding]:
    """``failed``: the response of the virtual-hosts health check if it failed. It fails if the store has failed."""
    if failed is not None:
        remedy = "check the broker's log for errors, fix the disk, then restart the broker"
        yield Finding("alarm", f"the message store has failed: {_reason(failed)}", remedy)


def quorum_findings(failed: Row | None) -> Iterator[Finding]:
    """``failed``: the response of the quorum health check if it failed."""
    if failed is not None:
        yield Finding(
            "warning", f"the cell may not survive another failure: {_reason(failed)}", "leveret cluster status"
        )


def certificate_findings(failed: Row | None) -> Iterator[Finding]:
    """``failed``: the response of the certificate health check if it failed."""
    if failed is None:
        return
    ends = [_end(row) for row in failed.get("expired") or [{}]]
    what = " and ".join(f"a certificate expires at {end}" if end else _reason(failed) for end in ends)
    remedy = "replace the files of tls_cert and tls_key (see 'leveret config show'); they are reloaded within a minute"
    yield Finding("warning", printable(what), remedy)


def _end(row: Row) -> str:
    """The expiry date, in Leveret's field or in RabbitMQ's."""
    ends = row.get("ends_at") or row.get("certfile_expires_on") or ""
    return str(ends[0] if isinstance(ends, list) else ends)


def clock_findings(date: str | None, here: float) -> Iterator[Finding]:
    """``date``: the Date header of the broker's response; ``here``: local time in seconds since the epoch."""
    try:
        apart = parsedate_to_datetime(date or "").timestamp() - here
    except (ValueError, OverflowError):
        return
    if abs(apart) > MAX_SKEW:
        way = "ahead of" if apart > 0 else "behind"
        what = f"the broker's clock is {duration(abs(apart))} {way} that of this machine: message ages are wrong"
        yield Finding("warning", what, "run timedatectl on both machines")


def _reason(failed: Row) -> str:
    return printable(str(failed.get("reason") or "a check failed"))
