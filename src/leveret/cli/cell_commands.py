"""``leveret cells``: the cells of ``leveret serve --cells``."""

from __future__ import annotations

import time

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import YES, at_broker, confirm, group
from leveret.cli.name_completion import names_of
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_line, progress
from leveret.cli.tables import Column, columns, count

app = group("List the cells of a broker, add one, and take one out of service.")

POLL = 0.5  # seconds
DRAINED, REMOVED = "drained", "removed"
NAME = typer.Argument(metavar="CELL", help="Cell name, such as c2.", autocompletion=names_of("cells"))
COLUMNS = (*columns("name", "state"), *columns("queues", "messages", shown=count), Column("waiting for", "waiting"))

list_command(
    app,
    "cells",
    COLUMNS,
    help="List cells with their queues and messages.",
    empty="No cells. To use several: leveret serve --cells N",
    by_vhost=False,
)


@app.command("add")
@at_broker
def add_cell(api: Api) -> None:
    """Start one more cell. It gets new queues and connections, and its shards of sharded exchanges."""
    print_line(f"cell {api.post('cells', value={}).value['name']} added")


@app.command("remove")
@at_broker
def remove_cell(
    api: Api,
    name: str = NAME,
    no_wait: bool = typer.Option(False, "--no-wait", help="Do not wait until the cell is removed."),
    yes: bool = YES,
) -> None:
    """Take a cell out of service: its queues move to the other cells, then its process ends."""
    confirm(f"Move all queues of cell '{name}' to other cells, and stop it? Its clients must connect again.", yes)
    api.delete("cells", name)
    if no_wait:
        print_line(f"cell {name} is leaving, see 'leveret cells list'")
        return
    shown: set[str] = set()
    first: int | None = None
    with progress(f"remove {name}") as moved:
        while (row := _cell(api, name))["state"] not in (DRAINED, REMOVED):
            first = row["queues"] if first is None else max(first, row["queues"])
            moved(first - row["queues"], first)
            for reason in [each for each in row["waiting"] if each not in shown]:
                shown.add(reason)
                print_line(f"waiting: {reason}")
            time.sleep(POLL)
    if row["state"] == DRAINED:
        print_line(f"cell {name} has no more queues: {row['waiting'][0]}")
    else:
        print_line(f"cell {name} removed")


def _cell(api: Api, name: str) -> Row:
    return next(row for row in api.get("cells").rows if row["name"] == name)


@app.command("keep")
@at_broker
def keep_cell(api: Api, name: str = NAME) -> None:
    """Keep a cell that is leaving. Queues that have moved stay where they are."""
    api.post("cells", name, "keep", value={})
    print_line(f"cell {name} stays in service")
