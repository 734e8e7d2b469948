"""``leveret queues move`` and ``rebalance``: queues of a broker with several cells."""

from __future__ import annotations

import time

import typer

from leveret.cli.api_client import Api, Refusal, Row
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, vhost_in
from leveret.cli.name_completion import names_of
from leveret.cli.output import print_json, print_line, print_list, progress
from leveret.cli.tables import Column, columns, count, numbered, text

POLL = 0.1  # seconds between two requests for the state of a move
FAILED, OVER = "failed", ("done", "failed")
BALANCED = "No moves needed: queues and messages are spread evenly over the cells."
PROPOSALS = (*columns("vhost", "queue", "source", "to"), *columns("messages", shown=count), Column("reason", "reason"))


def register(app: typer.Typer) -> None:
    app.command("move")(at_broker(move_queue))
    app.command("rebalance")(at_broker(rebalance_queues))


def move_queue(
    api: Api,
    name: str = typer.Argument(metavar="QUEUE", help="Queue name.", autocompletion=names_of("queues")),
    to: str = typer.Option(..., "--to", metavar="CELL", help="Cell, see 'leveret cells list'."),
    vhost: str | None = VHOST,
    no_wait: bool = typer.Option(False, "--no-wait", help="Do not wait until the queue has moved."),
) -> None:
    """Move a queue with its messages to another cell. Clients stay connected; order is kept, nothing is lost."""
    place = vhost_in(api, vhost)
    id_: str = api.post("queues", place, name, "move", value={"to": to}).value["id"]
    if no_wait:
        print_line(f"queue '{text(name)}' is being moved to cell {text(to)}")
        return
    print_line(_moved(_finished(api, id_, name)))


def _finished(api: Api, id_: str, name: str) -> Row:
    with progress(f"move '{text(name)}'") as moved:
        while True:
            row: Row = api.get("queue-moves", id_).value
            moved(row["copied"], max(row["total"], row["copied"]))
            if row["state"] in OVER:
                break
            time.sleep(POLL)
    if row["state"] == FAILED:
        raise Refusal(f"queue '{text(name)}' stays in cell {row['source']}: {row['reason']}")
    return row


def _moved(row: Row) -> str:
    name, number = text(row["queue"]), numbered(row["copied"], "messages")
    return f"queue '{name}' moved from cell {row['source']} to cell {row['to']} with {number}"


def rebalance_queues(
    api: Api,
    vhost: str | None = ANY_VHOST,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show which queues would be moved, and why."),
    as_json: bool = AS_JSON,
) -> None:
    """Move queues so that all cells have the same share of queues and messages, one after the other."""
    answer = api.get("queue-moves", "proposals", query={"vhost": vhost})
    if dry_run:
        print_list(answer, PROPOSALS, BALANCED, as_json)
        return
    if as_json:
        print_json(answer)
    elif not answer.rows:
        print_line(BALANCED)
    for row in answer.rows:
        id_ = api.post("queues", row["vhost"], row["queue"], "move", value={"to": row["to"]}).value["id"]
        done = _finished(api, id_, row["queue"])
        if not as_json:
            print_line(_moved(done))
