"""``leveret move``, ``copy``, ``redrive`` and ``jobs``: work on many messages, which the broker does by itself.

A command begins a job and watches it. Ctrl-C cancels the job; what it has done stays done.
"""

from __future__ import annotations

import shlex
import time
from typing import NamedTuple

import typer

from leveret.cli.api_client import Answer, Api, Refusal, Row
from leveret.cli.broker_options import AS_JSON, VHOST, alone, at_broker, group, vhost_in
from leveret.cli.completing import names_of
from leveret.cli.printing import print_json, print_list, progress, say
from leveret.cli.tables import Column, count, facts, numbered, text

app = group("Moves, copies, redrives and deletions that the broker is doing or has done.")
move_app, copy_app, redrive_app = alone(), alone(), alone()

POLL = 0.2  # seconds between two looks at a job
RUNNING, CANCELLED, LOST = "running", "cancelled", "lost"
ID = typer.Argument(metavar="ID")
COLUMNS = (
    Column("id", "id"),
    Column("kind", "kind"),
    Column("vhost", "vhost"),
    Column("queue", "queue"),
    Column("to", "destination"),
    Column("state", "state"),
    Column("looked at", "looked_at", count),
    Column("done", "done", count),
    Column("skipped", "skipped", count),
)


class Choice(NamedTuple):
    """Which messages, and how the work is watched."""

    selector: str | None = typer.Option(
        None, "--selector", metavar="TEXT", help="only these, such as: kind = 'order' AND size > 3"
    )
    limit: int | None = typer.Option(None, "--limit", metavar="N", min=1, help="at most so many")
    dry_run: bool = typer.Option(False, "--dry-run", help="say how many, and change nothing")
    no_wait: bool = typer.Option(False, "--no-wait", help="print the id of the job and go; see leveret jobs")
    vhost: str | None = VHOST
    as_json: bool = AS_JSON


@move_app.command()
@at_broker
def move(
    api: Api,
    choice: Choice,
    source: str = typer.Argument(metavar="FROM", help="a queue", autocompletion=names_of("queues")),
    destination: str = typer.Argument(metavar="TO", help="another queue", autocompletion=names_of("queues")),
) -> None:
    """Move messages from one queue to another: each is in exactly one of them at any time."""
    _run(api, "move", source, choice, destination=destination)


@copy_app.command()
@at_broker
def copy(
    api: Api,
    choice: Choice,
    source: str = typer.Argument(metavar="FROM", help="a queue or stream", autocompletion=names_of("queues")),
    destination: str = typer.Argument(metavar="TO", help="another queue", autocompletion=names_of("queues")),
) -> None:
    """Copy messages from one queue to another."""
    _run(api, "copy", source, choice, destination=destination)


@redrive_app.command()
@at_broker
def redrive(
    api: Api,
    choice: Choice,
    queue: str = typer.Argument(metavar="QUEUE", help="where the dead letters wait", autocompletion=names_of("queues")),
    rate: float | None = typer.Option(None, "--rate", metavar="N", min=0.001, help="so many messages a second"),
) -> None:
    """Send dead letters back to the queues they died in."""
    _run(api, "redrive", queue, choice, rate=rate)


def _run(api: Api, kind: str, queue: str, choice: Choice, **more: object) -> None:
    vhost, limit = vhost_in(api, choice.vhost), choice.limit
    waiting: int = api.get("queues", vhost, queue).value.get("messages_ready", 0)
    asked = {"kind": kind, "selector": choice.selector, "limit": limit, "dry_run": choice.dry_run, **more}
    value = {name: given for name, given in asked.items() if given is not None}
    begun = api.post("queues", vhost, queue, "jobs", value=value)
    id_: str = begun.value["id"]
    if choice.no_wait:
        print_json(begun) if choice.as_json else say(id_)
        return
    ended = _watched(api, id_, f"{kind} from '{text(queue)}'", waiting if limit is None else min(waiting, limit))
    if choice.as_json:
        print_json(ended)
    _tell_end(ended.value, is_quiet=choice.as_json)


def _watched(api: Api, id_: str, what: str, expected: int) -> Answer:
    """The job once it is over; without a selector ``expected`` is what it will come to."""
    try:
        with progress(what) as moved:
            while True:
                answer = api.get("queue-jobs", id_)
                row = answer.value
                moved(row["looked_at"], max(expected, row["looked_at"]))
                if row["state"] != RUNNING:
                    return answer
                time.sleep(POLL)
    except KeyboardInterrupt:
        api.delete("queue-jobs", id_)
        done = api.get("queue-jobs", id_).value["done"]
        raise Refusal(f"job {id_} cancelled: what it has done stays done, {numbered(done, 'messages')}") from None


def _tell_end(row: Row, is_quiet: bool) -> None:
    kind, queue, state = row["kind"], text(row["queue"]), row["state"]
    if state in (CANCELLED, LOST):
        cause = "somebody cancelled it" if state == CANCELLED else "the broker could not store it, see its log"
        raise Refusal(f"{kind} from queue '{queue}' ended early, after {numbered(row['done'], 'messages')}: {cause}")
    if is_quiet:
        return
    would = "would be " if row["dry_run"] else ""
    past = {"move": "moved", "copy": "copied", "redrive": "sent back"}.get(kind, "done")
    line = f"{row['done']} of {numbered(row['looked_at'], 'messages')} {would}{past}"
    if row["skipped"]:
        line += f", {row['skipped']} skipped: leveret browse {shlex.quote(row['queue'])} shows why"
    say(line)
    for origin, number in sorted(row.get("origins", {}).items()):
        say(f"  {number} to {text(origin)}")


@app.command("list")
@at_broker
def list_jobs(api: Api, as_json: bool = AS_JSON) -> None:
    """List jobs that run, and those that ran lately."""
    answer = api.get("queue-jobs")
    print_list(answer, COLUMNS, "There are no jobs. Begin one: leveret move, copy or redrive", as_json)


@app.command("show")
@at_broker
def show_job(api: Api, id_: str = ID, as_json: bool = AS_JSON) -> None:
    """Show how far a job is."""
    answer = api.get("queue-jobs", id_)
    if as_json:
        print_json(answer)
    else:
        facts(COLUMNS, answer.value)


@app.command("cancel")
@at_broker
def cancel_job(api: Api, id_: str = ID) -> None:
    """Cancel a job; what it has done stays done."""
    api.delete("queue-jobs", id_)
    say(f"job {id_} cancelled")
