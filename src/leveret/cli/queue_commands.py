"""``leveret queues`` and ``leveret purge``."""

from __future__ import annotations

import shlex

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import (
    ANY_VHOST,
    ARGUMENTS,
    AS_JSON,
    VHOST,
    YES,
    alone,
    at_broker,
    confirm,
    group,
    listed_at,
    pairs,
    vhost_in,
)
from leveret.cli.completing import names_of
from leveret.cli.connection_commands import CONSUMER
from leveret.cli.printing import made, print_json, print_list, say
from leveret.cli.tables import Column, count, draw, duration, facts, numbered, rate, size

app = group("Queues: what waits in them, who takes it, and how fast.")
purge_app = alone()

NAME = typer.Argument(metavar="NAME", help="the queue", autocompletion=names_of("queues"))
COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "name"),
    Column("ready", "messages_ready", count),
    Column("unacked", "messages_unacknowledged", count),
    Column("consumers", "consumers", count),
    Column("in", "message_stats.publish_details.rate", rate),
    Column("out", "message_stats.deliver_get_details.rate", rate),
    Column("state", "state"),
    Column("oldest", "oldest_message_age", duration),
    Column("empty in", "drain_estimate", duration),
    Column("type", "type"),
)
FACTS = (
    *COLUMNS,
    Column("durable", "durable"),
    Column("auto-delete", "auto_delete"),
    Column("exclusive", "exclusive"),
    Column("arguments", "arguments"),
    Column("policy", "policy"),
    Column("operator policy", "operator_policy"),
    Column("by policies", "effective_policy_definition"),
    Column("size", "message_bytes", size),
    Column("delayed", "messages_delayed", count),
    Column("dead-lettered", "counters.dead_lettered", count),
    Column("expired", "counters.expired", count),
)


@app.command("list")
@at_broker
def list_queues(
    api: Api,
    vhost: str | None = ANY_VHOST,
    name: str | None = typer.Option(None, "--name", metavar="PART", help="whose names have this part"),
    regex: bool = typer.Option(False, "--regex", help="--name is a regular expression"),
    sort: str = typer.Option("name", "--sort", metavar="FIELD", help="a field of the API's JSON, such as messages"),
    reverse: bool = typer.Option(False, "--reverse", help="the largest first"),
    as_json: bool = AS_JSON,
) -> None:
    """List queues with what waits in them, rates and consumers."""
    query: Row = {"name": name, "use_regex": regex or None, "sort": sort, "sort_reverse": reverse or None}
    if not as_json:
        query["columns"] = ",".join(column.path for column in COLUMNS)
    answer = api.get(*listed_at(api, "queues", vhost), query=query)
    print_list(answer, COLUMNS, "There are no such queues. Make one: leveret queues create NAME", as_json)


@app.command("show")
@at_broker
def show_queue(api: Api, name: str = NAME, vhost: str | None = VHOST, as_json: bool = AS_JSON) -> None:
    """Show all about a queue, and who consumes from it."""
    answer = api.get("queues", vhost_in(api, vhost), name)
    if as_json:
        print_json(answer)
        return
    row: Row = answer.value
    facts(FACTS, row)
    if row.get("consumer_details"):
        say("")
        draw(CONSUMER, row["consumer_details"], "")


@app.command("create")
@at_broker
def create_queue(
    api: Api,
    name: str = NAME,
    vhost: str | None = VHOST,
    kind: str | None = typer.Option(None, "--type", metavar="TYPE", help="classic, quorum or stream"),
    transient: bool = typer.Option(False, "--transient", help="gone after a restart"),
    auto_delete: bool = typer.Option(False, "--auto-delete", help="gone with its last consumer"),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Create a queue; one that is there with the same properties stays as it is."""
    arguments = pairs(argument, "--argument")
    if kind is not None:
        arguments["x-queue-type"] = kind
    value = {"durable": not transient, "auto_delete": auto_delete, "arguments": arguments}
    made(f"queue '{name}'", api.put("queues", vhost_in(api, vhost), name, value=value))


@app.command("delete")
@at_broker
def delete_queue(
    api: Api,
    name: str = NAME,
    vhost: str | None = VHOST,
    if_empty: bool = typer.Option(False, "--if-empty", help="only if nothing waits in it"),
    if_unused: bool = typer.Option(False, "--if-unused", help="only if nobody consumes from it"),
    yes: bool = YES,
) -> None:
    """Delete a queue with what is in it."""
    place = vhost_in(api, vhost)
    confirm(f"Delete queue '{name}' in vhost '{place}' with what is in it?", yes or if_empty)
    api.delete("queues", place, name, query={"if-empty": if_empty or None, "if-unused": if_unused or None})
    say(f"queue '{name}' deleted")


@app.command("purge")
@purge_app.command("purge")
@at_broker
def purge_queue(api: Api, name: str = NAME, vhost: str | None = VHOST, yes: bool = YES) -> None:
    """Throw away what waits in a queue; what consumers hold stays theirs."""
    place = vhost_in(api, vhost)
    ready = api.get("queues", place, name, query={"columns": "messages_ready"}).value.get("messages_ready", 0)
    confirm(f"Throw away {numbered(ready, 'messages')} of queue '{name}' in vhost '{place}'?", yes or not ready)
    api.delete("queues", place, name, "contents")
    say(f"queue '{name}' purged: {numbered(ready, 'messages')} {'was' if ready == 1 else 'were'} ready")


@app.command("pause")
@at_broker
def pause_queue(api: Api, name: str = NAME, vhost: str | None = VHOST) -> None:
    """Deliver nothing to consumers until it is resumed; publishing goes on."""
    api.post("queues", vhost_in(api, vhost), name, "pause", value={})
    say(f"queue '{name}' paused: leveret queues resume {shlex.quote(name)}")


@app.command("resume")
@at_broker
def resume_queue(api: Api, name: str = NAME, vhost: str | None = VHOST) -> None:
    """Deliver again."""
    api.post("queues", vhost_in(api, vhost), name, "resume", value={})
    say(f"queue '{name}' delivers again")
