"""``leveret trace``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.printing import print_json, say
from leveret.cli.tables import UNKNOWN, Column, draw, facts, name, size

app = group("What became of messages: switch tracing on, find a message, read its story.")

ID = typer.Argument(metavar="ID", help="as listed (m12), as browse shows it (7-0-12), or the message-id")
LESS = {"time", "what", "bindings"}  # of an event: told in columns of their own, or below it


def moment(value: Any) -> str:
    """A wall time to the millisecond, in UTC."""
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (TypeError, ValueError, OverflowError, OSError):
        return UNKNOWN if value is None else str(value)


COLUMNS = (
    Column("id", "id"),
    Column("message id", "message_id"),
    Column("began", "began", moment),
    Column("exchange", "exchange", name),
    Column("routing key", "routing_key"),
    Column("queues", "queues"),
    Column("last", "last"),
)
FACTS = (*COLUMNS, Column("size", "size", size), Column("properties", "properties"))
EVENTS = (Column("time", "time", moment), Column("what", "what"), Column("told", "told"))


@app.command("on")
@at_broker
def trace_on(api: Api, vhost: str | None = VHOST) -> None:
    """Trace a virtual host: its messages get stories, and copies go to the exchange amq.rabbitmq.trace."""
    _switch(api, vhost_in(api, vhost), True)


@app.command("off")
@at_broker
def trace_off(api: Api, vhost: str | None = VHOST) -> None:
    """Trace a virtual host no more; its stories are forgotten."""
    _switch(api, vhost_in(api, vhost), False)


def _switch(api: Api, vhost: str, on: bool) -> None:
    api.get("vhosts", vhost)  # a PUT would make one that is not there
    api.put("vhosts", vhost, value={"tracing": on})
    say(f"vhost '{vhost}' is traced" if on else f"vhost '{vhost}' is not traced")


@app.command("list")
@at_broker
def list_stories(
    api: Api,
    text: str | None = typer.Argument(None, metavar="[TEXT]", help="in the message-id, the key, a name or a header"),
    queue: str | None = typer.Option(None, "--queue", metavar="NAME", help="only what came to this queue"),
    exchange: str | None = typer.Option(None, "--exchange", metavar="NAME", help="only what was published to it"),
    limit: int = typer.Option(50, "--limit", metavar="N", min=1, max=500, help="at most so many"),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """List messages whose stories are known, the newest first."""
    where = vhost_in(api, vhost)
    query = {"text": text, "queue": queue, "exchange": exchange, "page": 1, "page_size": limit}
    answer = api.get("traces", where, query=query)
    if as_json:
        print_json(answer)
        return
    page = answer.value
    is_on = where in {row["vhost"] for row in api.get("traces").rows}
    draw(COLUMNS, page["items"], "No message fits." if is_on else f"vhost '{where}' is not traced: leveret trace on")
    if page["filtered_count"] > len(page["items"]):
        sys.stderr.write(f"There are {page['filtered_count']} in all: give a text, or --limit\n")


@app.command("show")
@at_broker
def show_story(api: Api, id_: str = ID, vhost: str | None = VHOST, as_json: bool = AS_JSON) -> None:
    """Tell what became of one message."""
    answer = api.get("traces", vhost_in(api, vhost), id_)
    if as_json:
        print_json(answer)
        return
    facts(FACTS, answer.value)
    sys.stdout.write("\n")
    draw(EVENTS, [row for event in answer.value["events"] for row in _rows(event)], "Nothing has happened to it.")


def _rows(event: Row) -> list[Row]:
    """One for the event, and one for each binding that had a part in it."""
    named = event | {"exchange": event["exchange"] or "(default)"} if "exchange" in event else event
    told = ", ".join(f"{key} {_said(value)}" for key, value in named.items() if key not in LESS)
    rows: list[Row] = [{"time": event["time"], "what": event["what"], "told": told}]
    for step in event.get("bindings", ()):
        way = f"{step['source'] or '(default)'} -> {step['destination']} by {step['by']} '{step['routing_key']}'"
        rows.append({"time": event["time"], "what": "", "told": way})
    return rows


def _said(value: Any) -> str:
    if value == "":
        return "''"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


@app.command("forget")
@at_broker
def forget_stories(
    api: Api, id_: str | None = typer.Argument(None, metavar="[ID]", help="one; else all"), vhost: str | None = VHOST
) -> None:
    """Forget the story of one message, or all of them; the messages stay where they are."""
    where = vhost_in(api, vhost)
    api.delete("traces", where, *([] if id_ is None else [id_]))
    say(f"the story of '{id_}' is forgotten" if id_ is not None else f"all stories of vhost '{where}' are forgotten")
