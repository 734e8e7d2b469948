"""``leveret queues`` and ``leveret purge``."""

from __future__ import annotations

import json
import re
import shlex

import typer

from leveret.cli import queue_move_commands
from leveret.cli.api_client import Answer, Api, Misuse, Row
from leveret.cli.broker_options import (
    ANY_VHOST,
    ARGUMENTS,
    AS_JSON,
    VHOST,
    YES,
    at_broker,
    confirm,
    group,
    listed_at,
    pairs,
    single_command,
    vhost_in,
)
from leveret.cli.connection_commands import CONSUMER
from leveret.cli.name_completion import choices, names_of
from leveret.cli.output import print_created, print_line, print_list, print_object
from leveret.cli.queue_fields import refuse_unknown_field
from leveret.cli.tables import RATES, Column, columns, count, duration, numbered, size

app = group("List, show, create, delete, purge, pause and resume queues; move them between cells.")
purge_app = single_command()

NAME = typer.Argument(metavar="NAME", help="Queue name.", autocompletion=names_of("queues"))
COLUMNS = (
    *columns("vhost", "name"),
    *columns(shown=count, ready="messages_ready", unacked="messages_unacknowledged", consumers="consumers"),
    *RATES,
    Column("state", "state"),
    *columns(shown=duration, oldest="oldest_message_age", drains_in="drain_estimate"),
    Column("type", "type"),
)
FACTS = (
    *COLUMNS,
    Column("durable", "durable"),
    Column("auto-delete", "auto_delete"),
    Column("home", "home"),
    *columns("exclusive", "arguments", "policy", "operator_policy"),
    Column("effective policy", "effective_policy_definition"),
    Column("size", "message_bytes", size),
    Column("delayed", "messages_delayed", count),
    Column("dead-lettered", "counters.dead_lettered", count),
    Column("expired", "counters.expired", count),
)
TYPES = choices("classic", "quorum", "stream")
SORTS = {column.head: column.path for column in FACTS}
SORT_FIELDS = {*SORTS.values(), "messages", "memory", "message_bytes_ready", "messages_details.rate"}
COMPLETED = [name for name in (*SORTS, "messages", "memory") if " " not in name]


@app.command("list")
@at_broker
def list_queues(
    api: Api,
    vhost: str | None = ANY_VHOST,
    name: str | None = typer.Option(None, "--name", metavar="PART", help="Only queues whose name contains this text."),
    regex: bool = typer.Option(False, "--regex", help="--name is a regular expression."),
    sort: str = typer.Option(
        "name",
        "--sort",
        metavar="FIELD",
        help="Column, or field of the API's JSON.",
        autocompletion=choices(*COMPLETED),
    ),
    reverse: bool = typer.Option(False, "--reverse", help="Sort in descending order."),
    as_json: bool = AS_JSON,
) -> None:
    """List queues with message counts, rates and consumers."""
    if regex and name is None:
        raise Misuse("--regex makes --name a regular expression: it requires --name")
    sort = SORTS.get(sort, sort)
    refuse_unknown_field(api, sort, {*SORTS, *SORT_FIELDS})
    query: Row = {"name": name, "use_regex": regex or None, "sort": sort, "sort_reverse": reverse or None}
    if not as_json:
        query["columns"] = ",".join(column.path for column in COLUMNS)
    answer = api.get(*listed_at(api, "queues", vhost), query=query)
    if name is not None:
        answer = _filtered(answer, name if regex else re.escape(name))
    print_list(answer, COLUMNS, "No queues. To create one: leveret queues create NAME", as_json)


def _filtered(answer: Answer, pattern: str) -> Answer:
    """RabbitMQ ignores the filter in lists without pages, so it is applied here, too."""
    try:
        found = [row for row in answer.rows if re.search(pattern, row["name"], re.IGNORECASE)]
    except re.error:  # a pattern that only the broker understands
        return answer
    if len(found) == len(answer.rows):
        return answer
    return answer._replace(body=json.dumps(found).encode())


@app.command("show")
@at_broker
def show_queue(api: Api, name: str = NAME, vhost: str | None = VHOST, as_json: bool = AS_JSON) -> None:
    """Show a queue and its consumers."""
    answer = api.get("queues", vhost_in(api, vhost), name)
    print_object(answer, FACTS, as_json, lambda row: [(CONSUMER, row.get("consumer_details"))])


@app.command("create")
@at_broker
def create_queue(
    api: Api,
    name: str = NAME,
    vhost: str | None = VHOST,
    kind: str | None = typer.Option(
        None, "--type", metavar="TYPE", help="classic, quorum or stream.", autocompletion=TYPES
    ),
    transient: bool = typer.Option(False, "--transient", help="Not durable: deleted when the broker restarts."),
    auto_delete: bool = typer.Option(False, "--auto-delete", help="Delete it with its last consumer."),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Create a queue; an existing one with the same properties is not changed."""
    arguments = pairs(argument, "--argument")
    if kind is not None:
        arguments["x-queue-type"] = kind
    value = {"durable": not transient, "auto_delete": auto_delete, "arguments": arguments}
    print_created(f"queue '{name}'", api.put("queues", vhost_in(api, vhost), name, value=value))


@app.command("delete")
@at_broker
def delete_queue(
    api: Api,
    name: str = NAME,
    vhost: str | None = VHOST,
    if_empty: bool = typer.Option(False, "--if-empty", help="Only if it has no messages."),
    if_unused: bool = typer.Option(False, "--if-unused", help="Only if it has no consumers."),
    yes: bool = YES,
) -> None:
    """Delete a queue and its messages."""
    place = vhost_in(api, vhost)
    confirm(f"Delete queue '{name}' in vhost '{place}' and all its messages?", yes or if_empty)
    api.delete("queues", place, name, query={"if-empty": if_empty or None, "if-unused": if_unused or None})
    print_line(f"queue '{name}' deleted")


@app.command("purge")
@purge_app.command("purge")
@at_broker
def purge_queue(api: Api, name: str = NAME, vhost: str | None = VHOST, yes: bool = YES) -> None:
    """Delete all ready messages of a queue; unacknowledged messages are kept."""
    place = vhost_in(api, vhost)
    ready = api.get("queues", place, name, query={"columns": "messages_ready"}).value.get("messages_ready", 0)
    confirm(f"Delete {numbered(ready, 'messages')} from queue '{name}' in vhost '{place}'?", yes or not ready)
    api.delete("queues", place, name, "contents")
    print_line(f"queue '{name}' purged: {numbered(ready, 'messages')} deleted")


@app.command("pause")
@at_broker
def pause_queue(api: Api, name: str = NAME, vhost: str | None = VHOST) -> None:
    """Pause deliveries to consumers; publishing is not affected."""
    api.post("queues", vhost_in(api, vhost), name, "pause", value={})
    print_line(f"queue '{name}' paused; to resume it: leveret queues resume {shlex.quote(name)}")


@app.command("resume")
@at_broker
def resume_queue(api: Api, name: str = NAME, vhost: str | None = VHOST) -> None:
    """Resume deliveries to consumers."""
    api.post("queues", vhost_in(api, vhost), name, "resume", value={})
    print_line(f"queue '{name}' resumed")


queue_move_commands.register(app)
