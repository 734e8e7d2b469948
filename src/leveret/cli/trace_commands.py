"""``leveret trace``."""

from __future__ import annotations

import sys
from typing import Any

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import Column, columns, name, precise_moment, print_facts, print_table, size

app = group("Trace messages: enable tracing for a virtual host, list traced messages, show what happened to one.")

ID = typer.Argument(metavar="ID", help="As listed (m12), as shown by browse (7-0-12), or the message-id.")
OWN_COLUMNS = {"time", "what", "bindings"}  # fields of an event that are not part of its details


COLUMNS = (
    *columns("id", "message_id"),
    Column("published", "began", precise_moment),
    Column("exchange", "exchange", name),
    *columns("routing_key", "queues"),
    Column("last event", "last"),
)
FACTS = (*COLUMNS, Column("size", "size", size), Column("properties", "properties"))
EVENTS = (Column("time", "time", precise_moment), Column("event", "what"), Column("details", "details"))


@app.command("on")
@at_broker
def trace_on(api: Api, vhost: str | None = VHOST) -> None:
    """Enable tracing of a virtual host; copies of its messages also go to the exchange amq.rabbitmq.trace."""
    _switch(api, vhost_in(api, vhost), True)


@app.command("off")
@at_broker
def trace_off(api: Api, vhost: str | None = VHOST) -> None:
    """Disable tracing of a virtual host; recorded traces are discarded."""
    _switch(api, vhost_in(api, vhost), False)


def _switch(api: Api, vhost: str, on: bool) -> None:
    api.get("vhosts", vhost)  # the PUT would create a missing vhost
    api.put("vhosts", vhost, value={"tracing": on})
    print_line(f"tracing enabled for vhost '{vhost}'" if on else f"tracing disabled for vhost '{vhost}'")


@app.command("list")
@at_broker
def list_traces(
    api: Api,
    text: str | None = typer.Argument(
        None, metavar="[TEXT]", help="Text in the message-id, routing key, a name or a header."
    ),
    queue: str | None = typer.Option(None, "--queue", metavar="NAME", help="Only messages routed to this queue."),
    exchange: str | None = typer.Option(
        None, "--exchange", metavar="NAME", help="Only messages published to this exchange."
    ),
    limit: int = typer.Option(50, "--limit", metavar="N", min=1, max=500, help="Maximum number of messages."),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """List traced messages, the newest first."""
    where = vhost_in(api, vhost)
    query = {"text": text, "queue": queue, "exchange": exchange, "page": 1, "page_size": limit}
    answer = api.get("traces", where, query=query)
    if as_json:
        print_json(answer)
        return
    page = answer.value
    is_on = where in {row["vhost"] for row in api.get("traces").rows}
    disabled = f"Tracing is disabled for vhost '{where}'; to enable it: leveret trace on"
    print_table(COLUMNS, page["items"], "No matching messages." if is_on else disabled)
    if page["filtered_count"] > len(page["items"]):
        sys.stderr.write(f"{page['filtered_count']} in total; filter by TEXT, or increase --limit\n")


@app.command("show")
@at_broker
def show_trace(api: Api, id_: str = ID, vhost: str | None = VHOST, as_json: bool = AS_JSON) -> None:
    """Show what happened to one message."""
    answer = api.get("traces", vhost_in(api, vhost), id_)
    if as_json:
        print_json(answer)
        return
    print_facts(FACTS, answer.value)
    sys.stdout.write("\n")
    print_table(EVENTS, [row for event in answer.value["events"] for row in _rows(event)], "No events.")


def _rows(event: Row) -> list[Row]:
    """One row for the event, and one for each binding that matched."""
    named = event | {"exchange": event["exchange"] or "(AMQP default)"} if "exchange" in event else event
    details = ", ".join(f"{key} {_formatted(value)}" for key, value in named.items() if key not in OWN_COLUMNS)
    rows: list[Row] = [{"time": event["time"], "what": event["what"], "details": details}]
    for step in event.get("bindings", ()):
        way = f"{step['source'] or '(AMQP default)'} -> {step['destination']} by {step['by']} '{step['routing_key']}'"
        rows.append({"time": event["time"], "what": "", "details": way})
    return rows


def _formatted(value: Any) -> str:
    if value == "":
        return "''"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


@app.command("delete")
@app.command("forget", hidden=True)
@at_broker
def delete_traces(
    api: Api,
    id_: str | None = typer.Argument(None, metavar="[ID]", help="One message.  [default: all]"),
    vhost: str | None = VHOST,
) -> None:
    """Delete the trace of one message, or all traces; the messages are not affected."""
    where = vhost_in(api, vhost)
    api.delete("traces", where, *([] if id_ is None else [id_]))
    print_line(f"trace of message '{id_}' deleted" if id_ is not None else f"all traces of vhost '{where}' deleted")
