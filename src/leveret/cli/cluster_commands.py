"""``leveret cluster status`` and ``leveret cluster handover``."""

from __future__ import annotations

import io
import sys
import time
from threading import Timer
from typing import TextIO

import typer

from leveret.cli.api_client import Answer, Api, CommandProblem, NotReachable, Refusal, Row
from leveret.cli.broker_options import AS_JSON, YES, at_broker, confirm
from leveret.cli.name_completion import names_of
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import Column, columns, count, moment, print_facts, print_table, size

INTERVAL = 2.0  # seconds between two screens of --watch
PAUSE = 0.05
QUIET_SECONDS = 1.0  # without a response, before the command prints what it waits for
HAND_OVER_SECONDS = 30.0
MOST_TAKE_OVERS = 10
BUSY = 503

WATCH = typer.Option(False, "--watch", help="Refresh every two seconds until Ctrl-C.")
TO = typer.Option(
    "",
    "--to",
    metavar="NODE",
    help="Node that is to lead.  [default: the most advanced standby]",
    autocompletion=names_of("nodes"),
)

CELL = typer.Option("", "--cell", metavar="NAME", help="One of several cells.  [default: the first]")


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


FACTS = (
    *columns("cell", "leader"),
    Column("epoch", "epoch", count),
    Column("leader since", "leader_since", moment),
    Column("engine", "engine_state"),
    Column("log", "log_size"),
    Column("critical", "critical"),
)
MEMBERS = (
    Column("node", "name"),
    *columns("role", "connected", "version"),
    *columns(shown=count, batch="batch", lag_records="lag_records"),
    Column("lag bytes", "lag_bytes", size),
    Column("lag", "lag_seconds", seconds),
    Column("last seen", "last_seen", moment),
    Column("AMQP", "endpoints.amqp"),
    Column("problem", "problem"),
)
SERVERS = (
    Column("engine server", "name"),
    *columns("version", "reachable", stream_leader="leader", current="current"),
    Column("lag", "lag", count),
    Column("monitoring", "url"),
)
TAKE_OVERS = (
    Column("take-over", "at", moment),
    Column("epoch", "epoch", count),
    *columns("node", "reason"),
    Column("took", "seconds", seconds),
)


def register(app: typer.Typer) -> None:
    app.command("status")(at_broker(status))
    app.command("handover")(at_broker(hand_over))


def status(api: Api, as_json: bool = AS_JSON, watch: bool = WATCH) -> None:
    """Show members with their lag, servers of the engine, the log and the last take-overs."""
    answer = _ask(api)
    if as_json:
        print_json(answer)
    elif watch and sys.stdout.isatty():
        _watch(api)
    else:
        _print_status(answer.value, sys.stdout)


def _ask(api: Api) -> Answer:
    """The state of the cell. A standby of a cell without a leader does not respond for 10 seconds."""
    text = f"waiting for {api.address.url}: the cell may have no leader now, a standby waits up to 10 s for one\n"
    notice = Timer(QUIET_SECONDS, lambda: sys.stderr.write(text))
    notice.daemon = True
    notice.start()
    try:
        return api.get("cluster")
    finally:
        notice.cancel()


def _print_status(row: Row, out: TextIO) -> None:
    log, engine = row["log"], row["engine"]
    shown = {
        **row,
        "engine_state": "answering" if engine["answering"] else "not answering",
        "log_size": None if log is None else f"{size(log['bytes'])} of {size(log['max_bytes'])}",
        "critical": row["quorum_critical"] or "no",
    }
    print_facts(FACTS, shown, out)
    taken = row["take_overs"][:MOST_TAKE_OVERS]
    for heads, rows in ((MEMBERS, row["members"]), (SERVERS, engine["servers"]), (TAKE_OVERS, taken)):
        if rows:
            out.write("\n")
            print_table(heads, rows, "", out)


def _watch(api: Api) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(Text(_screen(api), no_wrap=True, overflow="ellipsis"), refresh=True)
                time.sleep(INTERVAL)
        except KeyboardInterrupt:
            return


def _screen(api: Api) -> str:
    """If the cell has no leader for a while, the screen shows the error until there is one."""
    out = io.StringIO()
    try:
        _print_status(api.get("cluster").value, out)
    except CommandProblem as problem:
        out.write(f"{problem}\n")
    return out.getvalue()


def hand_over(api: Api, to: str = TO, cell: str = CELL, yes: bool = YES) -> None:
    """Hand over the leadership to another node, before a planned stop. Clients reconnect, within a second or two."""
    now = _state(api, cell) if cell else _ask(api).value
    confirm(f"Hand over the cell '{now['cell']}' from node '{now['leader']}'? Clients will reconnect.", yes)
    begun = time.monotonic()
    given = {name: value for name, value in (("to", to), ("cell", cell)) if value}
    handed = api.post("cluster", "handover", value=given).value
    leading = _wait_for_leader(api, cell, handed["epoch"], begun + HAND_OVER_SECONDS)
    if leading["leader"] != handed["to"]:
        raise Refusal(
            f"node '{leading['leader']}' leads now instead of '{handed['to']}', which did not take over in time: see "
            "its log"
        )
    took = time.monotonic() - begun
    print_line(f"node '{leading['leader']}' leads the cell '{leading['cell']}', after {took:.1f} s")


def _state(api: Api, cell: str) -> Row:
    """Of one cell: its name, leader and epoch at least."""
    if not cell:
        row: Row = api.get("cluster").value
        return row
    found = next((row for row in api.get("cluster", "cells").value if row["cell"] == cell), None)
    if found is None:
        raise Refusal(f"no cell '{cell}' in this cluster: see 'leveret cluster cells'")
    return dict(found)


def _wait_for_leader(api: Api, cell: str, ended: int, deadline: float) -> Row:
    """The state of the cell in an epoch after ``ended``. Until then the connection may be refused or closed."""
    problem: CommandProblem | None = None
    while time.monotonic() < deadline:
        try:
            row = _state(api, cell)
            if row["epoch"] > ended:
                return row
        except NotReachable as unreachable:
            problem = unreachable
        except Refusal as refusal:
            if refusal.status != BUSY:
                raise
            problem = refusal
        time.sleep(PAUSE)
    raise NotReachable(
        f"no node has taken over within {HAND_OVER_SECONDS:g} s ({problem or 'the leader has not stopped'}): see the "
        "logs of the nodes"
    )
