"""``leveret schedules``."""

from __future__ import annotations

import sys

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.output import print_line, print_list
from leveret.cli.tables import Column, moment, name, size

app = group("List and cancel scheduled messages.")


COLUMNS = (
    Column("id", "id"),
    Column("due", "due", moment),
    Column("exchange", "exchange", name),
    Column("routing key", "routing_key"),
    Column("size", "size", size),
)


@app.command("list")
@at_broker
def list_schedules(
    api: Api,
    limit: int = typer.Option(100, "--limit", metavar="N", min=1, max=1000, help="Maximum number of messages."),
    after: str | None = typer.Option(None, "--after", metavar="PLACE", help="Continue where a previous list ended."),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """List scheduled messages, the next one first."""
    answer = api.get("schedules", vhost_in(api, vhost), query={"limit": limit, "after": after})
    empty = "No scheduled messages. To schedule one, publish it with the header x-delay."
    print_list(answer, COLUMNS, empty, as_json, "messages")
    page = answer.value
    if page["next"] is not None and not as_json:
        sys.stderr.write(f"{page['count']} in total; for more: leveret schedules list --after {page['next']}\n")


@app.command("cancel")
@at_broker
def cancel_schedule(
    api: Api, id_: str = typer.Argument(metavar="ID", help="As listed."), vhost: str | None = VHOST
) -> None:
    """Cancel a scheduled message."""
    api.delete("schedules", vhost_in(api, vhost), id_)
    print_line(f"message '{id_}' cancelled")
