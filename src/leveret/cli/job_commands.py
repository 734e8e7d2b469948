"""``leveret move``, ``copy``, ``redrive`` and ``jobs``: operations on many messages, which run as jobs in the broker.

A command starts a job and shows its progress. Ctrl-C cancels the job; messages already processed stay processed.
"""

from __future__ import annotations

import shlex
import time
from typing import NamedTuple

import typer

from leveret.cli.api_client import Answer, Api, Refusal, Row
from leveret.cli.broker_options import AS_JSON, VHOST, at_broker, group, single_command, vhost_in
from leveret.cli.name_completion import names_of
from leveret.cli.object_commands import list_command, show_command
from leveret.cli.output import print_json, print_line, progress
from leveret.cli.tables import columns, count, numbered, text

app = group("List, show and cancel jobs: moves, copies, redrives and deletions.")
move_app, copy_app, redrive_app = single_command(), single_command(), single_command()

POLL = 0.2  # seconds between two requests for the state of a job
RUNNING, CANCELLED, LOST = "running", "cancelled", "lost"
TO_VHOST = typer.Option(
    None, "--to-vhost", metavar="VHOST", help="Virtual host of TO.  [default: that of FROM]", show_default=False
)
ID = typer.Argument(metavar="ID", help="Job id, see 'leveret jobs list'.")
COLUMNS = (
    *columns("id", "kind", "vhost", "queue", "destination", "dry_run", "state"),
    *columns(shown=count, examined="looked_at", done="done", skipped="skipped"),
)


class Choice(NamedTuple):
    """Options that select messages and control the job."""

    selector: str | None = typer.Option(
        None, "--selector", metavar="TEXT", help="Only matching messages, such as: kind = 'order' AND size > 3"
    )
    limit: int | None = typer.Option(None, "--limit", metavar="N", min=1, help="Maximum number of messages.")
    dry_run: bool = typer.Option(False, "--dry-run", help="Count the messages, without changing anything.")
    no_wait: bool = typer.Option(False, "--no-wait", help="Print the job id and exit; see 'leveret jobs'.")
    vhost: str | None = VHOST
    as_json: bool = AS_JSON


def _transfer_command(app: typer.Typer, kind: str, source: str, help: str) -> None:
    """``move`` or ``copy``; ``source``: the help of its first argument."""

    def transfer(
        api: Api,
        choice: Choice,
        source: str = typer.Argument(metavar="FROM", help=source, autocompletion=names_of("queues")),
        destination: str = typer.Argument(metavar="TO", help="Destination queue.", autocompletion=names_of("queues")),
        to_vhost: str | None = TO_VHOST,
    ) -> None:
        _run(api, kind, source, choice, destination=destination, destination_vhost=to_vhost)

    app.command(kind, help=help)(at_broker(transfer))


_transfer_command(
    move_app,
    "move",
    "Source queue.",
    "Move messages from one queue to another; at any time a message is in exactly one of them.",
)
_transfer_command(copy_app, "copy", "Source queue or stream.", "Copy messages from one queue to another.")


@redrive_app.command()
@at_broker
def redrive(
    api: Api,
    choice: Choice,
    queue: str = typer.Argument(metavar="QUEUE", help="Dead-letter queue.", autocompletion=names_of("queues")),
    rate: float | None = typer.Option(None, "--rate", metavar="N", min=0.001, help="Messages per second."),
) -> None:
    """Move dead letters back to the queues they were dead-lettered from."""
    _run(api, "redrive", queue, choice, rate=rate)


def _run(api: Api, kind: str, queue: str, choice: Choice, **more: object) -> None:
    vhost, limit = vhost_in(api, choice.vhost), choice.limit
    ready: int = api.get("queues", vhost, queue).value.get("messages_ready", 0)
    asked = {"kind": kind, "selector": choice.selector, "limit": limit, "dry_run": choice.dry_run, **more}
    value = {name: given for name, given in asked.items() if given is not None}
    begun = api.post("queues", vhost, queue, "jobs", value=value)
    id_: str = begun.value["id"]
    if choice.no_wait:
        print_json(begun) if choice.as_json else print_line(id_)
        return
    ended = _finished(api, id_, f"{kind} from '{text(queue)}'", ready if limit is None else min(ready, limit))
    if choice.as_json:
        print_json(ended)
    _report(ended.value, is_quiet=choice.as_json)


def _finished(api: Api, id_: str, what: str, expected: int) -> Answer:
    """Wait for the end of the job; ``expected``: the number of messages it will examine, for the progress bar."""
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
        raise Refusal(f"job {id_} cancelled: {numbered(done, 'messages')} had been processed already") from None


def _report(row: Row, is_quiet: bool) -> None:
    kind, queue, state = row["kind"], text(row["queue"]), row["state"]
    if state in (CANCELLED, LOST):
        cause = "the job was cancelled" if state == CANCELLED else "the broker could not store it, see its log"
        raise Refusal(f"{kind} from queue '{queue}' stopped after {numbered(row['done'], 'messages')}: {cause}")
    if is_quiet:
        return
    would = "would be " if row["dry_run"] else ""
    past = {"move": "moved", "copy": "copied", "redrive": "moved back"}.get(kind, "done")
    line = f"{row['done']} of {numbered(row['looked_at'], 'messages')} {would}{past}"
    if row["skipped"]:
        line += f", {row['skipped']} skipped: see 'leveret browse {shlex.quote(row['queue'])}'"
    print_line(line)
    for origin, number in sorted(row.get("origins", {}).items()):
        print_line(f"  {number} to {text(origin)}")


list_command(
    app,
    "queue-jobs",
    COLUMNS,
    help="List running and recently finished jobs.",
    empty="No jobs. To start one: leveret move, copy or redrive",
    by_vhost=False,
)
show_command(app, "queue-jobs", ID, COLUMNS, help="Show the state of a job.")


@app.command("cancel")
@at_broker
def cancel_job(api: Api, id_: str = ID) -> None:
    """Cancel a job; messages already processed stay processed."""
    api.delete("queue-jobs", id_)
    print_line(f"job {id_} cancelled")
