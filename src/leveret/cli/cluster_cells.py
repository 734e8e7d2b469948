"""``leveret cluster cells``: the leaders of all cells, and spreading them over the nodes."""

from __future__ import annotations

import sys
import time

import typer

from leveret.cli.api_client import Api, CommandProblem, Misuse, NotReachable, Refusal, Row
from leveret.cli.broker_options import AS_JSON, YES, at_broker, confirm
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import Column, columns, count, print_table

PAUSE = 0.1
SECONDS = 30.0  # for all hand-overs

BALANCE = typer.Option(False, "--balance", help="Hand over leaderships until they are spread over the nodes.")
DRY_RUN = typer.Option(False, "--dry-run", help="With --balance: only show the hand-overs.")
CELLS = (
    *columns("cell", "leader"),
    Column("epoch", "epoch", count),
    *columns("standbys", "problem"),
)
MOVES = columns("cell", "from", "to")


def register(app: typer.Typer) -> None:
    app.command("cells")(at_broker(cells))


def cells(api: Api, balance: bool = BALANCE, dry_run: bool = DRY_RUN, as_json: bool = AS_JSON, yes: bool = YES) -> None:
    """Show the leader, the standbys with their lag and the leader epoch of every cell, or balance the leaders."""
    if dry_run and not balance:
        raise Misuse("--dry-run shows what --balance would do: use both")
    if balance:
        _balance(api, dry_run, as_json, yes)
        return
    answer = api.get("cluster", "cells")
    if as_json:
        print_json(answer)
    else:
        print_table(CELLS, [{**row, "standbys": _standbys(row)} for row in answer.value], "no cells", sys.stdout)


def _standbys(row: Row) -> str:
    shown = []
    for member in row["members"]:
        if member["name"] != row["leader"]:
            lag = member["lag_seconds"]
            state = "down" if not member["connected"] else "no answer" if lag is None else f"lag {lag:.1f} s"
            shown.append(f"{member['name']} ({state})")
    return ", ".join(shown) or "-"


def _balance(api: Api, dry_run: bool, as_json: bool, yes: bool) -> None:
    answer = api.post("cluster", "cells", "balance", value={"dry_run": True})
    moves = answer.value["moves"]
    if dry_run and as_json:
        print_json(answer)
        return
    if not moves:
        print_line("the leaders are balanced already")
        return
    print_table(MOVES, moves, "", sys.stdout)
    if dry_run:
        return
    confirm(f"Hand over {len(moves)} cell(s)? Their clients will reconnect.", yes)
    made = api.post("cluster", "cells", "balance", value={}).value["moves"]
    _wait(api, {move["cell"]: move["to"] for move in made})
    print_line(f"{len(made)} cell(s) handed over")


def _wait(api: Api, wanted: dict[str, str]) -> None:
    """Until these nodes lead. The first cell answers, so the connection may be refused or closed meanwhile."""
    deadline = time.monotonic() + SECONDS
    problem: CommandProblem | None = None
    leaders: dict[str, str | None] = {}
    while time.monotonic() < deadline:
        try:
            leaders = {row["cell"]: row["leader"] for row in api.get("cluster", "cells").value}
            if all(leaders.get(cell) == node for cell, node in wanted.items()):
                return
        except (NotReachable, Refusal) as trouble:
            problem = trouble
        time.sleep(PAUSE)
    missing = [f"{cell} ({leaders.get(cell) or problem})" for cell, node in wanted.items() if leaders.get(cell) != node]
    raise Refusal(f"not handed over within {SECONDS:g} s: {', '.join(missing)}; see the logs of the nodes")
